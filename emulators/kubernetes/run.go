package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"agents.example/controlplane/emulators/kubernetes/apiserver"
	"agents.example/controlplane/emulators/kubernetes/bootstrap"
	"agents.example/controlplane/emulators/kubernetes/controllers"
	"agents.example/controlplane/emulators/kubernetes/kubeletserver"
	"agents.example/controlplane/emulators/kubernetes/pki"
	"agents.example/controlplane/emulators/kubernetes/realnode"
	"agents.example/controlplane/emulators/kubernetes/simulator"
)

// settings is the command line.
type settings struct {
	dir        string
	addr       string
	nodes      int
	nodeSocket string // of the node that runs containers; empty without one
	crds       []string
	images     map[string]string // directories of programs by image
	noGVisor   bool
	fence      string
	verbosity  int
}

// run starts the cluster, reports on stdout that it is ready, and stops it when ctx ends.
func run(ctx context.Context, s settings, stdout io.Writer) (err error) {
	dir, closeLog, err := enter(&s)
	if err != nil {
		return err
	}
	defer closeLog()
	files, err := pki.Ensure(dir)
	if err != nil {
		return err
	}
	kubelets, err := kubeletserver.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = kubelets.Listener.Close() }()
	kubeletFiles, err := pki.Kubelet(dir, kubelets.Address.Addr())
	if err != nil {
		return err
	}
	serverOptions := apiserver.Options{Dir: dir, Addr: s.addr, PKI: files, ClientCA: files.CA, Kubelet: kubeletFiles}
	egress, err := addRealNode(ctx, &serverOptions, s.nodeSocket)
	if err != nil {
		return err
	}
	defer egress.Close()
	server, err := apiserver.Start(ctx, serverOptions)
	if ctx.Err() != nil && server == nil {
		return nil // told to stop early, which is no failure
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	parts := newGroup(ctx)
	// runs before the API server stops: the parts need it to stop cleanly
	defer func() { err = errors.Join(err, parts.stop()) }()
	parts.run("proxy to the node that runs containers", egress.Serve)
	sim, err := runSimulator(parts, s, server, kubelets, kubeletFiles)
	if err != nil {
		return err
	}
	runControllers(parts, server, files, controllers.SchedulerOptions{
		Dir: dir, Kubeconfig: server.Kubeconfig, Filters: sim.SchedulerFilters(),
	})
	err = sim.EnsureNodes(parts.ctx, s.nodes)
	if err == nil {
		err = bootstrap.Run(parts.ctx, server.Config, bootstrap.Options{
			CRDs: s.crds, GVisor: !s.noGVisor, Fence: s.fence, RealNode: s.nodeSocket != "",
		})
	}
	if err != nil {
		if parts.ctx.Err() != nil {
			return nil // told to stop early, or a part ended, which parts.stop reports
		}
		return err
	}
	if _, err := fmt.Fprintf(stdout, "ready kubeconfig=%s\n", server.Kubeconfig); err != nil {
		return fmt.Errorf("say that the cluster is ready: %w", err)
	}
	<-parts.ctx.Done()
	return nil
}

// addRealNode makes the API server trust and reach the node that runs containers, if there is one.
func addRealNode(ctx context.Context, o *apiserver.Options, nodeSocket string) (*realnode.Proxy, error) {
	if nodeSocket == "" {
		return nil, nil //nolint:nilnil // without a node, there is nothing to serve
	}
	trust, err := realnode.WriteFiles(o.Dir, o.PKI, o.Kubelet)
	if err != nil {
		return nil, err
	}
	o.ClientCA, o.Kubelet.CA, o.Egress = trust.ClientCA, trust.KubeletCA, egressSocket
	return realnode.Listen(ctx, egressSocket, nodeSocket)
}

// runSimulator runs the simulated nodes and their kubelets' API.
func runSimulator(parts *group, s settings, server *apiserver.Server, kubelets kubeletserver.Endpoint,
	files pki.KubeletFiles,
) (*simulator.Simulator, error) {
	client, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		return nil, fmt.Errorf("make the simulator's client: %w", err)
	}
	sim, err := simulator.New(client, simulator.Options{
		Dir: s.dir, Images: s.images, Kubelets: kubelets.Address, Block: kubelets.Block, NodeSocket: s.nodeSocket,
	})
	if err != nil {
		return nil, err
	}
	parts.run("simulator", sim.Run)
	parts.run("kubelets' API", func(ctx context.Context) error {
		return kubeletserver.Serve(ctx, kubelets.Listener, files, sim)
	})
	return sim, nil
}

// runControllers runs the controllers and the scheduler.
func runControllers(parts *group, server *apiserver.Server, files pki.Files, scheduler controllers.SchedulerOptions) {
	parts.run("controllers", func(ctx context.Context) error {
		return controllers.RunManager(ctx, controllers.ManagerOptions{Kubeconfig: server.Kubeconfig, PKI: files})
	})
	parts.run("namespace deletion",
		func(ctx context.Context) error { return controllers.RunNamespaceDeletion(ctx, server.Config) })
	parts.run("scheduler", func(ctx context.Context) error { return controllers.RunScheduler(ctx, scheduler) })
}

// addImage adds an image from the command line.
func (s *settings) addImage(text string) error {
	name, dir, ok := strings.Cut(text, "=")
	if !ok || name == "" || dir == "" {
		return fmt.Errorf("want NAME=DIR, not %q", text)
	}
	s.images[name] = dir
	return nil
}

const (
	// egressSocket is where the API server finds the proxy to the node that runs containers, in the state directory.
	egressSocket = "egress.sock"
	// maxSocketPath is shorter than the longest path of a Unix socket on any system.
	maxSocketPath = 100
)

// socketPath returns the path of a Unix socket as seen from the state directory dir.
func socketPath(dir, socket string) (string, error) {
	path, err := filepath.Abs(socket)
	if err == nil && len(path) > maxSocketPath {
		path, err = filepath.Rel(dir, path)
	}
	if err != nil {
		return "", fmt.Errorf("resolve the node's socket %s: %w", socket, err)
	}
	return path, nil
}

// enter changes to the state directory, because the path of a Unix socket is limited to about 100 bytes and relative
// paths are short. It first makes the paths of the command line absolute. It also redirects the parts' log to a file
// there.
func enter(s *settings) (dir string, closeLog func(), err error) {
	if dir, err = filepath.Abs(s.dir); err != nil {
		return "", nil, fmt.Errorf("resolve state directory %s: %w", s.dir, err)
	}
	s.dir = dir
	for i, file := range s.crds {
		if s.crds[i], err = filepath.Abs(file); err != nil {
			return "", nil, fmt.Errorf("resolve CRD file %s: %w", file, err)
		}
	}
	if s.fence != "" {
		if s.fence, err = filepath.Abs(s.fence); err != nil {
			return "", nil, fmt.Errorf("resolve the fence %s: %w", s.fence, err)
		}
	}
	for image, programs := range s.images {
		if s.images[image], err = filepath.Abs(programs); err != nil {
			return "", nil, fmt.Errorf("resolve the directory of image %s: %w", image, err)
		}
	}
	if s.nodeSocket != "" {
		if s.nodeSocket, err = socketPath(dir, s.nodeSocket); err != nil {
			return "", nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the state directory: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return "", nil, fmt.Errorf("enter the state directory: %w", err)
	}
	file, err := os.Create("kubernetes.log")
	if err != nil {
		return "", nil, fmt.Errorf("create the log: %w", err)
	}
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": strconv.Itoa(s.verbosity),
	} {
		if err := flags.Set(name, value); err != nil {
			return "", nil, errors.Join(fmt.Errorf("set log flag %s: %w", name, err), file.Close())
		}
	}
	klog.SetOutput(file)
	// klog's OsExit would end the whole process when a controller does not stop in time. Ending only the goroutine lets
	// etcd close its files.
	klog.OsExit = func(int) { runtime.Goexit() }
	return dir, func() {
		klog.Flush()
		klog.SetOutput(io.Discard)
		_ = file.Close()
	}, nil
}

// group runs parts that end together: the first part to end stops all others.
type group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newGroup(ctx context.Context) *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

func (g *group) run(name string, part func(context.Context) error) {
	g.wg.Go(func() {
		err := errors.New("ended early; see kubernetes.log") // stays so when klog ends the goroutine
		defer func() { g.cancel(fmt.Errorf("%s: %w", name, err)) }()
		if e := part(g.ctx); e != nil {
			err = e
		}
	})
}

// stop stops all parts and returns the failure that ended them, if any.
func (g *group) stop() error {
	g.cancel(context.Canceled)
	g.wg.Wait()
	if cause := context.Cause(g.ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
