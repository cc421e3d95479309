//go:build unix && !linux

package process

import "os/exec"

// bindToParent uses the shell: only Linux can tie a child to its parent's life.
func bindToParent(cmd *exec.Cmd) (release func(), err error) { return wrapInShell(cmd) }
