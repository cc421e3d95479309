//go:build unix

package node

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"agents.example/controlplane/emulators/buildcache"
	"agents.example/controlplane/emulators/cluster"
)

// The nested modules of the node's programs.
const (
	containersModule = "emulators/containers"
	gvisorModule     = "emulators/containers/gvisor"
	kubernetesModule = "emulators/kubernetes"
)

// coldBuildCPU is about twice the 10 CPU minutes that an idle machine needs.
const coldBuildCPU = 20 * time.Minute

// Build returns the directory of the node's programs in the user's cache directory, and builds those that are not
// there: node, pause, containerd, containerd-shim-runc-v2, ptp, host-local, runsc, containerd-shim-runsc-v1, kubelet.
// It compiles once for each state of the sources, as cluster.Build does. Who needs both calls this Build first: the
// cluster then finds most of its packages compiled. It needs Linux.
func Build(ctx context.Context, progress io.Writer) (dir string, err error) {
	b, err := newBuilder(progress)
	if err != nil {
		return "", err
	}
	return b.Build(ctx)
}

// BuildTime estimates how long Build will take on this machine. It is 0 if the programs are there already.
func BuildTime() (time.Duration, error) {
	b, err := newBuilder(io.Discard)
	if err != nil {
		return 0, err
	}
	return b.Estimate()
}

func newBuilder(progress io.Writer) (*buildcache.Builder, error) {
	if err := checkSystem(runtime.GOOS); err != nil {
		return nil, err
	}
	list, err := programs()
	if err != nil {
		return nil, err
	}
	b := &buildcache.Builder{
		Name: "the real Kubernetes node", Prefix: "node-", ColdCPU: coldBuildCPU, Programs: list,
		KeepFirstCache: func() (bool, error) {
			needed, err := cluster.BuildTime()
			return needed > 0, err
		},
	}
	return b, b.UserCache(progress)
}

// checkSystem refuses systems without containers.
func checkSystem(system string) error {
	if system != "linux" {
		return fmt.Errorf("a real node runs containers, which need Linux, and this system is %s: use simulated nodes",
			system)
	}
	return nil
}

// programs returns the node's programs.
func programs() ([]buildcache.Program, error) {
	containers, err := buildcache.FindModule(containersModule)
	if err != nil {
		return nil, err
	}
	gvisor, err := buildcache.FindModule(gvisorModule)
	if err != nil {
		return nil, err
	}
	kubernetes, err := buildcache.FindModule(kubernetesModule)
	if err != nil {
		return nil, err
	}
	flags := []string{"-trimpath", "-ldflags=-s -w"}
	// The tags leave out snapshotters that need C libraries or tools of the system.
	containerd := append([]string{"-tags=no_btrfs no_zfs no_devmapper"}, flags...)
	definition := []string{"go.mod", "go.sum"}
	return []buildcache.Program{
		{
			Module: kubernetes, Package: "./cmd/kubelet", File: "kubelet", Flags: buildcache.KubernetesFlags(),
			Sources: append([]string{"cmd/kubelet"}, definition...),
		},
		{
			Module: containers, Package: "github.com/containerd/containerd/v2/cmd/containerd", File: "containerd",
			Flags: containerd, Sources: definition,
		},
		{
			Module: containers, Package: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
			File: "containerd-shim-runc-v2", Flags: containerd, Sources: definition,
		},
		{
			Module: containers, Package: "github.com/containernetworking/plugins/plugins/main/ptp", File: "ptp",
			Flags: flags, Sources: definition,
		},
		{
			Module: containers, Package: "github.com/containernetworking/plugins/plugins/ipam/host-local",
			File: "host-local", Flags: flags, Sources: definition,
		},
		{Module: gvisor, Package: "gvisor.dev/gvisor/runsc", File: "runsc", Flags: flags, Sources: definition},
		{Module: gvisor, Package: "./shim", File: "containerd-shim-runsc-v1", Flags: flags},
		{Module: containers, Package: "./pause", File: "pause", Flags: flags},
		{Module: containers, Package: ".", File: "node", Flags: flags},
	}, nil
}
