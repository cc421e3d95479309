// Package run starts a function with functions-framework and ends it well: on SIGTERM requests in flight finish. It
// knows processes, signals and logs; it does not know which function it runs.
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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"golang.org/x/term"

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
	// Debug logs more.
	Debug bool
	// Close releases what the handler works with, after the last request.
	Close func() error
}

// drainTime is how long requests in flight may take after SIGTERM. Cloud Run kills the process after ten seconds.
const drainTime = 9 * time.Second

// Main runs a process until it is told to end: open makes the service from the environment. It never returns.
func Main(open func(ctx context.Context) (Service, error)) {
	slog.SetDefault(logger(os.Stderr, Service{}))
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
	slog.SetDefault(logger(os.Stderr, s))
	var server ending
	failed := make(chan error, 1)
	go func() { failed <- serve(server.watch(s.Handler), s.Host, s.Port) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.end(drainTime)
	}
	return errors.Join(err, s.Close())
}

// logger writes for Cloud Logging, or for a person where one watches.
func logger(out *os.File, s Service) *slog.Logger {
	level := slog.LevelInfo
	if s.Debug {
		level = slog.LevelDebug
	}
	if term.IsTerminal(int(out.Fd())) {
		return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	}
	return function.NewLogger(out, level, s.Project)
}

// serve hands the handler to the framework. The handler is a mux of its own with full patterns, so it is registered for
// every path.
func serve(h http.Handler, host, port string) error {
	ctx := context.Background()
	if err := funcframework.RegisterHTTPFunctionContext(ctx, "/", h.ServeHTTP); err != nil {
		return fmt.Errorf("register the function: %w", err)
	}
	slog.Info("serving", "address", net.JoinHostPort(host, port))
	return funcframework.StartHostPort(host, port)
}

// ending finds the framework's server, which the framework keeps to itself, by the requests that it serves, and ends
// it. A process that has served none has nothing to finish.
type ending struct{ server atomic.Pointer[http.Server] }

func (e *ending) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if e.server.Load() == nil {
			if s, ok := req.Context().Value(http.ServerContextKey).(*http.Server); ok {
				e.server.Store(s)
			}
		}
		h.ServeHTTP(w, req)
	})
}

// end takes no new requests and waits until the answers of those in flight are sent.
func (e *ending) end(most time.Duration) error {
	s := e.server.Load()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests were still in flight %s after the process was told to end: %w", most, err)
	}
	return nil
}
