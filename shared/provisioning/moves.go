package provisioning

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/parallel"
)

// arrive makes the snapshot that takes an agent's data along one of its new cell, for the volume that is made from it.
func (w *run) arrive(ctx context.Context, a agent.Agent) error {
	if err := w.Cluster.Apply(ctx, a, agent.StageNamespace, RuntimeInput{}); err != nil {
		return err
	}
	s, err := a.Snapshot(a.Move.SnapshotID)
	if err != nil {
		return err
	}
	if w.Volumes == nil {
		return &Permanent{Code: "snapshots_missing", Message: "The new cell of the agent takes no snapshots."}
	}
	return w.Volumes.AdoptSnapshot(ctx, a, s)
}

// awaitReturn records that the agent's pod waits until nothing runs in the cell from which the agent returns.
func (w *run) awaitReturn(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	last, cancel := w.record(ctx)
	defer cancel()
	return w.progress(last, a, func(a *agent.Agent) { a.AwaitReturn(w.Now()) })
}

// runMove does what is due of an agent's move besides its pod. What fails is tried again later.
func (w *run) runMove(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	for range 2 { // an agent whose snapshots are adopted leaves its former cell immediately
		if !a.MoveDue(w.Now()) {
			break
		}
		record, err := w.visitMove(ctx, a)
		if err != nil {
			slog.WarnContext(ctx, "an agent's move is delayed", "agent_id", a.ID, "cell", a.Cell, "state", a.Move.State,
				"error", err)
			record = func(a *agent.Agent) { a.DelayMove(w.Now()) }
		}
		last, cancel := w.record(ctx)
		a, err = w.Records.Update(last, a, record)
		cancel()
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// visitMove does one step, and returns what the record must learn.
func (w *run) visitMove(ctx context.Context, a agent.Agent) (func(*agent.Agent), error) {
	if a.Move.State == agent.MoveAdopting {
		err := w.adopt(ctx, a)
		return func(a *agent.Agent) { a.Adopted(w.Now()) }, err
	}
	other := a.In(a.OtherCell())
	if err := w.Cluster.Delete(ctx, other); err != nil {
		return nil, err
	}
	gone, err := w.Cluster.CheckGone(ctx, other)
	return func(a *agent.Agent) { a.RecordLeft(gone.All(), w.Now()) }, err
}

// maxAdoptions is how many snapshots are adopted concurrently.
const maxAdoptions = 8

// adopt takes the agent's snapshots from its former cell to the present one. At no time does a cell that may still be
// left delete the only data.
func (w *run) adopt(ctx context.Context, a agent.Agent) error {
	former := a.In(a.OtherCell())
	return errors.Join(parallel.ForEach(a.SnapshotsToAdopt(), maxAdoptions, func(s agent.Snapshot) error {
		if err := w.Volumes.AdoptSnapshot(ctx, a, s); err != nil {
			return err
		}
		if err := w.Volumes.RetainSnapshot(ctx, former, s, true); err != nil {
			return err
		}
		return w.own(ctx, a, s)
	})...)
}

// own gives the data of an adopted snapshot to the agent's cell. It waits a moment until the cell has found it.
func (w *run) own(ctx context.Context, a agent.Agent, s agent.Snapshot) error {
	begun := time.Now()
	for {
		err := w.Volumes.RetainSnapshot(ctx, a, s, false)
		if !errors.Is(err, ErrSnapshotUnbound) || time.Since(begun) >= cutTime || sleep(ctx, cutPause) != nil {
			return err
		}
	}
}

// tearDownMove deletes what an agent that is being deleted has in another cell, and reports what is gone there.
func (w *run) tearDownMove(ctx context.Context, a agent.Agent) (Gone, error) {
	other := a.OtherCell()
	if other == "" {
		return Gone{Namespace: true, Volume: true, Snapshots: true}, nil
	}
	if w.Volumes != nil { // the former cell deletes the data, whether or not the new one can
		former := a.In(a.Move.From.Cell)
		errs := parallel.ForEach(a.SnapshotsToAdopt(), maxAdoptions, func(s agent.Snapshot) error {
			return w.Volumes.RetainSnapshot(ctx, former, s, false)
		})
		if err := errors.Join(errs...); err != nil {
			return Gone{}, err
		}
	}
	if err := w.Cluster.Delete(ctx, a.In(other)); err != nil {
		return Gone{}, err
	}
	return w.Cluster.CheckGone(ctx, a.In(other))
}

// And is what two cells no longer have.
func (g Gone) And(other Gone) Gone {
	return Gone{
		Namespace: g.Namespace && other.Namespace, Volume: g.Volume && other.Volume,
		Snapshots: g.Snapshots && other.Snapshots,
	}
}
