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

// Sweeper leaves nothing waiting for ever: it ends work that has taken too long and repeats nudges that were lost.
type Sweeper struct {
	Records agent.WorkerStore
	Nudger  agent.Nudger
	// Now is the clock.
	Now func() time.Time
}

// sweepBatch bounds one sweep; what is left over is the next one's, oldest first.
const sweepBatch = 500

// Sweep looks at every agent whose work is overdue. The trouble of one agent does not keep it from the others.
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
		slog.InfoContext(ctx, "sweep", "overdue", len(due), "expired", expired, "failed", len(errs))
	}
	if expired > 0 {
		slog.WarnContext(ctx, "ended the work on agents at its deadline", logevent.Key, logevent.AgentsExpired,
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
		a.WorkDueAt = s.Now().Add(agent.NudgeGrace)
	})
	if err != nil || !working(a) {
		return err
	}
	return s.Nudger.Nudge(ctx, a.ID)
}

// DeadLetter ends the work on an agent whose messages were delivered in vain. What is to be taken away is left to the
// sweep, which tries for ever. Secret operations are left to clients, who may have them tried again.
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
			Message: "The work on the agent was tried too often without success.",
		}
		if a.Failure != nil {
			f = *a.Failure
			f.Message = "Given up after too many attempts. Last problem: " + f.Message
		}
		a.GiveUp(f, s.Now())
	})
	if errors.Is(err, agent.ErrSuperseded) {
		return nil // the newer state has a message of its own
	}
	return err
}

// OrphanCollector finds namespaces that no record knows of, such as one that a worker made after its agent was gone.
type OrphanCollector struct {
	Records    agent.WorkerStore
	Namespaces NamespaceLister
	// Now is the clock.
	Now func() time.Time
}

const (
	// minOrphanAge keeps the collector off namespaces that are too young to judge, whatever else goes wrong.
	minOrphanAge = time.Hour
	// maxOrphansPerRun and maxOrphanShare bound what one run deletes, so that a bad setting can't delete everything.
	maxOrphansPerRun = 5
	maxOrphanShare   = 0.01
)

// Collect deletes orphaned namespaces: only those old enough, only as many as the bound allows, and none when a list
// fails.
func (c *OrphanCollector) Collect(ctx context.Context) error {
	all, err := c.Namespaces.Namespaces(ctx)
	if err != nil {
		return err
	}
	var orphans []Placement
	for _, p := range all {
		if c.Now().Sub(p.CreatedAt) < minOrphanAge {
			continue
		}
		_, err := c.Records.Load(ctx, p.AgentID)
		if fault.Is(err, fault.NotFound) {
			orphans = append(orphans, p)
		} else if err != nil {
			return err
		}
	}
	most := max(maxOrphansPerRun, int(maxOrphanShare*float64(len(all))))
	if len(orphans) > most {
		slog.ErrorContext(ctx, "more orphaned namespaces than one run may delete: check that the control plane reads the right database",
			logevent.Key, logevent.OrphanLimitExceeded, "orphans", len(orphans), "namespaces", len(all), "deleting",
			most)
		orphans = orphans[:most]
	}
	var errs []error
	for _, p := range orphans {
		slog.WarnContext(ctx, "deleting an orphaned namespace", "agent_id", p.AgentID, "cell", p.Cell)
		errs = append(errs, c.Namespaces.DeleteNamespace(ctx, p))
	}
	return errors.Join(errs...)
}
