package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
)

// Serve serves requests and metrics until ctx is done, and then drains: /healthz answers 503, connections are refused
// after DrainDelay, requests in flight finish within Drain, and WebSockets end when they fall silent. It closes both
// listeners. metrics may be nil.
func (r *Router) Serve(ctx context.Context, traffic, metrics net.Listener) error {
	requests := r.server()
	bounded := intake.Listen(traffic, intake.Limits{
		Connections: r.limits.Connections, Unfinished: maxUnfinished, HTTP2: true,
	})
	failed := make(chan error, 2)
	go func() { failed <- requests.Serve(bounded) }()
	servers := 1
	scrapes := &http.Server{Handler: r.Metrics(), ReadHeaderTimeout: r.timeouts.Header, ErrorLog: requests.ErrorLog}
	if metrics != nil {
		servers++
		go func() { failed <- scrapes.Serve(metrics) }()
	}
	var err error
	select {
	case err = <-failed:
		servers--
	case <-ctx.Done():
		err = r.drain(ctx, requests)
	}
	err = errors.Join(err, requests.Close(), scrapes.Close())
	for range servers {
		if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
	}
	if r.wakes != nil {
		r.wakes.close()
	}
	r.transport.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("router: %w", err)
	}
	return nil
}

// server returns the server of requests. The load balancer speaks HTTP/1.1, or HTTP/2 without TLS.
func (r *Router) server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler: r, Protocols: protocols,
		ReadHeaderTimeout: r.timeouts.Header, IdleTimeout: r.timeouts.Idle,
		// A request with the target * is refused like any that has no path.
		DisableGeneralOptionsHandler: true,
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: 1000, SendPingTimeout: 30 * time.Second},
		ErrorLog:                     slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	intake.Bound(s)
	return s
}

// drainPoll is how often draining looks for WebSockets that have fallen silent.
const drainPoll = 100 * time.Millisecond

// drain ends the service. ctx is done; its values are kept.
func (r *Router) drain(ctx context.Context, requests *http.Server) error {
	r.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeouts.DrainDelay+r.timeouts.Drain)
	defer cancel()
	if r.timeouts.DrainDelay > 0 {
		delay := time.NewTimer(r.timeouts.DrainDelay)
		defer delay.Stop()
		<-delay.C
	}
	finished := make(chan error, 1)
	go func() { finished <- requests.Shutdown(ctx) }()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for r.tunnels.closeIdle(r.timeouts.TunnelIdle) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.tunnels.closeIdle(0)
		}
	}
	err := <-finished
	r.tunnels.closeIdle(0) // those that were opened while the others were closed
	if err != nil {
		return fmt.Errorf("requests were still in flight %s after the shutdown began: %w",
			r.timeouts.DrainDelay+r.timeouts.Drain, err)
	}
	return nil
}

// newTransport returns the connections to all agents. The front speaks HTTP/1.1, which WebSockets need. Answers pass
// unchanged: the transport neither asks for compression nor undoes it.
func newTransport(t Timeouts,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) *http.Transport {
	if dial == nil {
		// Keep-alive probes notice a node that disappeared while an agent was thinking.
		dial = (&net.Dialer{Timeout: t.Dial, KeepAlive: 30 * time.Second}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: intake.Dial(dial), Protocols: protocols, DisableCompression: true,
		MaxIdleConns: 4096, MaxIdleConnsPerHost: 64, IdleConnTimeout: t.AgentIdle,
		ExpectContinueTimeout: time.Second,
	}
}
