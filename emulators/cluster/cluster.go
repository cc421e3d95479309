//go:build unix

// Package cluster runs a local Kubernetes cluster as a child of this process: real etcd, API server, controllers and
// scheduler, with simulated nodes and volumes, so that pods become ready (or fail, on demand) without a container ever
// running.
//
// It knows how to build that cluster from the nested module emulators/kubernetes, once for each state of its sources,
// and how to start and stop it. It does not know Kubernetes' API: users bring their own client. The nested module
// exists so that Kubernetes' dependencies are nobody else's; this package therefore imports nothing of it.
package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/process"
)

const (
	// startTimeout is ten times what a start takes on a busy machine.
	startTimeout = 2 * time.Minute
	// stopGrace is more than the cluster gives itself: 20 s.
	stopGrace = 30 * time.Second
)

// Options configure Start.
type Options struct {
	// Dir keeps the cluster's state: data, certificates, kubeconfig, logs. Started again there, a cluster goes on where
	// it ended. Required; only one cluster at a time may use it.
	Dir string
	// Addr is the API server's loopback address as host:port. Empty picks a free port.
	Addr string
	// Nodes is how many nodes are simulated; 0 means 3. Each has 256 CPUs, 1 TiB of memory and room for 10,000 pods.
	Nodes int
	// NoGVisor leaves out the RuntimeClass gvisor, to see what pods that want it do without.
	NoGVisor bool
	// Progress is told why there is a wait when the cluster must be built first; nil is standard error.
	Progress io.Writer
}

// Cluster is a running cluster. Its methods may be called from any goroutine.
type Cluster struct {
	// Kubeconfig is the path of an administrator's kubeconfig, which needs no other file.
	Kubeconfig string

	process *process.Process
}

// Start builds the cluster if need be and returns when it can be used: nodes are ready, there is a default storage
// class, the custom resources of the Gateway API's standard channel that an HTTPRoute needs are served, controllers and
// scheduler run, and a first pod became ready. ctx bounds the start only, which takes some 5 s, or some 7 minutes with
// the build. The child cannot outlive this process, even killed; Close ends it in good order.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Dir == "" {
		return nil, errors.New("start the local Kubernetes cluster: Options.Dir is empty; give it a directory for its state")
	}
	binary, err := Build(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	crds, err := gatewayCRDs(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the local Kubernetes cluster: %w", err)
	}
	c := &Cluster{}
	log := filepath.Join(o.Dir, "cluster.log")
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("gave up after %s", startTimeout))
	defer cancel()
	c.process, err = process.Start(ctx, process.Options{
		Name: "the local Kubernetes cluster", Path: binary, Args: o.args(crds), LogFile: log, Grace: stopGrace,
		Ready: func(context.Context) (err error) {
			c.Kubeconfig, err = readyLine(log)
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w\nmore may be in %s", err, filepath.Join(o.Dir, "kubernetes.log"))
	}
	return c, nil
}

func (o *Options) args(crds []string) []string {
	args := []string{"-dir", o.Dir}
	if o.Addr != "" {
		args = append(args, "-addr", o.Addr)
	}
	if o.Nodes != 0 {
		args = append(args, "-nodes", strconv.Itoa(o.Nodes))
	}
	if o.NoGVisor {
		args = append(args, "-no-gvisor")
	}
	for _, file := range crds {
		args = append(args, "-crd", file)
	}
	return args
}

// readyLine finds in the child's output the line with which it says that it is ready.
func readyLine(log string) (kubeconfig string, err error) {
	file, err := os.Open(log)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "ready kubeconfig="); ok {
			return path, nil
		}
	}
	return "", errors.New("the cluster has not said yet that it is ready")
}

// Done is closed when the cluster has ended, whoever ended it.
func (c *Cluster) Done() <-chan struct{} { return c.process.Done() }

// Close ends the cluster in good order, in about a second; its state stays. It may be called again. The error says that
// the cluster had ended by itself before.
func (c *Cluster) Close() error { return c.process.Close() }
