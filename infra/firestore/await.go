package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/parallel"
)

// agentWait is a call of Await. It hands agents on by pointer, because copies of them would be most of the stack of
// each goroutine that waits.
type agentWait struct {
	agents *Agents
	ref    *gcp.DocumentRef
	until  func(agent.Agent) bool
	// last is the agent that until was called with last.
	last *agent.Agent
}

// Await implements agent.Store. It reads the agent again when the organization's feed has an event about it.
func (s *Agents) Await(ctx context.Context, id string, until func(agent.Agent) bool) (*agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return nil, agent.NotFound()
	}
	c := call.From(ctx)
	c.Fetched.Forget()
	w := &agentWait{agents: s, ref: ref, until: until}
	f := s.client.feeds.join(c.Caller.OrganizationID)
	defer f.leave()
	if err := w.follow(ctx, f); err != nil {
		return nil, err
	}
	return w.last, nil
}

// follow checks the agent now and after each of its events, until the condition holds or ctx ends.
func (w *agentWait) follow(ctx context.Context, f *feed) error {
	for place, due := f.position(), true; ; {
		if due {
			if done, err := w.check(context.WithoutCancel(ctx)); err != nil || done {
				return err
			}
		}
		events, end, missed, changed, err := f.after(place)
		if err != nil {
			return err
		}
		place, due = end, missed || w.concerns(events)
		if due {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (w *agentWait) concerns(events []event.Event) bool {
	for i := range events {
		if events[i].AgentID == w.ref.ID {
			return true
		}
	}
	return false
}

// check reads the agent, and reports whether the condition holds for it.
func (w *agentWait) check(ctx context.Context) (done bool, err error) {
	return parallel.Apart(func() (done bool, err error) {
		a, err := w.agents.Get(ctx, w.ref.ID)
		if err != nil {
			w.last = nil
			return false, err
		}
		if w.last != nil && w.last.Version == a.Version {
			return false, nil
		}
		w.last = &a
		return w.until(a), nil
	})
}
