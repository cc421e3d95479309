package provisioning

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// A snapshot is first part of the record and only then of the cluster, and leaves the record once it is observed gone.
// Asking for it may be repeated, because the record names it. So a worker may die anywhere.

const (
	// cutTime is how long a run waits for a snapshot to be cut or found, and cutPause how often it looks. Most take a
	// second.
	cutTime  = 3 * time.Second
	cutPause = 200 * time.Millisecond
	// quietTime is how long a program keeps the volume quiet until the snapshot is cut. It is longer than cutTime,
	// because no later run can wait on: the driver of Google's disks tells that it has cut one when Compute Engine has
	// begun to store it, which it asks once a second. quietEnd is for the end of that, and to record it.
	quietTime = 12 * time.Second
	quietEnd  = 7 * time.Second
)

// runSnapshots handles what is due of an agent's snapshots and former volumes. What fails is tried again later; it does
// not keep the agent from being reconciled.
func (w *run) runSnapshots(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if w.Volumes == nil {
		return a, nil
	}
	a, err := w.runMove(ctx, a)
	if err != nil {
		return a, err
	}
	a, err = w.Records.Update(ctx, a, func(a *agent.Agent) { a.PrepareSnapshots(w.Now()) })
	if err != nil {
		return a, err
	}
	for _, s := range a.OpenSnapshots(w.Now()) {
		if ended(ctx) {
			return a, nil
		}
		if a, err = w.recordSnapshot(ctx, a, s.ID, w.visitSnapshot(ctx, a, s)); err != nil {
			return a, err
		}
	}
	for _, number := range a.LeftoverVolumes(w.Now()) {
		if ended(ctx) {
			return a, nil
		}
		gone, err := w.Volumes.DeleteVolume(ctx, a, number)
		if err != nil {
			slog.WarnContext(ctx, "a former volume could not be deleted", "agent_id", a.ID, "volume", number, "error",
				err)
		}
		a, err = w.Records.Update(ctx, a, func(a *agent.Agent) { a.RecordFormerVolume(number, gone, w.Now()) })
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// recordSnapshot records what a visit of a snapshot has shown. A daily one that fails is logged for the operator, who
// alone can repair the storage: no client waits for it.
func (w *run) recordSnapshot(ctx context.Context, a agent.Agent, id string, record func(*agent.Agent),
) (agent.Agent, error) {
	last, cancel := w.record(ctx)
	defer cancel()
	var before, after agent.Snapshot
	a, err := w.Records.Update(last, a, func(a *agent.Agent) {
		before, _ = a.Snapshot(id)
		record(a)
		after, _ = a.Snapshot(id)
	})
	if err == nil && after.Cause == agent.SnapshotBySchedule && before.Status == agent.SnapshotPending &&
		after.Status == agent.SnapshotFailed {
		slog.ErrorContext(ctx, "a daily snapshot failed", logevent.Key, logevent.SnapshotFailed, "agent_id", a.ID,
			"cell", a.Cell, "snapshot_id", id, "problem", after.Problem)
	}
	return a, err
}

// visitSnapshot asks the cluster about one snapshot and returns what the record must learn.
func (w *run) visitSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) func(*agent.Agent) {
	if s.Status == agent.SnapshotDeleting {
		gone, err := w.Volumes.DeleteSnapshot(ctx, a, s)
		if err != nil {
			slog.WarnContext(ctx, "a snapshot could not be deleted", "agent_id", a.ID, "snapshot_id", s.ID, "error",
				err)
		}
		return func(a *agent.Agent) { a.RecordDeletedSnapshot(s.ID, gone, w.Now()) }
	}
	seen, asked, err := w.take(ctx, a, s)
	problem := describeSnapshot(err)
	if err != nil {
		slog.WarnContext(ctx, "a snapshot could not be taken yet", "agent_id", a.ID, "snapshot_id", s.ID, "error", err)
	}
	return func(a *agent.Agent) {
		if asked && seen.CutAt.IsZero() {
			a.MissQuiet(s.ID)
		}
		switch {
		case err == nil:
			a.RecordSnapshot(s.ID, seen, w.Now())
		case isPermanent(err):
			a.RefuseSnapshot(s.ID, problem, w.Now())
		default:
			a.AwaitSnapshot(s.ID, problem, w.Now())
		}
	}
}

func isPermanent(err error) bool {
	var refused *Permanent
	return errors.As(err, &refused)
}

// describeSnapshot is what clients see of an error.
func describeSnapshot(err error) string {
	var refused *Permanent
	var known *fault.Error
	switch {
	case errors.Is(err, ErrVolumeInUse):
		return "The agent's container has not ended yet."
	case errors.As(err, &refused):
		return refused.Message
	case errors.As(err, &known) && known.Kind != fault.Internal:
		return known.Detail
	default: // fault.From has the text of an answer to a request
		return "The control plane could not ask the cluster's storage for the snapshot."
	}
}

// take asks for a snapshot, of a quiet volume if that is what its client wants. asked is true if the storage may have
// been asked, also if that failed: it may cut the snapshot later, when the volume changes again.
func (w *run) take(ctx context.Context, a agent.Agent, s agent.Snapshot) (seen agent.SnapshotState, asked bool,
	err error,
) {
	if s.Consistency != agent.ConsistentByHook || !s.CutAt.IsZero() || a.Status != agent.Running {
		quiet := s.Consistency != agent.ConsistentAfterCrash && s.CutAt.IsZero()
		seen, err = w.ask(ctx, a, s, question{quiet: quiet, until: isReady, atMost: cutTime})
		return seen, true, err
	}
	if w.Quiescer == nil {
		return seen, false, errors.New("no way to the programs of images")
	}
	if err := w.Quiescer.Quiesce(ctx, a, QuiesceBegin); err != nil {
		return seen, false, errors.Join(err, w.endQuiet(ctx, a))
	}
	w.ends = time.Now().Add(quietTime + quietEnd)
	longer, cancel := context.WithTimeout(context.WithoutCancel(ctx), quietTime)
	defer cancel()
	seen, err = w.ask(longer, a, s, question{until: isCut, atMost: quietTime})
	return seen, true, errors.Join(err, w.endQuiet(ctx, a))
}

// endQuiet lets the agent write again, even if ctx has ended. An image must bear that it is told so without need.
func (w *run) endQuiet(ctx context.Context, a agent.Agent) error {
	last, cancel := w.record(ctx)
	defer cancel()
	return w.Quiescer.Quiesce(last, a, QuiesceEnd)
}

func isCut(s agent.SnapshotState) bool { return !s.CutAt.IsZero() }

func isReady(s agent.SnapshotState) bool { return s.Ready }

// question is what a run asks the cluster's storage for.
type question struct {
	// quiet is for a snapshot of a volume that no pod uses.
	quiet bool
	// until is what the run waits for, about as long as atMost.
	until  func(agent.SnapshotState) bool
	atMost time.Duration
}

// ask asks for a snapshot and waits for it.
func (w *run) ask(ctx context.Context, a agent.Agent, s agent.Snapshot, q question) (agent.SnapshotState, error) {
	begun := time.Now()
	for {
		seen, err := w.Volumes.Snapshot(ctx, a, s, q.quiet)
		if err != nil || q.until(seen) || time.Since(begun) >= q.atMost || sleep(ctx, cutPause) != nil {
			return seen, err
		}
	}
}

// hold keeps the agent's pod away until the snapshot is cut for which it is stopped. The record then starts the pod
// again, which is another generation: a worker that is late stops no pod. Its beginning is not recorded: another worker
// may do the same.
func (w *run) hold(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	s, err := a.Snapshot(a.StoppedFor)
	if err != nil || w.Volumes == nil {
		a, err = w.Records.Update(ctx, a, func(a *agent.Agent) {
			a.RefuseSnapshot(a.StoppedFor, "The cell of the agent takes no snapshots.", w.Now())
		})
		return a, cmp.Or(err, error(agent.ErrSuperseded))
	}
	w.keepLast(ctx, a)
	if err := w.Cluster.Apply(ctx, a, agent.StageRuntime, RuntimeInput{}); err != nil {
		return a, w.failed(ctx, a, agent.StageRuntime, err)
	}
	seen, err := w.ask(ctx, a, s, question{quiet: true, until: isCut, atMost: cutTime})
	inUse, refused := errors.Is(err, ErrVolumeInUse), isPermanent(err)
	if err != nil && !inUse {
		slog.WarnContext(ctx, "a snapshot could not be taken yet", "agent_id", a.ID, "snapshot_id", s.ID, "error", err)
		seen.Problem = describeSnapshot(err)
	}
	last, cancel := w.record(ctx)
	defer cancel()
	before := a.Generation
	a, err = w.progress(last, a, func(a *agent.Agent) {
		switch {
		case inUse:
		case refused:
			a.RefuseSnapshot(s.ID, seen.Problem, w.Now())
		default:
			a.RecordSnapshot(s.ID, seen, w.Now())
		}
		a.AwaitHold(w.Now())
	})
	if err == nil && a.Generation != before {
		err = agent.ErrSuperseded // the pod starts again
	}
	return a, err
}
