package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"

	"k8s.io/klog/v2"

	"agents.example/controlplane/emulators/kubernetes/apiserver"
	"agents.example/controlplane/emulators/kubernetes/controllers"
)

// settings is the command line.
type settings struct {
	dir                 string
	socket              int
	clientCA, kubeletCA string
	egress              string
	extender            string
	verbosity           int
}

// run starts the control plane, reports on stdout that it is ready, and stops it when ctx ends.
func run(ctx context.Context, s settings, stdout io.Writer) (err error) {
	closeLog, err := enter(s)
	if err != nil {
		return err
	}
	defer closeLog()
	listener, err := inherit(s.socket)
	if err != nil {
		return err
	}
	server, err := apiserver.Start(ctx, apiserver.Options{
		Dir: s.dir, Listener: listener, ClientCA: s.clientCA, KubeletCA: s.kubeletCA, Egress: s.egress,
	})
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
	parts.run("controllers", func(ctx context.Context) error {
		return controllers.RunManager(ctx, controllers.ManagerOptions{Kubeconfig: server.Kubeconfig})
	})
	parts.run("namespace deletion",
		func(ctx context.Context) error { return controllers.RunNamespaceDeletion(ctx, server.Config) })
	parts.run("scheduler", func(ctx context.Context) error {
		return controllers.RunScheduler(ctx, controllers.SchedulerOptions{
			Dir: s.dir, Kubeconfig: server.Kubeconfig, Extender: s.extender,
		})
	})
	if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
		return fmt.Errorf("say that the control plane is ready: %w", err)
	}
	<-parts.ctx.Done()
	return nil
}

// inherit returns the socket that the parent listens on.
func inherit(number int) (net.Listener, error) {
	file := os.NewFile(uintptr(number), "API server's socket")
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("use open file %d as the API server's socket: %w", number, err)
	}
	return listener, file.Close() // the listener has its own
}

// enter changes to the state directory, because the path of a Unix socket is limited to about 100 bytes and relative
// paths are short. It also redirects the parts' log to a file there.
func enter(s settings) (closeLog func(), err error) {
	if err := os.Chdir(s.dir); err != nil {
		return nil, fmt.Errorf("enter the state directory: %w", err)
	}
	file, err := os.Create("kubernetes.log")
	if err != nil {
		return nil, fmt.Errorf("create the log: %w", err)
	}
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": strconv.Itoa(s.verbosity),
	} {
		if err := flags.Set(name, value); err != nil {
			return nil, errors.Join(fmt.Errorf("set log flag %s: %w", name, err), file.Close())
		}
	}
	klog.SetOutput(file)
	// klog's OsExit would end the whole process when a controller does not stop in time. Ending only the goroutine lets
	// etcd close its files.
	klog.OsExit = func(int) { runtime.Goexit() }
	return func() {
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
