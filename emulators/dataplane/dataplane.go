//go:build unix

// Package dataplane runs the data plane of a local cell: the production router and notifier, in this process or in
// separate ones, each with the rights of its account in the cluster. It builds the binaries that agents' pods run. The
// pods themselves belong to the cluster.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/shared/dataplane/notifier"
	"agents.example/controlplane/shared/dataplane/router"
)

const (
	host = "127.0.0.1"
	// drainTime bounds requests in flight when the local cloud ends.
	drainTime = 2 * time.Second
)

// Binaries say where programs are, if they run as separate processes.
type Binaries struct {
	// Dir is the directory of the binaries; empty runs them in this process. Logs is the directory of their logs.
	Dir, Logs string
}

// Part is a running part of the data plane. Close ends it.
type Part struct {
	close func() error
	// Done is closed when a separate process exits; nil for a part of this process.
	Done <-chan struct{}
}

// Close ends the part.
func (p *Part) Close() error { return p.close() }

// RouterOptions configure StartRouter.
type RouterOptions struct {
	Binaries Binaries
	// Kubeconfig is the file that gives access to the cell.
	Kubeconfig string
	// Domain is the parent of the hostnames of the cell's agents.
	Domain string
	// Addr is the address to listen on; empty is a free port on the loopback interface.
	Addr string
	// Notifier is the URL of the cell's notifier; empty if requests wake no agent.
	Notifier string
	// Timeouts and Limits change the router of this process; the zero values are those of production.
	Timeouts router.Timeouts
	Limits   router.Limits
}

// Router is a running router.
type Router struct {
	Part
	// Addr is the address of requests, and Metrics the URL of its metrics.
	Addr, Metrics string
}

// StartRouter starts the cell's router. ctx bounds the start.
func StartRouter(ctx context.Context, o RouterOptions) (*Router, error) {
	if o.Binaries.Dir != "" {
		return startRouterProcess(ctx, o)
	}
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	agents, err := cellwatch.NewEndpoints(config)
	if err != nil {
		return nil, err
	}
	o.Timeouts.Drain = drainTime
	options := router.Options{Domain: o.Domain, Endpoints: agents, Timeouts: o.Timeouts, Limits: o.Limits}
	closeWaker := func() {}
	if o.Notifier != "" {
		n, err := router.NewNotifier(o.Notifier)
		if err != nil {
			return nil, err
		}
		options.Waker, closeWaker = n, n.Close
	}
	r, err := router.New(options)
	if err != nil {
		return nil, err
	}
	traffic, err := listen(ctx, o.Addr)
	if err != nil {
		return nil, err
	}
	metrics, err := listen(ctx, "")
	if err != nil {
		return nil, errors.Join(err, traffic.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching, serving sync.WaitGroup
	watching.Go(func() { agents.Run(running) })
	if err := agents.AwaitSync(ctx); err != nil {
		stop()
		watching.Wait()
		return nil, errors.Join(err, traffic.Close(), metrics.Close())
	}
	var served error
	serving.Go(func() { served = r.Serve(running, traffic, metrics) })
	return &Router{
		Addr: traffic.Addr().String(), Metrics: "http://" + metrics.Addr().String() + "/metrics",
		Part: Part{close: func() error {
			stop()
			serving.Wait()
			watching.Wait()
			closeWaker()
			return served
		}},
	}, nil
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	if addr == "" {
		addr = net.JoinHostPort(host, "0")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

func startRouterProcess(ctx context.Context, o RouterOptions) (*Router, error) {
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	r := &Router{Addr: o.Addr, Metrics: "http://" + net.JoinHostPort(host, strconv.Itoa(ports[1])) + "/metrics"}
	if r.Addr == "" {
		r.Addr = net.JoinHostPort(host, strconv.Itoa(ports[0]))
	}
	on, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return nil, fmt.Errorf("read the router's address: %w", err)
	}
	r.Part, err = startProcess(ctx, o.Binaries, "router", r.Addr, []string{
		"CELL_DOMAIN=" + o.Domain, "LISTEN_HOST=" + on, "PORT=" + port, "METRICS_PORT=" + strconv.Itoa(ports[1]),
		"KUBECONFIG=" + o.Kubeconfig, "DRAIN_DELAY=0s", notifierURL + "=" + o.Notifier,
	})
	return r, err
}

func startProcess(ctx context.Context, b Binaries, name, addr string, env []string) (Part, error) {
	p, err := process.Start(ctx, process.Options{
		Name: name, Path: filepath.Join(b.Dir, name), LogFile: filepath.Join(b.Logs, name+".log"), Env: env,
		Ready: process.Listening(addr),
	})
	if err != nil {
		return Part{}, err
	}
	return Part{close: p.Close, Done: p.Done()}, nil
}

// NotifierOptions configure StartNotifier.
type NotifierOptions struct {
	Binaries Binaries
	// Kubeconfig is the file that gives access to the cell.
	Kubeconfig string
	// Project and Topic are where nudges are published, and PubSub is the address of the emulator.
	Project, Topic, PubSub string
	// Addr is the address on which it listens for the router; empty is a free port on the loopback interface.
	Addr string
}

// StartNotifier starts the cell's notifier and waits until it knows all agents. ctx bounds the start.
func StartNotifier(ctx context.Context, o NotifierOptions) (*Part, error) {
	if o.Binaries.Dir != "" {
		return startNotifierProcess(ctx, o)
	}
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	publisher, err := pubsub.Open(context.WithoutCancel(ctx),
		pubsub.Options{ProjectID: o.Project, Topic: o.Topic, EmulatorHost: o.PubSub})
	if err != nil {
		return nil, err
	}
	n := notifier.New(publisher)
	pods, err := cellwatch.NewPods(config, n)
	if err != nil {
		return nil, errors.Join(err, publisher.Close())
	}
	wakes, err := listen(ctx, o.Addr)
	if err != nil {
		return nil, errors.Join(err, publisher.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc(notifier.WakePath, n.ServeWake)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: drainTime}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { pods.Run(running) })
	parts.Go(func() { n.Run(running) })
	parts.Go(func() { _ = server.Serve(wakes) }) // it returns when the server is closed
	p := &Part{close: func() error {
		stop()
		err := server.Close()
		parts.Wait()
		return errors.Join(err, publisher.Close())
	}}
	if err := awaitTrue(ctx, pods.Synced); err != nil {
		return nil, errors.Join(fmt.Errorf("list the cell's pods: %w", err), p.Close())
	}
	return p, nil
}

// poll is how often a start looks whether a part is ready.
const poll = 20 * time.Millisecond

func awaitTrue(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func startNotifierProcess(ctx context.Context, o NotifierOptions) (*Part, error) {
	addr := o.Addr
	if addr == "" {
		ports, err := process.FreePorts(1)
		if err != nil {
			return nil, err
		}
		addr = net.JoinHostPort(host, strconv.Itoa(ports[0]))
	}
	on, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("read the notifier's address: %w", err)
	}
	part, err := startProcess(ctx, o.Binaries, "notifier", addr, []string{
		"LISTEN_HOST=" + on, "PORT=" + port, "KUBECONFIG=" + o.Kubeconfig, "GOOGLE_CLOUD_PROJECT=" + o.Project,
		"NUDGE_TOPIC=" + o.Topic, "PUBSUB_EMULATOR_HOST=" + o.PubSub,
	})
	if err != nil {
		return nil, err
	}
	ready := func() bool { return isReady(ctx, "http://"+addr+"/health/ready") }
	if err := awaitTrue(ctx, ready); err != nil {
		return nil, errors.Join(fmt.Errorf("list the cell's pods: %w", err), part.Close())
	}
	return &part, nil
}

func isReady(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // nothing is read
	return res.StatusCode == http.StatusOK
}
