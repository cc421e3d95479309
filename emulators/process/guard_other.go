//go:build unix && !linux

package process

import (
	"net"
	"os/exec"
	"strconv"
)

// bindToParent uses the shell: only Linux can tie a child to its parent's life.
func bindToParent(cmd *exec.Cmd) (release func(), err error) { return wrapInShell(cmd) }

// reserve only checks that a port is free: only Linux lets a server listen on a port that is bound.
func reserve(port int) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // returns immediately
	if err != nil {
		return err
	}
	return listener.Close()
}
