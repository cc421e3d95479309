//go:build unix && !linux

package process

import "syscall"

// processGroup makes a program the leader of a process group. Only Linux can tie it to the life of this process.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
