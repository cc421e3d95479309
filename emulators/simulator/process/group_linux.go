package process

import "syscall"

// processGroup makes a program the leader of a process group that the kernel kills when this process dies.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
