package process

import (
	"errors"
	"os/exec"
	"syscall"
)

// bindToParent makes the kernel kill the child when the thread that started it exits, and thus when this process dies.
// It uses SIGKILL because no process would be left to follow up on SIGTERM.
func bindToParent(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return func() {}, nil
}

// reserve binds a socket to a port of 127.0.0.1 until this process ends; release does nothing. The option lets a server
// listen on the port although it is bound. It is set after the bind, so that the bind fails if the port is reserved.
func reserve(port int) (release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Bind(socket, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	if err != nil {
		return nil, errors.Join(err, syscall.Close(socket))
	}
	return func() {}, nil
}
