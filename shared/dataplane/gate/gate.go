// Package gate is the only way out of agents whose egress is an allow list: their name server, and the proxy of their
// connections to ports 80 and 443. It resolves a name only when it connects to it, so a query carries nothing out, and
// it adds the values of brokered secrets to requests, so that agents need not have them. It authenticates agents by
// their addresses, stores nothing, and does not watch the cluster: a port reports the policies.
//
// # What a name on the list admits
//
// On port 443 the gate sees the name in the ClientHello and connects to it; it does not see what is inside of TLS. A
// host that serves other names than its own, as some content delivery networks do, also serves them to the agent, with
// another Host within TLS or with an encrypted ClientHello. So the list should have names whose servers are trusted.
//
// The answer of a host reaches the agent unchanged. A host that repeats a request's header in its answer gives the
// agent the value of the secret: brokered secrets are for hosts that do not. The gate itself refuses TRACE there.
package gate

import (
	"context"
	"log/slog"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

// Gate serves the agents of a cell.
type Gate struct {
	o       Options
	metrics *metrics
	links   links
	waiting waiting
	tenants tenants
	counts  counts
	leaves  leaves
	values  values
	proxy   *httputil.ReverseProxy
	// brokered has the connections whose TLS the gate terminates.
	brokered         handover
	requests, memory atomic.Int64  // of the requests in flight
	hellos           intake.Shares // the memory of those that arrive
	draining         atomic.Bool
	// failures bounds log lines.
	failures *rate.Limiter
}

const failureLogs = 10 // a second

// New returns a gate.
func New(o Options) (*Gate, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gate{o: o, brokered: newHandover(), failures: rate.NewLimiter(failureLogs, failureLogs)}
	g.metrics = newMetrics(g)
	g.hellos.Budget = maxHellos
	g.links.init(g)
	g.waiting.init(o.Limits)
	g.tenants.init(g)
	g.counts.init(o.Now)
	g.values.init(g)
	if g.leaves, err = newLeaves(o); err != nil {
		return nil, err
	}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: transport{}, ErrorHandler: g.handleError, FlushInterval: dataplane.FlushInterval,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), BufferPool: &intake.Buffers{},
	}
	return g, nil
}

// sweepEvery is how often the gate drops what it no longer needs. Values and names of hosts are gone soon after their
// time.
const sweepEvery = 15 * time.Second

func (g *Gate) sweep(now time.Time) {
	g.values.sweep(now)
	g.tenants.sweep(now)
	g.leaves.sweep(g.o.Now())
}

// warn logs that something failed for an agent, if not too much does. err has no value of a secret.
func (g *Gate) warn(message string, a Agent, err error) {
	if g.failures.Allow() {
		slog.WarnContext(context.Background(), message, "agent_id", a.ID, "error", err.Error())
	}
}
