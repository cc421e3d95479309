//go:build unix

// Package cluster runs a local Kubernetes cluster as a child of this process: a real etcd, API server, controllers and
// scheduler, with simulated nodes and volumes. Pods become ready, or fail on demand, but no container runs; pods of the
// images in Options.Images run as processes.
//
// It builds the cluster from the nested module emulators/kubernetes, once for each state of its sources, and starts and
// stops it. It does not know Kubernetes' API: callers use a client. It imports nothing of the nested module, which
// keeps Kubernetes' dependencies out of this one.
package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/emulators/process"
)

const (
	// startTimeout is ten times what a start takes on a busy machine.
	startTimeout = 2 * time.Minute
	// stopGrace is longer than the 20 s that the cluster takes at most.
	stopGrace = 30 * time.Second
)

// Options configure Start.
type Options struct {
	// Dir holds the cluster's state: data, certificates, kubeconfig and logs. A cluster that is started there again
	// continues with that state. Required; only one cluster at a time may use it.
	Dir string
	// Addr is the API server's loopback address as host:port. Empty picks a free port.
	Addr string
	// Nodes is the number of simulated nodes; 0 means 3. Each has 256 CPUs, 1 TiB of memory and room for 10,000 pods.
	Nodes int
	// Images maps images to directories of programs. Pods whose images are all known run as processes of this machine,
	// with probes, logs and volumes; a container's command names the program in the directory, and the default is
	// "entrypoint". Needs Linux. The package comment of emulators/kubernetes/podworker says what differs from a
	// container.
	Images map[string]string
	// NodeSocket is the Unix socket of an HTTP CONNECT proxy into the network of the node real-0, which runs containers
	// in addition to the simulated nodes. It need not exist yet. Pods go to that node, except those of Images, of
	// kube-system and of namespaces with a fault. NodeFiles returns what the node needs.
	NodeSocket string
	// NoGVisor leaves out the RuntimeClass gvisor, to test pods that need it.
	NoGVisor bool
	// Progress receives the progress of a build, if one is needed; nil is standard error.
	Progress io.Writer
}

// Cluster is a running cluster. Its methods may be called from any goroutine.
type Cluster struct {
	// Kubeconfig is the path of an administrator's kubeconfig, which needs no other file.
	Kubeconfig string

	process *process.Process
	dir     string
}

// Start builds the cluster if its binary is missing, and returns when the cluster can be used: nodes are ready, a
// default storage class exists, the Gateway API resources that an HTTPRoute needs are served, controllers and scheduler
// run, the API server refuses to lower the generation of an agent's objects, and a first pod became ready. ctx bounds
// only the start, which takes about 5 s, or about 7 minutes with a build. The child cannot outlive this process, even
// if this process is killed. Close ends it gracefully.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Dir == "" {
		return nil, errors.New("start the local Kubernetes cluster: Options.Dir is empty")
	}
	binary, err := Build(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	crds, err := gatewayCRDs(ctx)
	var fence string
	if err == nil {
		fence, err = fenceFile()
	}
	if err != nil {
		return nil, fmt.Errorf("start the local Kubernetes cluster: %w", err)
	}
	c := &Cluster{dir: o.Dir}
	log := filepath.Join(o.Dir, "cluster.log")
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("timed out after %s", startTimeout))
	defer cancel()
	c.process, err = process.Start(ctx, process.Options{
		Name: "the local Kubernetes cluster", Path: binary, Args: o.args(crds, fence), LogFile: log, Grace: stopGrace,
		Ready: func(context.Context) (err error) {
			c.Kubeconfig, err = readyLine(log)
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%w\nSee also %s", err, filepath.Join(o.Dir, "kubernetes.log"))
	}
	return c, nil
}

func (o *Options) args(crds []string, fence string) []string {
	args := []string{"-dir", o.Dir, "-fence", fence}
	if o.Addr != "" {
		args = append(args, "-addr", o.Addr)
	}
	if o.Nodes != 0 {
		args = append(args, "-nodes", strconv.Itoa(o.Nodes))
	}
	if o.NodeSocket != "" {
		args = append(args, "-node-socket", o.NodeSocket)
	}
	if o.NoGVisor {
		args = append(args, "-no-gvisor")
	}
	for _, image := range slices.Sorted(maps.Keys(o.Images)) {
		args = append(args, "-image", image+"="+o.Images[image])
	}
	for _, file := range crds {
		args = append(args, "-crd", file)
	}
	return args
}

// readyLine reads the path of the kubeconfig from the line that the child prints when it is ready.
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
	return "", errors.New("the cluster is not ready yet")
}

// NodeFiles returns the directory of the files for the node of Options.NodeSocket: kubeconfig, kubelet.crt and
// kubelet.key of its kubelet, client-ca.crt for the kubelet's clients, and network.kubeconfig for the program that
// enforces network policies. The kubeconfigs name the API server https://127.0.0.1:6443. The next start replaces them.
func (c *Cluster) NodeFiles() string { return filepath.Join(c.dir, "real-node") }

// Pid is the cluster's process: API server, etcd and controllers.
func (c *Cluster) Pid() int { return c.process.Pid() }

// Done is closed when the cluster has exited, for any reason.
func (c *Cluster) Done() <-chan struct{} { return c.process.Done() }

// Close ends the cluster gracefully, in about a second, and keeps its state. It may be called again. It returns an
// error if the cluster had exited before.
func (c *Cluster) Close() error { return c.process.Close() }
