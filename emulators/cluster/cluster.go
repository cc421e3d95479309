//go:build unix

// Package cluster runs a local Kubernetes cluster: a control plane, embedded in this process or real, with simulated
// nodes and volumes. Pods become ready, or fail on demand, but no container runs; pods of the images in Options.Images
// run as processes.
//
// Nodes and volumes are simulated in this process, for both kinds of control planes: package simulator does that as a
// client of the API. The real control plane is the nested module emulators/kubernetes, which this package builds, once
// for each state of its sources, and runs as a child. Package cluster imports nothing of that module, which keeps
// Kubernetes' dependencies out of this one. Many clusters may run in one process.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agents.example/controlplane/emulators/process"
)

const (
	// startTimeout bounds what takes seconds on an idle machine.
	startTimeout = 5 * time.Minute
	defaultNodes = 3
)

// Options configure Start.
type Options struct {
	// Dir holds the cluster's state: data, certificates, kubeconfig and logs. A cluster that is started there again
	// continues with that state. Required; only one cluster at a time may use it.
	Dir string
	// Kind is the kind of the control plane; empty means Embedded.
	Kind Kind
	// Addr is the API server's loopback address as host:port. Empty picks a free port.
	Addr string
	// Nodes is the number of simulated nodes; 0 means 3. Each has 256 CPUs, 1 TiB of memory and room for 10,000 pods.
	Nodes int
	// Images maps images to directories of programs. Pods whose images are all known run as processes of this machine,
	// with probes, logs and volumes; a container's command names the program in the directory, and the default is
	// "entrypoint". Needs Linux. The package comment of emulators/simulator/podworker says what differs from a
	// container.
	Images map[string]string
	// NodeSocket is the Unix socket of an HTTP CONNECT proxy into the network of the node real-0, which runs containers
	// in addition to the simulated nodes. It need not exist yet. Pods go to that node, except those of Images, of
	// kube-system and of namespaces with a fault. NodeFiles returns what the node needs. Needs the kind Real.
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

	dir   string
	pid   int
	parts *group
	done  chan struct{}
	err   error // written before done is closed
}

// Start returns when the cluster can be used: nodes are ready, a default storage class exists, controllers and
// scheduler run, the API server refuses to lower the generation of an agent's objects, and a first pod became ready. A
// real control plane also serves the Gateway API resources that an HTTPRoute needs. ctx bounds only the start. It takes
// less than a second, or about 5 s with a real control plane, whose binary is built if it is missing. Neither a real
// control plane nor a process of a pod can outlive this process, even if this process is killed. Close ends the cluster
// gracefully.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start the local Kubernetes cluster: %w", err)
	}
	return c, nil
}

func start(ctx context.Context, o Options) (_ *Cluster, err error) {
	s := &starting{options: o, parts: newGroup()}
	if err := s.options.complete(); err != nil {
		return nil, err
	}
	s.dir = s.options.Dir
	if s.options.Kind == Real {
		if s.binary, err = Build(ctx, o.Progress); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("timed out after %s", startTimeout))
	defer cancel()
	// A part that ends early ends the start, too, and says why.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.parts.ctx, func() { stop(context.Cause(s.parts.ctx)) })()
	if err := s.start(ctx); err != nil {
		err = errors.Join(err, s.parts.stop())
		if s.plane != nil {
			err = errors.Join(err, s.plane.Close())
		}
		return nil, err
	}
	c := &Cluster{Kubeconfig: s.kubeconfig, dir: s.dir, pid: os.Getpid(), parts: s.parts, done: make(chan struct{})}
	if child, ok := s.plane.(*process.Process); ok {
		c.pid = child.Pid()
	}
	go c.supervise(s.plane)
	return c, nil
}

// complete checks the options and makes paths absolute.
func (o *Options) complete() (err error) {
	switch {
	case o.Dir == "":
		return errors.New("Options.Dir is empty")
	case o.Kind == "":
		o.Kind = Embedded
	case o.Kind != Embedded && o.Kind != Real:
		return fmt.Errorf("unknown kind %q", o.Kind)
	}
	if o.NodeSocket != "" && o.Kind != Real {
		return fmt.Errorf("a node that runs containers needs a %s control plane, not an %s one", Real, o.Kind)
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return fmt.Errorf("resolve the state directory: %w", err)
	}
	if o.NodeSocket != "" {
		if o.NodeSocket, err = filepath.Abs(o.NodeSocket); err != nil {
			return fmt.Errorf("resolve the node's socket: %w", err)
		}
	}
	return nil
}

// supervise ends the cluster when its first part has ended: the simulator and with it the pods' processes, then the
// control plane.
func (c *Cluster) supervise(plane controlPlane) {
	<-c.parts.ctx.Done()
	c.err = errors.Join(c.parts.stop(), plane.Close())
	close(c.done)
}

// NodeFiles returns the directory of the files for the node of Options.NodeSocket: kubeconfig, kubelet.crt and
// kubelet.key of its kubelet, client-ca.crt for the kubelet's clients, and network.kubeconfig for the program that
// enforces network policies. The kubeconfigs name the API server https://127.0.0.1:6443. The next start replaces them.
func (c *Cluster) NodeFiles() string { return filepath.Join(c.dir, "real-node") }

// Pid is the process of the control plane: this one if it is embedded.
func (c *Cluster) Pid() int { return c.pid }

// Done is closed when the cluster has ended, for any reason.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Close ends the cluster gracefully, in about a second, and keeps its state. It may be called again. It returns an
// error if the cluster had ended before.
func (c *Cluster) Close() error {
	c.parts.cancel(context.Canceled) // without effect if a part ended before
	<-c.done
	return c.err
}

// Kind is the kind of a cluster's control plane. The zero value is Embedded.
type Kind string

const (
	// Embedded is an API server that is part of this program. It has no custom resources, and no node that runs
	// containers.
	Embedded Kind = "embedded"
	// Real is etcd and Kubernetes' API server, controllers and scheduler, as a child of this process.
	Real Kind = "real"
)

// UnmarshalText reads a kind, such as a flag. Empty text is Embedded.
func (k *Kind) UnmarshalText(text []byte) error {
	switch kind := Kind(text); kind {
	case Embedded, Real:
		*k = kind
	case "":
		*k = Embedded
	default:
		return fmt.Errorf("cluster %q: want %s or %s", text, Embedded, Real)
	}
	return nil
}

// MarshalText writes a kind for UnmarshalText.
func (k Kind) MarshalText() ([]byte, error) {
	if k == "" {
		return []byte(Embedded), nil
	}
	return []byte(k), nil
}
