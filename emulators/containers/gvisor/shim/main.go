// Command shim is gVisor's containerd-shim-runsc-v1, started so that it needs no CAP_SYS_RESOURCE.
//
// gVisor's own command gives up if it may not protect the shim from the kernel's out-of-memory killer, which a root user
// in a container often may not. This one gives the shim the protection that containerd has.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	gvisor "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin" // registers the shim's service
)

const (
	protocol = "ttrpc"
	version  = 2 // of the API that gVisor's shim serves
	// addressFile tells the shim which socket to remove when it ends.
	addressFile = "address"
)

func main() {
	shim.Run(context.Background(), starter{gvisor.NewShimManager("io.containerd.runsc.v1")})
}

// starter is gVisor's manager of shims, except for the start.
type starter struct{ shim.Manager }

// Start starts the shim of a container. It serves at a socket that it inherits.
func (starter) Start(ctx context.Context, id string, o shim.StartOpts) (_ shim.BootstrapParams, err error) {
	address, err := shim.SocketAddress(ctx, o.Address, id, o.Debug)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	socket, err := shim.NewSocket(address)
	if err != nil && shim.SocketEaddrinuse(err) { // of a shim that was killed
		if err = shim.RemoveSocket(address); err == nil {
			socket, err = shim.NewSocket(address)
		}
	}
	if err != nil {
		return shim.BootstrapParams{}, fmt.Errorf("make the shim's socket: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, socket.Close(), shim.RemoveSocket(address))
		}
	}()
	cmd, err := command(ctx, id, o)
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	file, err := socket.File()
	if err != nil {
		return shim.BootstrapParams{}, err
	}
	defer file.Close() //nolint:errcheck // the shim has it
	cmd.ExtraFiles = []*os.File{file}
	if err := errors.Join(os.WriteFile(addressFile, []byte(address), 0o600), cmd.Start()); err != nil {
		return shim.BootstrapParams{}, err
	}
	if err := shim.AdjustOOMScore(cmd.Process.Pid); err != nil {
		return shim.BootstrapParams{}, errors.Join(err, cmd.Process.Kill())
	}
	return shim.BootstrapParams{Version: version, Address: address, Protocol: protocol}, cmd.Process.Release()
}

// command returns the command of a shim that serves.
func command(ctx context.Context, id string, o shim.StartOpts) (*exec.Cmd, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-namespace", namespace, "-address", o.Address, "-id", id}
	if o.Debug {
		args = append(args, "-debug")
	}
	cmd := exec.Command(self, args...) //nolint:noctx // the shim outlives this process
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, nil
}
