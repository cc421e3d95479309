package provisioning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// Sweeper makes sure that no agent waits forever: it ends work that has passed its deadline and repeats lost nudges.
type Sweeper struct {
	Records agent.WorkerStore
	Nudger  agent.Nudger
	// Now is the clock.
	Now func() time.Time
}

// sweepBatch bounds one sweep. The next sweep continues with the longest overdue agents.
const sweepBatch = 500

// Sweep expires or nudges every agent whose work is overdue. A failure of one agent does not stop the others.
func (s *Sweeper) Sweep(ctx context.Context) error {
	due, err := s.Records.ListDue(ctx, s.Now(), sweepBatch)
	if err != nil {
		return err
	}
	var errs []error
	expired := 0
	for _, a := range due {
		if a.Expired(s.Now()) {
			expired++
		}
		if err := s.attend(ctx, a); err != nil && !errors.Is(err, agent.ErrSuperseded) &&
			!fault.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("agent %s: %w", a.ID, err))
		}
	}
	if len(due) > 0 {
		slog.InfoContext(ctx, "swept overdue agents", "overdue", len(due), "expired", expired, "failed", len(errs))
	}
	if expired > 0 {
		slog.WarnContext(ctx, "work on agents ended at its deadline", logevent.Key, logevent.AgentsExpired,
			"agents", expired)
	}
	return errors.Join(errs...)
}

func (s *Sweeper) attend(ctx context.Context, a agent.Agent) error {
	a, err := s.Records.Update(ctx, a, func(a *agent.Agent) {
		if a.Expired(s.Now()) {
			a.Expire(s.Now())
			return
		}
		if !working(*a) { // a worker finished after the list was read
			a.WorkDueAt = time.Time{}
			return
		}
		a.WorkDueAt = s.Now().Add(agent.NudgeGrace)
	})
	if err != nil || !working(a) {
		return err
	}
	return s.Nudger.Nudge(ctx, a.ID)
}

// DeadLetter ends the work on an agent whose messages the queue gave up. The sweep retries removals forever. Failed
// secret operations wait for a client, who may retry them.
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
	_, err = s.Records.Update(ctx, a, func(a *agent.Agent) {
		defer a.AbandonOperations(s.Now())
		if a.Converged() || !a.WantsPod() {
			return
		}
		f := agent.Failure{
			Code: "attempts_exhausted", Retryable: true,
			Message: "All attempts to bring up the agent failed. Start it again.",
		}
		if a.Failure != nil {
			f = *a.Failure
			f.Message = "All attempts to bring up the agent failed. Last problem: " + f.Message
		}
		a.GiveUp(f, s.Now())
	})
	if errors.Is(err, agent.ErrSuperseded) {
		return nil // the newer state has its message
	}
	return err
}
