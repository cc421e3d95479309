package provisioning

import (
	"context"
	"errors"
	"log/slog"

	"agents.example/controlplane/shared/agent"
)

// Readers are pods of the platform that have a copy of a snapshot, so that it can be read while the agent writes, or
// does not run.
type Readers interface {
	// ApplyReader makes the copy of a snapshot and the pod that has it. It does not wait for them, and may be repeated.
	// Errors: *Stale if the agent had a later reader; a Permanent fault, which no retry repairs; Unavailable.
	ApplyReader(ctx context.Context, a agent.Agent, s agent.Snapshot) error
	// DeleteReader begins to take the pod and the copies of snapshots away, and reports whether the copies are observed
	// gone. Errors: *Stale if the agent had a later reader; Unavailable.
	DeleteReader(ctx context.Context, a agent.Agent, snapshotIDs []string) (gone bool, err error)
}

// runReader makes the reader that the record asks for, or takes it away. What fails is tried again later; it does not
// keep the agent from being reconciled.
func (w *run) runReader(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	due, wanted := a.ReaderDue(w.Now())
	if !due || w.Readers == nil {
		return a, nil
	}
	record := w.takeReaderAway
	if wanted {
		record = w.makeReader
	}
	learned := record(ctx, a)
	last, cancel := w.record(ctx)
	defer cancel()
	return w.Records.Update(last, a, func(latest *agent.Agent) {
		// A later reader of the same snapshot is another one.
		if now := latest.Reader; now.Number == a.Reader.Number && now.SnapshotID == a.Reader.SnapshotID {
			learned(latest)
		}
	})
}

func (w *run) makeReader(ctx context.Context, a agent.Agent) func(*agent.Agent) {
	s, err := a.Snapshot(a.Reader.SnapshotID)
	if err == nil {
		err = w.Readers.ApplyReader(ctx, a, s)
	}
	if err != nil {
		slog.WarnContext(ctx, "the reader of a snapshot could not be made", "agent_id", a.ID, "snapshot_id",
			a.Reader.SnapshotID, "error", err)
	}
	return func(a *agent.Agent) {
		if isPermanent(err) {
			a.RefuseReader(describeSnapshot(err), w.Now())
			return
		}
		a.RecordReader(err == nil, w.Now())
		passReader(a, err)
	}
}

func (w *run) takeReaderAway(ctx context.Context, a agent.Agent) func(*agent.Agent) {
	gone, err := w.Readers.DeleteReader(ctx, a, a.ReaderCopies())
	if err != nil {
		slog.WarnContext(ctx, "the reader of a snapshot could not be taken away", "agent_id", a.ID, "snapshot_id",
			a.Reader.SnapshotID, "error", err)
	}
	return func(a *agent.Agent) {
		a.RecordReaderGone(gone && err == nil, w.Now())
		passReader(a, err)
	}
}

// passReader raises the number of the reader if the cluster has a later one. Otherwise it would refuse every reader of
// the agent, and the end of the present one.
func passReader(a *agent.Agent, err error) {
	var stale *Stale
	if errors.As(err, &stale) {
		a.PassReader(stale.Generation)
	}
}
