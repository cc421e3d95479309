package gate

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

// link is an agent's connection to the gate.
type link struct {
	net.Conn
	owner   *links
	address netip.Addr
	// usedAt is the time, in nanoseconds, of the last read or write that moved data.
	usedAt atomic.Int64
	// held is the memory of a hello or a header that arrives, and arrived the bytes of the header.
	held, arrived atomic.Int64
	// serving means that a request by HTTP/1 within TLS is handled.
	serving atomic.Bool
	// http2 means that the connection has many requests at a time.
	http2 atomic.Bool

	// owner.mu guards the rest.

	agentID string // "" until it is known
	// host is what the connection leads to, or its last request; "" while it leads nowhere.
	host string
	// policy is the one that admitted the host.
	policy *egress.Policy
	// far is the other side of a connection that is passed through.
	far net.Conn
	// tunnel is true for a connection that no http.Server knows (any more): a WebSocket, or one with DNS queries.
	tunnel, closed bool
}

// links holds the open connections of all agents. No call waits for a connection while it holds the lock.
type links struct {
	gate *Gate

	mu        sync.Mutex
	open      map[*link]struct{}
	ofAddress map[netip.Addr]int
}

func (s *links) init(g *Gate) {
	s.gate, s.open, s.ofAddress = g, map[*link]struct{}{}, map[netip.Addr]int{}
}

// listener accepts links.
type listener struct {
	net.Listener
	links *links
	// busy is the answer to connections above the limits.
	busy []byte
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if k := l.links.add(c); k != nil {
			return k, nil
		}
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(l.busy) // fits the send buffer of a new connection
		_ = c.Close()
	}
}

// add returns the link of a connection, or nil if there are too many.
func (s *links) add(c net.Conn) *link {
	address := intake.AddressOf(c.RemoteAddr())
	k := &link{Conn: c, owner: s, address: address}
	k.usedAt.Store(time.Now().UnixNano())
	if s.enter(k) {
		return k
	}
	s.gate.metrics.refused[egress.TooMany].Inc()
	if a, ok := s.gate.o.Policies.Lookup(address); ok {
		s.gate.tenants.of(a.ID).countFlood(&s.gate.counts, egress.NoHost)
	}
	return nil
}

// enter counts a connection if there is room for it. An address gets another one only while it has fewer than are free,
// so that few agents together cannot take all of them from the others.
func (s *links) enter(k *link) bool {
	limits := s.gate.o.Limits
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ofAddress[k.address] >= min(limits.AddressConnections, limits.Connections-len(s.open)) {
		return false
	}
	s.open[k] = struct{}{}
	s.ofAddress[k.address]++
	return true
}

func (s *links) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// admit says where a connection leads from now on, and returns why the policy of its agent refuses that. A later
// change of the policy closes the connection. It fails with ok false if the connection belongs to no agent, or no
// longer to the one that it began with.
func (k *link) admit(host string) (a Agent, why egress.Reason, ok bool) {
	policies := k.owner.gate.o.Policies
	a, ok = policies.Lookup(k.address)
	for ok {
		if why = a.Policy.Check(host); why != "" {
			return a, why, k.belongsTo(a)
		}
		if !k.lead(a, host) {
			return a, "", false
		}
		// The policy may have changed before the connection was known to lead there.
		again, still := policies.Lookup(k.address)
		if again == a {
			return a, "", true
		}
		a, ok = again, still
	}
	return Agent{}, "", false
}

// lead notes where a connection leads, and whose it is.
func (k *link) lead(a Agent, host string) bool {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	if k.closed || k.agentID != "" && k.agentID != a.ID {
		return false
	}
	k.agentID, k.host, k.policy = a.ID, host, a.Policy
	return true
}

func (k *link) belongsTo(a Agent) bool {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	if k.agentID == "" {
		k.agentID = a.ID
	}
	return !k.closed && k.agentID == a.ID
}

func (k *link) becomeTunnel() {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	k.tunnel = true
}

// hostName returns where the connection leads.
func (k *link) hostName() string {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	return k.host
}

// agent returns the agent that the connection began with.
func (k *link) agent() Agent {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	return Agent{ID: k.agentID, Policy: k.policy}
}

// join adds the other side, which ends with the connection. It returns false if the connection is closed, or if
// secrets are added to requests of its host now.
func (k *link) join(far net.Conn) bool {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	if k.closed || len(k.policy.Injections(k.host)) > 0 {
		return false
	}
	k.far = far
	return true
}

// Close implements net.Conn.
func (k *link) Close() error {
	s := k.owner
	s.mu.Lock()
	far := k.far
	if !k.closed {
		k.closed = true
		delete(s.open, k)
		if s.ofAddress[k.address]--; s.ofAddress[k.address] == 0 {
			delete(s.ofAddress, k.address)
		}
	}
	s.mu.Unlock()
	k.release()
	if far != nil {
		_ = far.Close()
	}
	return k.Conn.Close()
}

// Read implements net.Conn.
func (k *link) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	k.used(n, k.owner.gate.metrics.sent)
	return n, err
}

// Write implements net.Conn.
func (k *link) Write(b []byte) (int, error) {
	n, err := k.Conn.Write(b)
	k.used(n, k.owner.gate.metrics.received)
	return n, err
}

func (k *link) used(n int, bytes prometheus.Counter) {
	if n > 0 {
		bytes.Add(float64(n))
		k.usedAt.Store(time.Now().UnixNano())
	}
}

// CloseWrite passes on that the other side sends no more.
func (k *link) CloseWrite() error { return intake.CloseWrite(k.Conn) }

// reviewPause bounds how often a cell whose pods change all the time makes the gate look at all connections.
const reviewPause = 100 * time.Millisecond

// watch closes connections when the policies no longer admit them, until ctx is done.
func (s *links) watch(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		changed := s.gate.o.Policies.Changed()
		s.review()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		<-pause.C // of the review before
		pause.Reset(reviewPause)
	}
}

// review closes the connections that the policies do not admit any more.
func (s *links) review() {
	var refused []*link
	s.mu.Lock()
	for k := range s.open {
		if k.agentID != "" && !s.admits(k) {
			refused = append(refused, k)
		}
	}
	s.mu.Unlock()
	for _, k := range refused {
		_ = k.Close()
	}
	s.gate.metrics.revoked.Add(float64(len(refused)))
}

func (s *links) admits(k *link) bool {
	a, ok := s.gate.o.Policies.Lookup(k.address)
	if !ok || a.ID != k.agentID {
		return false
	}
	if k.host == "" || k.policy == a.Policy {
		return true
	}
	if a.Policy.Check(k.host) != "" || k.far != nil && len(a.Policy.Injections(k.host)) > 0 {
		return false
	}
	k.policy = a.Policy // which the next review need not check again
	return true
}

// drain closes the tunnels that have been silent for a time; what is passed through ends in its own goroutines. With a
// time of 0 it closes all connections. It returns how many remain.
func (s *links) drain(silent time.Duration) int {
	limit := time.Now().Add(-silent).UnixNano()
	var idle []*link
	s.mu.Lock()
	for k := range s.open {
		if silent == 0 || k.tunnel && k.usedAt.Load() <= limit {
			idle = append(idle, k)
		}
	}
	remain := len(s.open) - len(idle)
	s.mu.Unlock()
	for _, k := range idle {
		_ = k.Close() // the agent connects again
	}
	return remain
}

// wake makes the connections that are passed through notice that the gate drains.
func (s *links) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.open {
		if k.far != nil {
			_ = k.SetReadDeadline(time.Now())
			_ = k.far.SetReadDeadline(time.Now())
		}
	}
}
