//go:build unix

package cluster

import (
	"context"
	"io"
	"time"

	"agents.example/controlplane/emulators/buildcache"
)

// coldBuildCPU is about twice the 14 CPU minutes that an idle machine needs.
const coldBuildCPU = 24 * time.Minute

// Build returns the path of the cluster's binary in the user's cache directory and builds it if it is not there. It
// compiles once for each state of the sources: about 7 minutes on 2 cores the first time, again after the first change
// of the nested module, and then seconds. Concurrent callers, in any process, wait for one build. Build reports its
// progress to progress, or to standard error where that is nil. An interrupted build continues where it stopped.
func Build(ctx context.Context, progress io.Writer) (binary string, err error) {
	b, err := newBuilder(progress)
	if err != nil {
		return "", err
	}
	if _, err := gatewayCRDs(ctx); err != nil { // downloads them before the time of a start begins
		return "", err
	}
	return b.Build(ctx)
}

// BuildTime estimates how long Build will take on this machine. It is 0 if the binary is there already.
func BuildTime() (time.Duration, error) {
	b, err := newBuilder(io.Discard)
	if err != nil {
		return 0, err
	}
	return b.Estimate()
}

func newBuilder(progress io.Writer) (*buildcache.Builder, error) {
	module, err := buildcache.FindModule(moduleDir)
	if err != nil {
		return nil, err
	}
	b := &buildcache.Builder{
		Name: "the real Kubernetes API server", Prefix: "kubernetes-", ColdCPU: coldBuildCPU,
		Programs: []buildcache.Program{{Module: module, Package: ".", Flags: buildcache.KubernetesFlags()}},
	}
	return b, b.UserCache(progress)
}
