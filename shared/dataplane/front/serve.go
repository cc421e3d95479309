package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
)

const (
	headerTimeout = 10 * time.Second
	// idleTimeout is longer than the router's, so that the router closes idle connections first and no request of it
	// meets the close.
	idleTimeout = 3 * time.Minute
	// maxConnections bounds the connections of routers and the kubelet.
	maxConnections = 512
	// maxUnfinished bounds the memory of headers that are arriving. Routers send only whole ones.
	maxUnfinished = 2 << 20

	// drainTime is how long Serve waits for requests in flight. A pod has 30 seconds to end.
	drainTime = 25 * time.Second
	// lingerTime is how long Serve still accepts connections after its readiness fails, so that routers learn of it.
	lingerTime = time.Second
)

// Serve serves on a listener until ctx ends. Then readiness fails, and requests in flight have Options.DrainTime to
// finish.
func (f *Front) Serve(ctx context.Context, l net.Listener) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var handlers sync.WaitGroup // of WebSockets, too, which Shutdown does not wait for
	s := &http.Server{
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, // a request with the target * is refused like any that has no path
		ErrorLog:                     slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			f.ServeHTTP(w, req)
		}),
	}
	intake.Bound(s)
	bounded := intake.Listen(l, intake.Limits{Connections: maxConnections, Unfinished: maxUnfinished})
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { f.watchIdleness(watching) })
	defer watch.Wait()
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(bounded) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drained := f.drain(s, &handlers, f.options.DrainTime)
	end() // closes what is still in flight
	err := s.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(drained, err)
}

// drain fails readiness, and waits until no request is in flight.
func (f *Front) drain(s *http.Server, handlers *sync.WaitGroup, most time.Duration) error {
	f.draining.Store(true)
	f.door.end()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	// A pod ends its containers before its front. Without a container, there is nothing to linger for.
	if f.health.ask(ctx) == nil {
		select {
		case <-time.After(lingerTime):
		case <-ctx.Done():
		}
	}
	if err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("requests were still in flight %s after the shutdown began: %w", most, err)
	}
	done := make(chan struct{})
	go func() { handlers.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("connections were still open %s after the shutdown began: %w", most, ctx.Err())
	}
}
