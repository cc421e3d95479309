package gate

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// waiting bounds the connections and queries of unknown addresses. A pod may be faster than the watch of its cluster.
type waiting struct {
	total, each int

	mu        sync.Mutex
	count     int
	ofAddress map[netip.Addr]int
}

func (w *waiting) init(l Limits) {
	w.total, w.each, w.ofAddress = l.Waiting, l.AddressWaiting, map[netip.Addr]int{}
}

func (w *waiting) enter(address netip.Addr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= w.total || w.ofAddress[address] >= w.each {
		return false
	}
	w.count++
	w.ofAddress[address]++
	return true
}

func (w *waiting) leave(address netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count--
	if w.ofAddress[address]--; w.ofAddress[address] == 0 {
		delete(w.ofAddress, address)
	}
}

// agentAt returns the agent of an address. It holds an unknown address for a time.
func (g *Gate) agentAt(ctx context.Context, address netip.Addr) (Agent, bool) {
	if a, ok := g.o.Policies.Lookup(address); ok {
		return a, true
	}
	if !g.waiting.enter(address) {
		return Agent{}, false
	}
	defer g.waiting.leave(address)
	end := time.NewTimer(g.o.Timeouts.Hold)
	defer end.Stop()
	for {
		changed := g.o.Policies.Changed()
		if a, ok := g.o.Policies.Lookup(address); ok {
			return a, true
		}
		select {
		case <-changed:
		case <-end.C:
			return Agent{}, false
		case <-ctx.Done():
			return Agent{}, false
		}
	}
}
