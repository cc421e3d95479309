//go:build unix && !linux

package process

import (
	"net"
	"os/exec"
	"strconv"
)

// bindToParent uses the shell: only Linux can tie a child to its parent's life.
func bindToParent(cmd *exec.Cmd) (release func(), err error) { return wrapInShell(cmd) }

// reserve listens on a port until release: only Linux lets a server listen on a port that is bound.
func reserve(port int) (release func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // returns immediately
	if err != nil {
		return nil, err
	}
	return func() { _ = listener.Close() }, nil
}
