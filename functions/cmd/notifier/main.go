// Command notifier watches one cell and publishes a nudge when an agent's pod, namespace or volume changes.
//
// POST /wake/{id}, of the cell's router, publishes a nudge that wakes an agent if it sleeps.
//
// GET /healthz answers 200 while the process serves, and GET /health/ready after the first lists are complete.
package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/shared/dataplane/notifier"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Notifier](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		return open(ctx, c)
	})
}

// open starts to watch. The service's Close stops watching, and then publishing.
func open(ctx context.Context, c config.Notifier) (run.Service, error) {
	cluster, err := cellwatch.Connect(c.Kubeconfig)
	if err != nil {
		return run.Service{}, err
	}
	publisher, err := pubsub.Open(ctx,
		pubsub.Options{ProjectID: c.ProjectID, Topic: c.NudgeTopic, EmulatorHost: c.PubSubEmulator})
	if err != nil {
		return run.Service{}, err
	}
	n := notifier.New(publisher)
	pods, err := cellwatch.NewPods(cluster, n)
	if err != nil {
		return run.Service{}, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var both sync.WaitGroup
	both.Go(func() { pods.Run(running) })
	both.Go(func() { n.Run(running) })
	return run.Service{
		Handler: handler(n, pods.Synced), Host: c.Host, Port: c.Port, Project: c.ProjectID, Debug: c.Debug,
		Close: func() error {
			stop()
			both.Wait()
			return publisher.Close()
		},
	}, nil
}

// handler answers health checks and the router.
func handler(n *notifier.Notifier, synced func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(notifier.WakePath, n.ServeWake)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !synced() {
			http.Error(w, "the first lists of the cluster are not complete", http.StatusServiceUnavailable)
		}
	})
	return mux
}
