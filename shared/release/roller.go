package release

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/parallel"
)

// Roller carries releases on. Any number of processes may run it concurrently: each step is one commit of the release
// with the agents that it changes, which fails if another one came first.
//
// A run without a release costs one query. With one, it reads the agents that the release watches, and each agent of
// the fleet about three times in all: to survey, to move and to check.
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
	stepsPerRun = 20
	// changesPerStep bounds the agents that one commit changes.
	changesPerStep = 50
	// visitPage is how many agents one read lists, and maxWatched how many a release watches.
	visitPage  = 500
	maxWatched = 2000
	// maxProbes bounds the agents that are asked concurrently.
	maxProbes = 16
	// stuckAfter is how long an agent may be in error for reasons of the cluster before the release stops.
	stuckAfter = time.Hour
	// maxLaps bounds the walks that look for agents that could not move before.
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

// carryOn makes steps until there is nothing to do but to wait.
func (o *Roller) carryOn(ctx context.Context, r Release) error {
	for range stepsPerRun {
		next, err := o.step(ctx, r)
		if errors.Is(err, ErrSuperseded) {
			present, err := o.Releases.Get(ctx, r.ID)
			if err != nil || present.DueAt.IsZero() || present.DueAt.After(o.Now()) {
				return err
			}
			next = &present
		} else if err != nil || next == nil {
			return err
		}
		r = *next
	}
	return nil
}

// step makes one step. It returns the release after it, or nil if there is nothing to do but to wait.
func (o *Roller) step(ctx context.Context, r Release) (*Release, error) {
	watched, err := o.Agents.ListWatched(ctx, r.ID, maxWatched)
	if err != nil {
		return nil, err
	}
	decided, err := o.decide(ctx, r, watched)
	if err != nil {
		return nil, err
	}
	if len(decided.changes) > 0 {
		return o.save(ctx, decided.release, decided.changes)
	}
	if r.State == Reverting {
		return o.wayBack(ctx, r, len(watched))
	}
	reason, err := o.obstacle(ctx, r, watched)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		r.halt(reason, o.Now())
		_, err := o.save(ctx, r, nil)
		return nil, err
	}
	if held := outage(watched); held != "" {
		return o.wait(ctx, r, held)
	}
	return o.advance(ctx, r, len(watched))
}

// decided is the outcome of looking at the agents that a release watches.
type decided struct {
	release Release
	changes []Change
}

// decide judges the agents that a release watches.
func (o *Roller) decide(ctx context.Context, r Release, watched []agent.Agent) (decided, error) {
	seen, err := o.metricsOf(ctx, r, watched)
	if err != nil {
		return decided{}, err
	}
	d := decided{release: r}
	verdicts := map[string]verdict{}
	var passing []agent.Agent
	for _, a := range watched {
		verdicts[a.ID] = r.judge(a, seen[a.ID], o.Now())
		if verdicts[a.ID].kind == countUpdated {
			passing = append(passing, a)
		}
	}
	// The record may be a minute old. An agent that does not answer goes on being watched.
	probe := func(a agent.Agent) error { return o.Prober.Probe(ctx, a) }
	for i, err := range parallel.ForEach(passing, maxProbes, probe) {
		if err != nil {
			delete(verdicts, passing[i].ID)
		}
	}
	for _, a := range watched {
		if len(d.changes) == changesPerStep {
			break
		}
		v := verdicts[a.ID]
		if v.kind == "" || v.kind == goBack && r.State == Reverting {
			continue
		}
		c, err := o.edit(a, func(a *agent.Agent) { d.release.apply(a, v, o.Now()) })
		if err != nil {
			return decided{}, err
		}
		d.changes = append(d.changes, c)
	}
	return d, nil
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
	}
	a.WatchedBy = ""
}

// metricsOf reads the metrics of the agents whose soak has ended.
func (o *Roller) metricsOf(
	ctx context.Context,
	r Release,
	watched []agent.Agent,
) (map[string]*metrics.Snapshot, error) {
	var ids []string
	for _, a := range watched {
		s := a.Software(r.Image)
		if s != nil && s.Update.State == agent.UpdateSoaking && !o.Now().Before(s.Update.ReadyAt.Add(r.Soak)) {
			ids = append(ids, a.ID)
		}
	}
	found := map[string]*metrics.Snapshot{}
	for some := range slices.Chunk(ids, visitPage) {
		snapshots, err := o.Metrics.Load(ctx, some)
		if err != nil {
			return nil, err
		}
		for id, s := range snapshots {
			found[id] = &s
		}
	}
	return found, nil
}

// obstacle returns why a release can't go on; "" if it can.
func (o *Roller) obstacle(ctx context.Context, r Release, watched []agent.Agent) (string, error) {
	reverting, stuck := int64(0), 0
	for _, a := range watched {
		s := a.Software(r.Image)
		if s == nil {
			continue
		}
		if s.Update.State == agent.UpdateReverted {
			reverting++
		}
		if a.Status == agent.Error && o.Now().Sub(s.Update.MovedAt) > stuckAfter {
			stuck++
		}
	}
	switch {
	case r.over(reverting):
		return fmt.Sprintf("%d of %d agents went back to their former version, more than %d %%",
			r.Counts.Reverted+reverting, r.Counts.Moved, r.MaxFailed), nil
	case stuck > 0:
		return fmt.Sprintf(
			"%d agents have been in error for more than %s, for reasons of the cluster",
			stuck,
			stuckAfter,
		), nil
	}
	i, err := o.Images.Get(ctx, r.Image)
	if fault.Is(err, fault.NotFound) && !r.Catalogued {
		return "", nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	for _, v := range i.Versions {
		if v.Version == r.Target.Version && v.State != image.Withdrawn {
			return "", nil
		}
	}
	return fmt.Sprintf("version %s was withdrawn or removed from the catalog", r.Target.Version), nil
}

// outage names an outage that keeps an agent from moving; "" if there is none. Nothing more moves while it lasts.
func outage(watched []agent.Agent) string {
	for _, a := range watched {
		if a.Failure != nil && a.Failure.Outage {
			return "an outage: " + a.Failure.Code
		}
	}
	return ""
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

// save commits a step, and nudges workers for the agents that it moves.
func (o *Roller) save(ctx context.Context, r Release, changes []Change) (*Release, error) {
	former := r
	r.UpdatedAt = o.Now()
	if r.State == Running || r.State == Reverting {
		r.DueAt = o.Now()
	}
	saved, err := o.Releases.Save(ctx, r, changes)
	if err != nil {
		return nil, err
	}
	o.report(ctx, former, len(changes))
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
