//go:build unix && !linux

package consoletest

import (
	"os/exec"
	"syscall"
)

// startInGroup starts the browser in a separate process group.
func startInGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
