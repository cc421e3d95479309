package provisioning

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/parallel"
)

// Sweeper makes sure that no agent waits forever: it repeats nudges. It never ends work: only a worker that looks at
// the agent does.
type Sweeper struct {
	Records agent.WorkerStore
	Nudger  agent.Nudger
	// Now is the clock.
	Now func() time.Time
}

// sweepBatch bounds one sweep. The next sweep continues with the longest overdue agents.
const sweepBatch = 500

// Sweep nudges every agent whose work is overdue, or whose schedules or snapshots are due. A failure of one agent does
// not stop the others.
func (s *Sweeper) Sweep(ctx context.Context) error {
	due, err := s.due(ctx)
	// While Pub/Sub is down, each nudge takes seconds to fail. One after the other, a batch would take longer than the
	// queue waits.
	failed := slices.DeleteFunc(parallel.ForEach(due, maxConcurrentChecks, func(a agent.Agent) error {
		return ignoreSuperseded(a.ID, s.attend(ctx, a))
	}), func(err error) bool { return err == nil })
	if len(due) > 0 {
		slog.InfoContext(ctx, "swept overdue agents", "overdue", len(due), "failed", len(failed))
	}
	return errors.Join(append(failed, err)...)
}

// due lists the agents whose work is overdue, and those whose schedules are due.
func (s *Sweeper) due(ctx context.Context) ([]agent.Agent, error) {
	due, err := s.Records.ListDue(ctx, s.Now(), sweepBatch)
	calls, callsErr := s.Records.ListCallsDue(ctx, s.Now(), sweepBatch)
	for _, a := range calls {
		if !slices.ContainsFunc(due, func(listed agent.Agent) bool { return listed.ID == a.ID }) {
			due = append(due, a)
		}
	}
	return due, errors.Join(err, callsErr)
}

// attend nudges an agent, unless a worker took up or finished the work after the list was read.
func (s *Sweeper) attend(ctx context.Context, a agent.Agent) error {
	overdue := false
	a, err := s.Records.Update(ctx, a, func(a *agent.Agent) {
		// What work there is in a status of another release is for that one to say.
		works := working(*a) || !a.Status.Known()
		switch overdue = works && !a.WorkDueAt.After(s.Now()); {
		case overdue:
			a.WorkDueAt = s.Now().Add(agent.NudgeGrace)
		case !works:
			a.WorkDueAt = time.Time{}
		}
	})
	if err != nil || !overdue && !a.CallsDue(s.Now()) && !a.SnapshotsDue(s.Now()) {
		return err
	}
	return s.Nudger.Nudge(ctx, a.ID)
}

// DeadLetter handles a nudge that the queue gave up. It ends the work on the agent only if workers tried often enough:
// the nudge may have been about an earlier desired state. Otherwise it nudges again. The sweep retries removals
// forever. Failed secret operations wait for a client, who may retry them.
func (s *Sweeper) DeadLetter(ctx context.Context, agentID string) error {
	a, err := s.Records.Load(ctx, agentID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !working(a) || !a.WantsPod() && !a.OperationsDue() {
		return nil
	}
	if !a.Exhausted() {
		return s.Nudger.Nudge(ctx, a.ID)
	}
	abandoned := false
	_, err = s.Records.Update(ctx, a, func(a *agent.Agent) {
		if abandoned = working(*a) && a.Exhausted(); abandoned {
			a.Abandon(s.Now())
		}
	})
	if errors.Is(err, agent.ErrSuperseded) {
		return nil // the newer state has its message
	}
	if err == nil && abandoned {
		slog.ErrorContext(ctx, "agent work abandoned after too many deliveries", logevent.Key,
			logevent.NudgeDeadLettered, "agent_id", a.ID, "attempts", a.Attempts)
	}
	return err
}
