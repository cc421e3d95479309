package function

import "context"

// shutdownKey is the context key of the channel of WithShutdown.
type shutdownKey struct{}

// WithShutdown returns a context with a channel that is closed when the process begins to shut down. Requests in flight
// have some seconds left from then on.
func WithShutdown(ctx context.Context, begun <-chan struct{}) context.Context {
	return context.WithValue(ctx, shutdownKey{}, begun)
}

// Shutdown returns a channel that is closed when the process begins to shut down. A handler that waits for events ends
// its answer then. The channel is nil, and never closed, if the server does not report its shutdown.
func Shutdown(ctx context.Context) <-chan struct{} {
	begun, _ := ctx.Value(shutdownKey{}).(<-chan struct{})
	return begun
}
