package gate

import (
	"context"
	"net/netip"

	"agents.example/controlplane/shared/egress"
)

// Agent is the owner of a connection.
type Agent struct {
	ID string
	// Policy is what the agent may reach. It is never modified: another policy of the agent has another address in
	// memory, and an equal one should have the same.
	Policy *egress.Policy
}

// Policies reports the agents of the cell by the addresses of their pods. The gate takes each answer as it is: whoever
// has an agent's address in Policies acts as that agent.
//
// An implementation must be complete before the gate serves: after a start it waits until it has listed the whole cell.
// While its source cannot be reached, it goes on with what it knows.
type Policies interface {
	// Lookup returns the agent whose pod has an address, also of a pod that is not ready or that terminates. The
	// address is an IPv4 one or a genuine IPv6 one, without a zone. The answer is false for an address that no pod of
	// an agent has, for one that several agents claim, and for one whose agent has no policy or one that cannot be
	// decoded. Then Agent is empty; otherwise Policy is not nil. A false answer ends the address' open connections, so
	// an address that stays an agent's must not have one in between.
	//
	// It is called for every connection, request and query, concurrently. It must not block, and not allocate much.
	Lookup(address netip.Addr) (Agent, bool)
	// Changed returns a channel that is closed when a later call of Lookup may give another answer than before this
	// call of Changed. All callers before that change may get the same channel; after it, they get another one. Who
	// waits for a change calls Changed first, then Lookup, and then awaits the channel, so that no change is lost:
	//
	//	func (w *Watch) update(...) {
	//		w.mu.Lock()
	//		defer w.mu.Unlock()
	//		... // change what Lookup reads
	//		close(w.changed)
	//		w.changed = make(chan struct{})
	//	}
	//
	// The gate then looks up the addresses of all open connections, at most a few times a second. So a change that
	// concerns no address, such as the annotation of a Service without pods, may close the channel or not.
	Changed() <-chan struct{}
}

// Values reads the values of brokered secrets. An error must not contain a value.
type Values interface {
	// Value returns a version of the value of an agent's secret, for a key of its policy. The gate keeps it for a few
	// minutes, so an implementation should not.
	Value(ctx context.Context, agentID, key string, version int64) (string, error)
}
