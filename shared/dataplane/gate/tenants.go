package gate

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/egress"
)

// tenant is what the gate holds for an agent that uses it.
type tenant struct {
	id               string
	requests, memory atomic.Int64 // of the requests in flight
	usedAt           atomic.Int64 // in nanoseconds
	streams          atomic.Int64 // requests by HTTP/2, also those that are refused
	slow             atomic.Int64 // connections by HTTP/2 of which the agent reads nothing
	// transport has the agent's connections to hosts. Agents share none: a host may bind credentials to a connection,
	// and what one agent's requests leave on a connection must not meet another agent's request or its secret.
	transport *http.Transport

	queries *rate.Limiter

	mu sync.Mutex
	// floodedAt is when a refusal because of too many connections, requests or queries was last counted.
	floodedAt time.Time
}

type tenants struct {
	gate *Gate
	mu   sync.RWMutex
	byID map[string]*tenant
}

func (s *tenants) init(g *Gate) { s.gate, s.byID = g, map[string]*tenant{} }

// of returns the tenant of an agent, which the policies have. So agents cannot fill the table with others.
func (s *tenants) of(agentID string) *tenant {
	s.mu.RLock()
	t := s.byID[agentID]
	s.mu.RUnlock()
	if t == nil {
		t = s.add(agentID)
	}
	t.usedAt.Store(time.Now().UnixNano())
	return t
}

func (s *tenants) add(agentID string) *tenant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[agentID]; t != nil {
		return t
	}
	perSecond := s.gate.o.Limits.AgentQueries
	t := &tenant{
		id: agentID, queries: rate.NewLimiter(rate.Limit(perSecond), 2*perSecond), //nolint:mnd // see Limits
	}
	t.usedAt.Store(time.Now().UnixNano())
	t.transport = s.gate.newTransport()
	s.byID[agentID] = t
	return t
}

// floodPause is the least time between two counts of a flood.
const floodPause = time.Minute

// countFlood counts that the agent was refused because it did too much, once for all that is refused in a while.
func (t *tenant) countFlood(c *counts, host string) {
	now := time.Now()
	t.mu.Lock()
	again := now.Sub(t.floodedAt) < floodPause
	if !again {
		t.floodedAt = now
	}
	t.mu.Unlock()
	if !again {
		c.refused(t.id, host, egress.TooMany)
	}
}

// tenantTime is for how long the gate keeps a tenant that does not use it. It is longer than its connections to hosts
// are kept.
const tenantTime = 10 * time.Minute

func (s *tenants) sweep(now time.Time) {
	limit := now.Add(-tenantTime).UnixNano()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.byID {
		if t.requests.Load() == 0 && t.streams.Load() == 0 && t.usedAt.Load() < limit {
			delete(s.byID, id)
			t.transport.CloseIdleConnections()
		}
	}
}

// close ends the connections to hosts that no request uses.
func (s *tenants) close() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.byID {
		t.transport.CloseIdleConnections()
	}
}
