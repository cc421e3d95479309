// Command router forwards requests for the agents of one cell. It has no Google identity and no secret.
//
// GET /healthz, on any host that is not below CELL_DOMAIN, answers 200, and 503 after SIGTERM. The process listens only
// when it knows all agents.
package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/function"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	c, err := config.Read[config.Router](ctx, envconfig.OsLookuper())
	level := slog.LevelInfo
	if c.Debug {
		level = slog.LevelDebug
	}
	slog.SetDefault(function.NewLogger(os.Stderr, level, ""))
	if err == nil {
		err = serve(ctx, c)
	}
	if err != nil {
		slog.Error("serving failed", "error", err.Error())
		os.Exit(1)
	}
}

// serve watches the cell and forwards requests until ctx is done and the last request has been answered.
func serve(ctx context.Context, c config.Router) (err error) {
	cluster, err := cellwatch.Connect(c.Kubeconfig)
	if err != nil {
		return err
	}
	agents, err := cellwatch.NewEndpoints(cluster)
	if err != nil {
		return err
	}
	o := router.Options{
		Domain: c.CellDomain, Endpoints: agents, Timeouts: router.Timeouts{DrainDelay: c.DrainDelay},
	}
	if c.NotifierURL != "" {
		if o.Waker, err = router.NewNotifier(c.NotifierURL); err != nil {
			return err
		}
	}
	r, err := router.New(o)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // requests in flight may need an address
	var watch sync.WaitGroup
	watch.Go(func() { agents.Run(watching) })
	defer watch.Wait()
	defer stop()
	if err := agents.AwaitSync(ctx); err != nil {
		return err
	}
	traffic, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Host, c.Port))
	if err != nil {
		return err
	}
	metrics, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(c.Host, c.MetricsPort))
	if err != nil {
		return errors.Join(err, traffic.Close())
	}
	slog.Info("serving", "address", traffic.Addr().String(), "metrics", metrics.Addr().String())
	return r.Serve(ctx, traffic, metrics)
}
