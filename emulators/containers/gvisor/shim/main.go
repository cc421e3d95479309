// Command shim is gVisor's containerd-shim-runsc-v1, started so that it needs no CAP_SYS_RESOURCE.
//
// gVisor's own command gives up if it may not protect the shim from the kernel's out-of-memory killer, which a root user
// in a container often may not. This one starts the shim as containerd starts runc's, which asks for less: one shim for
// each pod, with the score of containerd.
package main

import (
	"context"
	"os"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	"github.com/containerd/containerd/v2/pkg/shim"
	gvisor "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin" // registers the shim's service
)

const runtime = "io.containerd.runsc.v1"

func main() {
	shim.Run(context.Background(), starter{Manager: gvisor.NewShimManager(runtime), runc: manager.NewShimManager(runtime)})
}

// starter is gVisor's manager of shims, except for the start.
type starter struct {
	shim.Manager
	runc shim.Manager
}

// Start starts the shim of a pod, unless it runs already.
func (s starter) Start(ctx context.Context, id string, o shim.StartOpts) (shim.BootstrapParams, error) {
	params, err := s.runc.Start(ctx, id, o)
	if err != nil {
		return params, err
	}
	params.Version = 2 // of the API that gVisor's shim serves
	// The shim removes the socket of this address when it ends.
	return params, os.WriteFile("address", []byte(params.Address), 0o600)
}
