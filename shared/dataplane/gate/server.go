package gate

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

// Listeners are what a gate serves. Its Service maps ports 53, 80 and 443 to them.
type Listeners struct {
	// Packets and Queries are for DNS by UDP and by TCP.
	Packets net.PacketConn
	Queries net.Listener
	// HTTP and TLS are for the ports 80 and 443 of hosts.
	HTTP, TLS net.Listener
	// Metrics may be nil.
	Metrics net.Listener
}

// service is a gate that serves.
type service struct {
	*Gate
	listeners Listeners
	// failed gets what each of the parts ends with.
	failed chan error
	parts  int
	// work has the connections that no http.Server has.
	work sync.WaitGroup

	web, brokeredWeb, scrapes *http.Server
}

// Serve serves agents until ctx is done, and then drains: after DrainDelay it accepts no connection, requests in flight
// finish within Drain, and other connections end when they fall silent. It closes the listeners, and publishes the
// counts that were not reported.
func (g *Gate) Serve(ctx context.Context, l Listeners) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s := &service{Gate: g, listeners: l, failed: make(chan error, maxParts)}
	s.start(run)
	var err error
	select {
	case err = <-s.failed:
		s.parts--
	case <-ctx.Done():
		s.drain()
	}
	err = errors.Join(err, s.closeListeners())
	g.brokered.close()
	_ = s.web.Close()
	_ = s.brokeredWeb.Close()
	_ = s.scrapes.Close()
	stop()
	g.links.drain(0)
	for range s.parts {
		err = errors.Join(err, <-s.failed)
	}
	s.work.Wait()
	g.links.drain(0) // of connections that were accepted while the others were closed
	g.tenants.close()
	if err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	return nil
}

const maxParts = 8

// begin starts a part of the service.
func (s *service) begin(part func() error) {
	s.parts++
	go func() {
		err := part()
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
			err = nil
		}
		s.failed <- err
	}()
}

func (s *service) start(ctx context.Context) {
	l, busy := s.listeners, alertInternalError.record()
	s.web = s.newServer(s.serveWeb)
	intake.Bound(s.web)
	withConn, onState := s.web.ConnContext, s.web.ConnState
	s.web.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return withLink(withConn(ctx, c), c) }
	s.web.ConnState = func(c net.Conn, state http.ConnState) {
		onState(c, state)
		noteTunnel(c, state)
	}
	s.brokeredWeb = s.newServer(s.serveBrokered)
	s.brokeredWeb.Protocols.SetHTTP2(true)
	s.brokeredWeb.ConnContext = withLink
	s.brokeredWeb.ConnState = func(c net.Conn, state http.ConnState) {
		noteTunnel(c, state)
		if state == http.StateIdle {
			linkBelow(c).expect()
		}
	}
	s.scrapes = &http.Server{Handler: s.operator(), ReadHeaderTimeout: s.o.Timeouts.Hello, ErrorLog: s.web.ErrorLog}

	s.begin(func() error { return s.servePackets(ctx, l.Packets) })
	s.begin(func() error { return s.accept(ctx, listener{l.Queries, &s.links, nil}, s.serveQueries) })
	s.begin(func() error { return s.accept(ctx, listener{l.TLS, &s.links, busy}, s.serveTLS) })
	s.begin(func() error {
		return s.web.Serve(intake.Listen(listener{l.HTTP, &s.links, []byte(busyAnswer)}, intake.Limits{
			Connections: s.o.Limits.Connections, Unfinished: maxUnfinished, Shared: true,
		}))
	})
	s.begin(func() error { return s.brokeredWeb.Serve(s.brokered) })
	if l.Metrics != nil {
		s.begin(func() error { return s.scrapes.Serve(l.Metrics) })
	}
	s.work.Go(func() { s.links.watch(ctx) })
	s.work.Go(func() { s.reportCounts(ctx) })
	s.work.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				s.sweep(now)
			case <-ctx.Done():
				return
			}
		}
	})
}

const (
	// webIdle is how long a connection of an agent is kept without a request.
	webIdle = 2 * time.Minute
	// maxUnfinished bounds the headers that are arriving on port 80.
	maxUnfinished = 16 << 20

	busyAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)

// newServer returns a server of requests by HTTP/1.1.
func (s *service) newServer(handler http.HandlerFunc) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: handler, Protocols: protocols, ReadHeaderTimeout: s.o.Timeouts.Hello, IdleTimeout: webIdle,
		MaxHeaderBytes: intake.MaxHeader, DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 128 << 10,
			SendPingTimeout: 30 * time.Second,
		},
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
}

// noteTunnel notes that a server's connection has become a WebSocket.
func noteTunnel(c net.Conn, state http.ConnState) {
	if state == http.StateHijacked {
		linkBelow(c).becomeTunnel()
	}
}

// acceptPause is how long the gate waits after it could not accept a connection, for want of file descriptors, say.
const acceptPause = 50 * time.Millisecond

// accept serves the connections of a listener until it is closed.
func (s *service) accept(ctx context.Context, l listener, serve func(context.Context, *link)) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			slog.WarnContext(ctx, "connection could not be accepted", "error", err.Error())
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
				return nil
			}
			continue
		}
		if k, ok := c.(*link); ok {
			s.work.Go(func() { serve(ctx, k) })
		}
	}
}

func (s *service) closeListeners() error {
	var err error
	for _, l := range []net.Listener{s.listeners.Queries, s.listeners.HTTP, s.listeners.TLS, s.listeners.Metrics} {
		if l != nil {
			err = errors.Join(err, ignoreClosed(l.Close()))
		}
	}
	return errors.Join(err, ignoreClosed(s.listeners.Packets.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drainPoll is how often draining looks for connections that have fallen silent.
const drainPoll = 100 * time.Millisecond

// drain waits for the connections and requests in flight. Queries of agents are answered until they are over.
func (s *service) drain() {
	s.draining.Store(true)
	t := s.o.Timeouts
	ctx, cancel := context.WithTimeout(context.Background(), t.DrainDelay+t.Drain)
	defer cancel()
	if t.DrainDelay > 0 {
		delay := time.NewTimer(t.DrainDelay)
		defer delay.Stop()
		<-delay.C
	}
	_ = s.listeners.TLS.Close()
	var servers sync.WaitGroup
	servers.Go(func() { _ = s.web.Shutdown(ctx) }) // ends with ctx; then the connections are closed
	servers.Go(func() { _ = s.brokeredWeb.Shutdown(ctx) })
	s.links.wake()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for s.links.drain(t.TunnelIdle) > 0 && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	servers.Wait()
}

// handover is a listener of connections that another part of the gate has accepted.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newHandover() handover {
	h := handover{conns: make(chan net.Conn), closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	return h
}

// give hands a connection over. It returns false if no server takes it any more.
func (h handover) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements net.Listener.
func (h handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h handover) Close() error {
	h.close()
	return nil
}

// Addr implements net.Listener.
func (handover) Addr() net.Addr { return &net.TCPAddr{} }
