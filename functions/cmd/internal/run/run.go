// Package run starts a function with functions-framework and shuts it down gracefully: on SIGTERM, requests in flight
// finish. It does not choose or configure the function.
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
	// Host is the address to listen on. If empty, all addresses.
	Host string
	Port string
	// Project is the Google Cloud project of the traces in the log.
	Project string
	// Debug enables debug logging.
	Debug bool
	// Close releases the clients of the handler, after the last request.
	Close func() error
}

// drainTime bounds requests in flight after SIGTERM. Cloud Run kills the process after ten seconds.
const drainTime = 9 * time.Second

// Main runs a process until SIGTERM or SIGINT. open creates the service from the environment. Main never returns.
func Main(open func(ctx context.Context) (Service, error)) {
	slog.SetDefault(logger(os.Stderr, Service{}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, err := open(ctx)
	if err != nil {
		slog.Error("startup failed", "error", err.Error())
		os.Exit(1)
	}
	if err := run(ctx, s); err != nil {
		slog.Error("serving failed", "error", err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, s Service) (err error) {
	slog.SetDefault(logger(os.Stderr, s))
	var server ending
	failed := make(chan error, 1)
	server.begun = make(chan struct{})
	go func() { failed <- serve(server.watch(s.Handler), s.Host, s.Port) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.end(drainTime)
	}
	return errors.Join(err, s.Close())
}

// logger writes structured logs for Cloud Logging, or text if out is a terminal.
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

// serve passes the handler to the framework. The handler is a mux with complete patterns, so it is registered for every
// path.
func serve(h http.Handler, host, port string) error {
	ctx := context.Background()
	if err := funcframework.RegisterHTTPFunctionContext(ctx, "/", h.ServeHTTP); err != nil {
		return fmt.Errorf("register the function: %w", err)
	}
	slog.Info("serving", "address", net.JoinHostPort(host, port))
	return funcframework.StartHostPort(host, port)
}

// ending shuts down the framework's server. The framework does not expose it, so ending takes it from the context of a
// request. A process that has served no request has nothing to finish.
type ending struct {
	server atomic.Pointer[http.Server]
	// begun is closed when the shutdown begins.
	begun chan struct{}
}

func (e *ending) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if e.server.Load() == nil {
			if s, ok := req.Context().Value(http.ServerContextKey).(*http.Server); ok {
				e.server.Store(s)
			}
		}
		h.ServeHTTP(w, req.WithContext(function.WithShutdown(req.Context(), e.begun)))
	})
}

// end refuses new requests and waits for the responses of those in flight.
func (e *ending) end(most time.Duration) error {
	close(e.begun)
	s := e.server.Load()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests were still in flight %s after the shutdown began: %w", most, err)
	}
	return nil
}
