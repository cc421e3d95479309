//go:build unix

package linearizability_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// workOn makes one commit that a worker makes, through the store of the workers.
func (c *client) workOn(id string) {
	ctx := context.Background()
	began := c.now()
	a, err := c.store.Load(ctx, id)
	o := call{agentID: id}
	switch {
	case err != nil:
		o.kind = get
	case a.Status == agent.Deleting:
		o.kind = removeRecord
		if c.random.IntN(4) > 0 { // leave some agents in deletion
			return
		}
		err = c.store.Remove(ctx, a, a.Deletion)
	case a.Status == agent.Running && c.random.IntN(8) == 0:
		o.kind = breakDown
		a, err = c.store.Update(ctx, a, func(a *agent.Agent) {
			if a.Status == agent.Running {
				a.BecameReady(time.Now().UTC()) // only an agent whose work is done breaks
				a.Break(agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady}, time.Now().UTC())
			}
		})
	default:
		o.kind = becomeReady
		a, err = c.store.Update(ctx, a, func(a *agent.Agent) {
			if a.Status == agent.Provisioning || a.Status == agent.Pending {
				a.BecameReady(time.Now().UTC())
			}
		})
	}
	switch {
	case errors.Is(err, agent.ErrSuperseded): // it changed nothing
	case fault.Is(err, fault.NotFound):
		c.record(c.number, o, answer{code: http.StatusNotFound}, began)
	case fault.Is(err, fault.Unavailable):
		c.record(c.number, o, answer{}, began)
	case err != nil:
		c.t.Errorf("%s: %v", o.kind, err)
	default:
		c.record(c.number, o, c.recordAnswer(a), began)
	}
}

// recordAnswer is what a worker sees in a record.
func (c *client) recordAnswer(a agent.Agent) answer {
	shown := a.Show(identity.Caller{OrganizationID: organization, Role: identity.RoleAdmin}, agent.Addresses{})
	version, err := strconv.ParseInt(a.Version, 36, 64)
	if err != nil {
		c.t.Errorf("the version of a record: %v", err)
	}
	return view{ID: a.ID, Name: a.Name, Status: a.Status, Env: shown.EnvVars}.
		answer(http.StatusOK, version, c.spec.workers)
}

// queue delivers nudges to workers, and delivers again what a worker does not acknowledge.
type queue struct{ nudges chan string }

func newQueue() *queue { return &queue{nudges: make(chan string, 100_000)} }

var _ agent.Nudger = (*queue)(nil)

// Nudge implements agent.Nudger.
func (q *queue) Nudge(_ context.Context, agentID string) error {
	q.nudges <- agentID
	return nil
}

// work starts workers, and returns a function that stops them.
func (q *queue) work(t *testing.T, b *backendtest.Backend) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for {
				select {
				case id := <-q.nudges:
					if err := reconcile(ctx, t, b, id); err != nil && ctx.Err() == nil {
						q.nudges <- id
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

func reconcile(ctx context.Context, t *testing.T, b *backendtest.Backend, agentID string) error {
	for _, w := range functions.Workers(b.Dependencies) {
		if w.Topic == function.AgentNudges {
			return w.Handle(ctx, backendtest.Nudge(t, agentID))
		}
	}
	return nil
}
