package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

// serveTLS forwards a connection to port 443 of the host that it names.
func (g *Gate) serveTLS(ctx context.Context, k *link) {
	if !g.forwardTLS(ctx, k) {
		_ = k.Close()
	}
}

// forwardTLS returns when the connection has ended. Or it returns true: then a server has the connection.
func (g *Gate) forwardTLS(ctx context.Context, k *link) (handed bool) {
	_ = k.SetDeadline(time.Now().Add(g.o.Timeouts.Hello))
	name, hello, err := peek(ctx, k.Conn, k.hold)
	if err != nil && len(hello) == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
		return false // it was opened and closed
	}
	a, ok := g.agentAt(ctx, k.address)
	_ = k.SetDeadline(time.Now().Add(g.o.Timeouts.Hello)) // it may have been held
	if !ok {
		g.metrics.unknown.Inc()
		alertUnrecognizedName.send(k)
		return false
	}
	host := ""
	if err == nil {
		host, err = egress.CanonicalHost(name)
	}
	if err != nil {
		why := egress.NoName
		if errors.Is(err, errHellos) {
			why = egress.TooMany
		}
		g.refuseTLS(k, a, egress.NoHost, why)
		return false
	}
	a, why, ok := k.admit(host)
	switch {
	case !ok: // the address is another agent's now
	case why != "":
		g.refuseTLS(k, a, host, why)
	case len(a.Policy.Injections(host)) == 0:
		g.connect(ctx, k, a, hello)
	case !g.o.brokers():
		g.refuseTLS(k, a, host, egress.Unavailable)
	default:
		return g.broker(k, a, hello)
	}
	return false
}

// refuseTLS tells the agent that it gets no connection.
func (g *Gate) refuseTLS(k *link, a Agent, host string, why egress.Reason) {
	g.refused(a, host, why)
	k.release()
	switch why {
	case egress.Unreachable, egress.Unavailable, egress.TooMany:
		alertInternalError.send(k)
	default:
		alertUnrecognizedName.send(k)
	}
}

// refused counts a refusal.
func (g *Gate) refused(a Agent, host string, why egress.Reason) {
	g.metrics.refused[why].Inc()
	switch why {
	case egress.Unreachable:
		g.counts.used(a.ID, host)
	case egress.TooMany:
		g.tenants.of(a.ID).countFlood(&g.counts, host)
	default:
		g.counts.refused(a.ID, host, why)
	}
}

// connect connects an agent's connection to the host that it leads to, and passes on what both send.
func (g *Gate) connect(ctx context.Context, k *link, a Agent, hello []byte) {
	host := k.hostName()
	dialing, cancel := context.WithTimeout(ctx, g.o.Timeouts.Dial)
	far, err := g.o.Dial(dialing, "tcp", net.JoinHostPort(host, "443"))
	cancel()
	if err != nil {
		why := egress.Unreachable
		if g.o.IsNotPublic(err) {
			why = egress.NotPublic
		}
		g.refuseTLS(k, a, host, why)
		return
	}
	if !k.join(far) { // the policy changed
		_ = far.Close()
		return
	}
	g.counts.used(a.ID, host)
	_ = far.SetWriteDeadline(time.Now().Add(g.o.Timeouts.Hello))
	n, err := far.Write(hello)
	g.metrics.sent.Add(float64(n))
	k.release()
	if err != nil || k.SetDeadline(time.Time{}) != nil || far.SetWriteDeadline(time.Time{}) != nil {
		return
	}
	g.pass(k, far)
}

// pass copies in both directions until both have ended, or one is broken, or both are silent for too long. Between two
// connections of TCP, the system copies without this process (splice).
func (g *Gate) pass(k *link, far net.Conn) {
	var used atomic.Int64 // when something was last copied, in nanoseconds
	used.Store(time.Now().UnixNano())
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		if g.copy(k.Conn, far, &used, g.metrics.received.Add) != nil {
			_ = k.Close()
		}
	}()
	if g.copy(far, k.Conn, &used, g.metrics.sent.Add) != nil {
		_ = k.Close()
	}
	<-answers
}

var errSilent = errors.New("the connection was silent for too long")

// copy copies until the source ends, and passes that on. A deadline interrupts it, which is when it learns whether
// something was copied, and whether the gate drains. A receiver that takes nothing for so long ends it, too: once the
// other direction has ended, nothing else would.
func (g *Gate) copy(to, from net.Conn, used *atomic.Int64, count func(float64)) error {
	for {
		idle := g.o.Timeouts.Idle
		stuck := time.Now().Add(idle + idle/2) //nolint:mnd // later than any read ends
		_ = to.SetWriteDeadline(stuck)
		_ = from.SetReadDeadline(time.Now().Add(idle / 2)) //nolint:mnd // see Timeouts
		if g.draining.Load() {
			idle = g.o.Timeouts.TunnelIdle
			_ = from.SetReadDeadline(time.Now().Add(idle / 2)) //nolint:mnd // see Timeouts
		}
		n, err := io.Copy(to, from)
		count(float64(n))
		if n > 0 {
			used.Store(time.Now().UnixNano())
		}
		switch {
		case err == nil:
			return intake.CloseWrite(to)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case !time.Now().Before(stuck):
			return errSilent // what was read is lost
		case time.Now().UnixNano()-used.Load() >= int64(idle):
			return errSilent
		}
	}
}

// broker hands a connection over to the server that adds secrets. It reports whether it did.
func (g *Gate) broker(k *link, a Agent, hello []byte) bool {
	config, err := g.leaves.config(a.ID, k.hostName())
	if err != nil {
		g.warn("certificate could not be made", a, err)
		g.refuseTLS(k, a, k.hostName(), egress.Unavailable)
		return false
	}
	_ = k.SetDeadline(time.Time{})
	return g.brokered.give(tls.Server(&replay{link: k, head: hello}, config))
}
