package firestore

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
)

// Await implements agent.Store. It listens to the document, so that a change is seen as soon as Firestore tells, and
// nothing is read meanwhile.
func (s *Agents) Await(ctx context.Context, id string, until func(agent.Agent) bool) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	caller := identity.From(ctx)
	changes := ref.Snapshots(ctx)
	defer changes.Stop()
	var last *agent.Agent
	for {
		snap, err := changes.Next()
		switch {
		case err != nil && ctx.Err() != nil && last != nil:
			return *last, nil
		case err != nil && ctx.Err() != nil:
			return s.Get(identity.With(context.WithoutCancel(ctx), caller), id)
		case err != nil:
			return agent.Agent{}, failure("listen", err)
		}
		a, err := ownAgent(snap, caller)
		if err != nil || until(a) {
			return a, err
		}
		last = &a
	}
}
