package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/logevent"
)

// Roller carries releases on. Any number of processes may run it concurrently: each step is one commit of the release
// with the agents that it changes, which fails if another one came first.
//
// A run without a release costs one query. With one, it reads the agents that the release watches, and each agent of
// the fleet at least three times in all: to survey, to move and to check. A step lists more agents than it moves. It
// reads the metrics of an agent that it moves before the move and after the soak.
type Roller struct {
	Releases Store
	Agents   Agents
	Images   Images
	Metrics  Metrics
	Prober   Prober
	Nudger   agent.Nudger
	// Now is the clock.
	Now func() time.Time
}

const (
	// stepsPerRun bounds the commits of a run. The next run goes on a minute later.
	stepsPerRun = 50
	// MaxChanges bounds the agents that one commit changes. A record may have 300 KiB of text, and Firestore takes
	// 10 MiB in a request.
	MaxChanges = 20
	// visitPage is how many agents one read lists, and maxWatched how many a release watches.
	visitPage  = 500
	maxWatched = 2000
	// maxProbes bounds the agents that are asked concurrently.
	maxProbes = 16
	// stuckAfter is how long an agent may be in error for reasons of the cluster before the release stops.
	stuckAfter = time.Hour
	// maxLaps bounds the walks, without a pause, that look for agents that could not move before.
	maxLaps = 10
)

// Run carries all releases on that are due. A failure of one does not stop the others.
func (o *Roller) Run(ctx context.Context) error {
	due, err := o.Releases.ListDue(ctx, o.Now())
	errs := []error{err}
	for _, r := range due {
		if err := o.carryOn(ctx, r); err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// carryOn makes steps until there is nothing to do but to wait. It looks at the watched agents once, and again after
// another process came first.
func (o *Roller) carryOn(ctx context.Context, r Release) error {
	var seen *watch
	for range stepsPerRun {
		if !r.State.worked() {
			slog.WarnContext(ctx, "a release in a state of another control plane is left as it is", "release", r.ID,
				"state", r.State)
			return nil
		}
		var err error
		if seen == nil {
			seen, err = o.look(ctx, r)
		}
		var next *Release
		if err == nil {
			next, err = o.step(ctx, r, seen)
		}
		if errors.Is(err, ErrSuperseded) {
			seen = nil
			var present Release
			present, err = o.Releases.Get(ctx, r.ID)
			if err != nil || present.DueAt.IsZero() || present.DueAt.After(o.Now()) {
				return err
			}
			next = &present
		}
		if err != nil || next == nil {
			return err
		}
		r = *next
	}
	return nil
}

// step makes one step. It returns the release after it, or nil if there is nothing to do but to wait.
func (o *Roller) step(ctx context.Context, r Release, seen *watch) (*Release, error) {
	if r.State == Paused {
		return o.pause(ctx, r)
	}
	if len(seen.judged) > 0 {
		return o.count(ctx, r, seen)
	}
	if r.State == Reverting {
		return o.wayBack(ctx, r, seen)
	}
	reason, err := o.obstacle(ctx, r, seen.agents)
	if err != nil {
		return nil, err
	}
	if reason != "" && r.State == Running && r.FormerDefault != "" {
		return o.restoreDefault(ctx, r) // once it has stopped, no agent may start with the version
	}
	if reason != "" {
		// Agents on their way back are counted after the resume, and the operator knows of them by then.
		r.Forgiven = r.Counts.Reverted
		for _, a := range seen.agents {
			if s := a.Software(r.Image); s != nil && s.Update.State == agent.UpdateReverted {
				r.Forgiven++
				r.fail(Failure{AgentID: a.ID, Reason: s.Update.Reason, At: o.Now()})
			}
		}
		r.halt(reason, o.Now())
		_, err := o.save(ctx, r, nil)
		return nil, err
	}
	if held := outage(seen.agents); held != "" {
		return o.wait(ctx, r, held)
	}
	return o.advance(ctx, r, seen)
}

// pause makes the former version the default one again: while the release is paused, no agent may start with its
// version.
func (o *Roller) pause(ctx context.Context, r Release) (*Release, error) {
	if r.FormerDefault == "" {
		return nil, nil //nolint:nilnil // the worker has no more to do
	}
	r.DueAt = time.Time{}
	return o.restoreDefault(ctx, r)
}

// apply makes a verdict part of an agent's record and of the release's.
func (r *Release) apply(a *agent.Agent, v verdict, now time.Time) {
	switch v.kind {
	case goBack:
		a.RevertUpdate(r.Image, v.reason, now)
		return
	case countUpdated:
		a.PassUpdate(r.Image)
		r.Counts.Updated++
	case countReverted:
		r.Counts.Reverted++
		if r.State != Reverting {
			r.fail(Failure{AgentID: a.ID, Reason: v.reason, At: now})
		}
	case countInterrupted:
		r.Counts.Interrupted++
	case letGo:
	}
	a.WatchedBy = ""
}

// wait records what the release waits for.
func (o *Roller) wait(ctx context.Context, r Release, reason string) (*Release, error) {
	if r.Reason == reason {
		return nil, nil //nolint:nilnil // there is nothing to do but to wait
	}
	r.Reason = reason
	_, err := o.save(ctx, r, nil)
	return nil, err
}

// edit returns a change of an agent.
func (o *Roller) edit(a agent.Agent, change func(*agent.Agent)) (Change, error) {
	after, _, err := a.Edit(func(a *agent.Agent) error { change(a); return nil }, nil)
	return Change{Before: a, After: after}, err
}

func (o *Roller) editAll(agents []agent.Agent, change func(*agent.Agent)) ([]Change, error) {
	changes := make([]Change, len(agents))
	for i, a := range agents {
		var err error
		if changes[i], err = o.edit(a, change); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

// save commits a step, and nudges workers for the agents that it moves.
func (o *Roller) save(ctx context.Context, r Release, changes []Change) (*Release, error) {
	r.UpdatedAt = o.Now()
	if (r.State == Running || r.State == Reverting) && r.DueAt.Before(r.UpdatedAt) {
		r.DueAt = r.UpdatedAt
	}
	saved, err := o.Releases.Save(ctx, r, changes)
	if err != nil {
		return nil, err
	}
	o.report(ctx, r, len(changes))
	for _, c := range changes {
		if c.After.NeedsNudge(c.Before, o.Now()) {
			if err := o.Nudger.Nudge(ctx, c.After.ID); err != nil {
				slog.WarnContext(ctx, "nudge not published", logevent.Key, logevent.NudgeNotPublished, "agent_id",
					c.After.ID, "error", err)
			}
		}
	}
	return &saved, nil
}

// report logs what a step means for the operator.
func (o *Roller) report(ctx context.Context, r Release, changes int) {
	log := slog.With("release", r.ID, "state", r.State, "wave", r.Wave+1, "moved", r.Counts.Moved, "updated",
		r.Counts.Updated, "reverted", r.Counts.Reverted, "reason", r.Reason, "changes", changes)
	if r.State == Stopped {
		log.ErrorContext(ctx, "a release stopped", logevent.Key, logevent.ReleaseStopped)
		return
	}
	log.InfoContext(ctx, "a release went on", logevent.Key, logevent.ReleaseStep)
}
