package function

import "context"

// shutdownKey is the context key of the context of WithShutdown.
type shutdownKey struct{}

// WithShutdown returns a context that carries another one, which ends when the process begins to shut down. Requests in
// flight have some seconds left from then on.
func WithShutdown(ctx, shutdown context.Context) context.Context {
	return context.WithValue(ctx, shutdownKey{}, shutdown)
}

// Shutdown returns a channel that is closed when the process begins to shut down. A handler that waits for events ends
// its answer then. The channel is nil, and never closed, if the server does not report its shutdown.
func Shutdown(ctx context.Context) <-chan struct{} {
	shutdown, ok := ctx.Value(shutdownKey{}).(context.Context)
	if !ok {
		return nil
	}
	return shutdown.Done()
}

// UntilShutdown returns a copy of ctx that also ends when the process begins to shut down. It starts no goroutine.
func UntilShutdown(ctx context.Context) (context.Context, context.CancelFunc) {
	shutdown, ok := ctx.Value(shutdownKey{}).(context.Context)
	ctx, cancel := context.WithCancel(ctx)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(shutdown, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
