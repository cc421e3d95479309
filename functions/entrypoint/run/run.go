// Package run starts a function with functions-framework and ends it well: on SIGTERM requests in flight finish. It knows processes,
// signals and logs; it does not know which function it runs.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	"agents.example/controlplane/shared/function"
)

// Service is what a process serves.
type Service struct {
	Handler http.Handler
	// Host is the address to listen on; empty listens on all.
	Host string
	Port string
	// Project is the Google Cloud project that the log's traces belong to.
	Project string
	// Close releases what the handler works with, after the last request.
	Close func() error
}

// drainTime is how long requests in flight may take after SIGTERM. Cloud Run kills the process after ten seconds.
const drainTime = 9 * time.Second

// Main runs a process until it is told to end: open makes the service from the environment. It never returns.
func Main(open func(ctx context.Context) (Service, error)) {
	slog.SetDefault(function.NewLogger(os.Stderr, slog.LevelInfo, ""))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, open); err != nil {
		slog.Error("the process ends", "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, open func(ctx context.Context) (Service, error)) error {
	s, err := open(ctx)
	if err != nil {
		return err
	}
	slog.SetDefault(function.NewLogger(os.Stderr, slog.LevelInfo, s.Project))
	var inFlight drain
	failed := make(chan error, 1)
	go func() { failed <- serve(inFlight.count(s.Handler), s.Host, s.Port) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = inFlight.wait(drainTime)
	}
	return errors.Join(err, s.Close())
}

// serve hands the handler to the framework. The handler is a mux of its own with full patterns, so it is registered for every path.
func serve(h http.Handler, host, port string) error {
	ctx := context.Background()
	if err := funcframework.RegisterHTTPFunctionContext(ctx, "/", h.ServeHTTP); err != nil {
		return fmt.Errorf("register the function: %w", err)
	}
	slog.Info("serving", "address", net.JoinHostPort(host, port))
	return funcframework.StartHostPort(host, port)
}

// drain counts requests in flight, which the framework does not.
type drain struct {
	mu     sync.RWMutex
	ending bool
	active sync.WaitGroup
}

func (d *drain) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		d.mu.RLock()
		if d.ending {
			d.mu.RUnlock()
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the instance is ending", http.StatusServiceUnavailable)
			return
		}
		d.active.Add(1)
		d.mu.RUnlock()
		defer d.active.Done()
		h.ServeHTTP(w, req)
	})
}

func (d *drain) wait(most time.Duration) error {
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	done := make(chan struct{})
	go func() { d.active.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(most):
		return fmt.Errorf("requests were still in flight %s after the process was told to end", most)
	}
}
