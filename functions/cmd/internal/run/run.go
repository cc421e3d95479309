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
	"syscall"
	"time"

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

const (
	// shutdownTime bounds a shutdown: Cloud Run kills the process ten seconds after SIGTERM.
	shutdownTime = 9500 * time.Millisecond
	// drainTime bounds requests in flight after SIGTERM. The rest of the time is for what their changes publish.
	drainTime = 8 * time.Second
)

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
	ending, stop := afterShutdown(ctx)
	defer stop()
	return errors.Join(serve(ctx, s), closeUntil(ending, s.Close))
}

// afterShutdown returns a context that ends when the shutdown must have ended, which begins at the end of ctx.
func afterShutdown(ctx context.Context) (ending context.Context, stop func()) {
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopWaiting := context.AfterFunc(ctx, func() { time.AfterFunc(shutdownTime, cancel) })
	return ending, func() {
		stopWaiting()
		cancel()
	}
}

// closeUntil closes, and returns without waiting for the rest at the end of ctx.
func closeUntil(ctx context.Context, closeAll func() error) error {
	closed := make(chan error, 1)
	go func() { closed <- closeAll() }()
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("clients were still closing %s after the shutdown began", shutdownTime)
	}
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

// serve serves until ctx is done and the requests in flight have finished.
func serve(ctx context.Context, s Service) error {
	var listening net.ListenConfig
	l, err := listening.Listen(ctx, "tcp", net.JoinHostPort(s.Host, s.Port))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	h, err := frameworkHandler(ctx, s.Handler)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	ending, end := context.WithCancel(context.Background())
	defer end()
	server := function.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(w, req.WithContext(function.WithShutdown(req.Context(), ending)))
	}))
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	slog.Info("serving", "address", l.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	end()
	return drain(server)
}

// drain refuses new requests and waits for the responses of those in flight.
func drain(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests were still in flight %s after the shutdown began: %w", drainTime, err)
	}
	return nil
}
