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
)

const (
	headerTimeout = 10 * time.Second
	// idleTimeout is longer than the router's, so that the router closes idle connections first and no request of it
	// meets the close.
	idleTimeout = 3 * time.Minute
	// maxHeader bounds a request's header.
	maxHeader = 64 << 10
	// maxConnections bounds the connections of routers and the kubelet.
	maxConnections = 512

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
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, // a request with the target * is refused like any that has no path
		ErrorLog:                     slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			f.ServeHTTP(w, req)
		}),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(&boundedListener{Listener: l, free: make(chan struct{}, maxConnections)}) }()
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

// boundedListener answers connections beyond a bound with 503, and closes them.
type boundedListener struct {
	net.Listener
	free chan struct{} // holds a token for each open connection
}

// busyAnswer is a complete answer.
const busyAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\n\r\nThe agent has too many connections. Retry.\n"

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &countedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = conn.Write([]byte(busyAnswer)) // fits the send buffer of a new connection
			_ = conn.Close()
		}
	}
}

// countedConn gives its token back when it is closed.
type countedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite passes on that the other side sends no more, for WebSockets.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
