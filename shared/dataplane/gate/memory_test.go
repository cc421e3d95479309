package gate

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"agents.example/controlplane/shared/egress"
)

// TestMemory_HoldsFiveThousandAgents measures the policies of a large cell, and what the gate holds for agents that
// have used all that theirs allow.
func TestMemory_HoldsFiveThousandAgents(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const agents, hosts, limit = 5000, 20, 64 << 20
	before := heap()
	g := offline(t, Options{Policies: nothing{}})
	policies := map[netip.Addr]Agent{}
	for i := range agents {
		id := fmt.Sprintf("agent-%032d", i)
		var p egress.Policy
		for j := range hosts {
			p.Allow = append(p.Allow, fmt.Sprintf("service-%d.region-%d.example.com", j, i))
		}
		p, err := egress.Decode(p.Encode())
		if err != nil {
			t.Fatal(err)
		}
		policies[netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})] = Agent{ID: id, Policy: &p}
		g.tenants.of(id)
		for _, host := range p.Allow {
			g.counts.used(id, host)
		}
	}
	used := heap() - before
	t.Logf("%d MiB for %d agents", used>>20, agents)
	if used > limit {
		t.Errorf("%d MiB for %d agents with %d hosts each, want %d at most", used>>20, agents, hosts, limit>>20)
	}
	runtime.KeepAlive(policies)
	runtime.KeepAlive(g)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
