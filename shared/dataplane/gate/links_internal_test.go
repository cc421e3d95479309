package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/egress"
)

// script is the Policies of a cell with one address, whose answers follow each other. The last one stays.
type script struct {
	mu      sync.Mutex
	answers []Agent
	changed chan struct{}
}

func (s *script) Lookup(netip.Addr) (Agent, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return a, a.Policy != nil
}

func (s *script) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *script) set(a Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = []Agent{a}
	close(s.changed)
	s.changed = make(chan struct{})
}

// scripted returns a gate, and a link to it in memory.
func scripted(t *testing.T, answers ...Agent) (*Gate, *script, *link) {
	t.Helper()
	s := &script{answers: answers, changed: make(chan struct{})}
	g := offline(t, Options{Policies: s})
	ours, theirs := net.Pipe()
	k := g.links.add(theirs)
	t.Cleanup(func() { _ = errors.Join(ours.Close(), k.Close()) })
	return g, s, k
}

func agentWith(id string, patterns ...string) Agent {
	return Agent{ID: id, Policy: &egress.Policy{Allow: patterns}}
}

// TestAdmit_SeesChangesUntilTheLinkLeadsThere: a review before that would not close it.
func TestAdmit_SeesChangesUntilTheLinkLeadsThere(t *testing.T) {
	t.Parallel()
	allows, refuses := agentWith("a", "api.example"), agentWith("a", "other.example")
	for name, row := range map[string]struct {
		answers []Agent
		why     egress.Reason
		ok      bool
	}{
		"allowed":            {answers: []Agent{allows}, ok: true},
		"refused":            {answers: []Agent{refuses}, why: egress.NotListed, ok: true},
		"refused now":        {answers: []Agent{allows, refuses}, why: egress.NotListed, ok: true},
		"allowed in another": {answers: []Agent{allows, agentWith("a", "*")}, ok: true},
		"another's now":      {answers: []Agent{allows, agentWith("b", "*")}},
		"no agent's now":     {answers: []Agent{allows, {}}},
		"no agent's":         {answers: []Agent{{}}},
	} {
		_, _, k := scripted(t, row.answers...)
		if _, why, ok := k.admit("api.example"); ok != row.ok || why != row.why {
			t.Errorf("%s: admit = %q, %t; want %q, %t", name, why, ok, row.why, row.ok)
		}
	}
}

// TestLink_StaysWithItsAgent: a connection that lives on when its address is another agent's reaches nothing.
func TestLink_StaysWithItsAgent(t *testing.T) {
	t.Parallel()
	_, s, k := scripted(t, agentWith("a", "*"))
	if _, _, ok := k.admit("one.example"); !ok {
		t.Fatal("the first request was refused")
	}
	s.set(agentWith("b", "*"))
	if _, _, ok := k.admit("two.example"); ok {
		t.Error("a request for another agent was admitted on a connection of the first")
	}
	s.set(agentWith("b"))
	if _, _, ok := k.admit("two.example"); ok {
		t.Error("a refusal is another agent's")
	}
}

// TestLink_IsNotJoinedWhenClosed: the policy may change while the gate connects to the host.
func TestLink_IsNotJoinedWhenClosed(t *testing.T) {
	t.Parallel()
	g, s, k := scripted(t, agentWith("a", "*"))
	if _, _, ok := k.admit("one.example"); !ok {
		t.Fatal("the connection was refused")
	}
	s.set(agentWith("a"))
	g.links.review()
	if k.join(k.Conn) {
		t.Error("a connection that was closed leads to a host")
	}
}

// TestWatch_ClosesWithinASecond, whatever else changes.
func TestWatch_ClosesWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, s, k := scripted(t, agentWith("a", "*"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.links.watch(ctx)
		}()
		if _, _, ok := k.admit("one.example"); !ok {
			t.Fatal("the connection was refused")
		}
		for i := range 100 { // pods that start and stop
			s.set(agentWith("a", "one.example", fmt.Sprint(i, ".example")))
			wait(time.Millisecond)
			if g.links.count() != 1 {
				t.Fatal("a connection that is allowed was closed")
			}
		}
		s.set(agentWith("a"))
		wait(time.Second)
		if g.links.count() != 0 {
			t.Error("a connection that is not allowed is open after a second")
		}
		cancel()
		<-done
	})
}

// TestWaiting_IsBounded, for one address and for all.
func TestWaiting_IsBounded(t *testing.T) {
	t.Parallel()
	var w waiting
	w.init(Limits{Waiting: 3, AddressWaiting: 2})
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	entered := 0
	for _, a := range []netip.Addr{one, one, one, other, other} {
		if w.enter(a) {
			entered++
			defer w.leave(a)
		}
	}
	if entered != 3 || w.ofAddress[one] != 2 {
		t.Errorf("%d wait, %d of one address; want 3 and 2", entered, w.ofAddress[one])
	}
}
