package consoletest

import (
	"os/exec"
	"syscall"
)

// startInGroup starts the browser in a separate process group. The kernel kills it when this process dies.
func startInGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
