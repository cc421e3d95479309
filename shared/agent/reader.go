package agent

import (
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// Reader is a pod of the platform that has a copy of one snapshot, for its export. It is part of the agent's record, so
// that a worker takes the pod and the copy away whatever happens to the export.
type Reader struct {
	// Number counts the readers that the agent had. It stays when the reader is gone.
	Number int64
	// SnapshotID is empty without a reader.
	SnapshotID string
	// Holder is the call that exports; empty between two calls.
	Holder string
	// Until is when the pod and the copy are taken away, unless a call asks for them again.
	Until time.Time
	// LookAt is when a worker looks at them next: at Until, once they are made.
	LookAt time.Time
	// Charged is true while the export that it serves is counted against the rate limit and has sent no byte. The next
	// call, which repeats that export, is free.
	Charged bool
	// GoneAt is when the copy was first observed gone; see lateness. From then on the next reader may take its place.
	GoneAt time.Time
	// Problem is why the snapshot cannot be copied, whatever a worker does; empty if it can.
	Problem string
}

const (
	// ReaderTime is how long a reader stays after a call has asked for it. A call that exports asks again and again.
	ReaderTime = 3 * time.Minute
	// readerRetry is when a worker tries again to make a reader.
	readerRetry = 5 * time.Second
	// readerGenerations is how many generations of its workload a reader has: that of its pod, and that of its end.
	readerGenerations = 2
)

// HoldReader asks for the reader of a snapshot on behalf of a call, or for more time. Errors: NotFound; Conflict if the
// snapshot is not ready or cannot be copied, if another call exports a snapshot of the agent, or if the reader of one
// is being taken away.
func (a *Agent) HoldReader(id, holder string, now time.Time) error {
	s := a.snapshot(id)
	switch r := a.Reader; {
	case a.Status == Deleting:
		return a.conflict("an export")
	case s == nil || s.Gone():
		return SnapshotNotFound()
	case a.keepsSnapshots():
		return agentMoving().WithMeta(a.ConflictMeta())
	case s.Status != SnapshotReady:
		return fault.New(fault.Conflict, "snapshot_not_ready",
			"The snapshot is %s. Only one that is ready can be exported.", s.Status).WithMeta(a.ConflictMeta())
	case r.SnapshotID == id && r.Problem != "":
		return fault.New(fault.Conflict, "snapshot_not_exportable", "%s", r.Problem).WithMeta(a.ConflictMeta())
	case r.ended():
		a.Reader = Reader{
			Number: r.Number + 1, SnapshotID: id, Holder: holder, Until: now.Add(ReaderTime), LookAt: now,
		}
		return nil
	case r.SnapshotID != id, !r.Until.After(now), r.Holder != "" && r.Holder != holder:
		e := fault.New(fault.Conflict, "export_in_progress",
			"Another export of the agent is running, or has just ended. Retry in a minute.").WithMeta(a.ConflictMeta())
		e.RetryAfter = time.Minute
		return e
	default:
		a.Reader.Holder, a.Reader.Until = holder, now.Add(ReaderTime)
		if r.made() {
			a.Reader.LookAt = a.Reader.Until
		}
		return nil
	}
}

// AdmitExport gives the reader of a snapshot to a call, and counts the export against its organization's rate limit.
// Errors: those of HoldReader, which cost nothing; RateLimited.
func (a *Agent) AdmitExport(o *organization.Organization, id, holder string, exports ratelimit.Limit, now time.Time,
) error {
	if err := a.HoldReader(id, holder, now); err != nil || a.Reader.Charged {
		return err
	}
	bytes, err := a.VolumeBytes(*a.snapshot(id))
	if err != nil {
		return err
	}
	a.Reader.Charged = true
	return o.CountExport(exports, bytes, now)
}

// VolumeBytes is the size of the volume of a snapshot. It is that of the plan if storage did not report it.
func (a Agent) VolumeBytes(s Snapshot) (int64, error) {
	if s.SizeBytes > 0 {
		return s.SizeBytes, nil
	}
	p, err := plan.Get(a.Plan)
	return p.StorageBytes(), err
}

// made reports whether a worker has made the reader. No worker makes it again: one of another release would replace the
// pod's program by another build, and end the export.
func (r Reader) made() bool { return r.LookAt.Equal(r.Until) }

// ReleaseReader ends what a call asked for. The reader of an export that is complete is not needed any more; otherwise
// it stays for a while, because the client may call again. That call is free only if this one sent nothing.
func (a *Agent) ReleaseReader(holder string, sent int64, complete bool, now time.Time) {
	if a.Reader.Holder != holder || holder == "" {
		return
	}
	a.Reader.Holder = ""
	a.Reader.Charged = a.Reader.Charged && sent == 0
	if complete {
		a.Reader.Until, a.Reader.LookAt = now, now
	}
}

// ReaderDue reports whether a worker must look at the reader now, and whether it must exist.
func (a Agent) ReaderDue(now time.Time) (due, wanted bool) {
	r := a.Reader
	due = a.Status != Deleting && r.SnapshotID != "" && !r.LookAt.After(now)
	return due, r.Until.After(now) && !r.ended() && a.snapshot(r.SnapshotID) != nil
}

// RecordReader records that the reader exists, or that it could not be made yet.
func (a *Agent) RecordReader(made bool, now time.Time) {
	a.Reader.LookAt = a.Reader.Until
	if !made {
		a.Reader.LookAt = now.Add(readerRetry)
	}
}

// RefuseReader records that no copy of the snapshot can be made, whatever a worker does, and ends its reader. Calls
// learn it until the reader leaves the record.
func (a *Agent) RefuseReader(problem string, now time.Time) {
	a.Reader.Problem, a.Reader.Until, a.Reader.LookAt = problem, now, now
}

// RecordReaderGone records whether the cluster has the copy of a reader that is taken away. One that stays gone leaves
// the record.
func (a *Agent) RecordReaderGone(gone bool, now time.Time) {
	r := &a.Reader
	switch r.GoneAt, r.LookAt = seenGone(r.GoneAt, gone, now); {
	case !gone:
		r.LookAt = now.Add(readerRetry)
	case r.LookAt.IsZero():
		a.Reader = Reader{Number: r.Number}
	}
}

// ReaderCopies lists the snapshots whose copies a worker takes away. When it looks once more, they include those of
// former readers, whose places the present one took before a worker looked for their copies again.
func (a Agent) ReaderCopies() []string {
	ids := []string{a.Reader.SnapshotID}
	for _, s := range a.Snapshots {
		if a.Reader.ended() && a.Reader.Number > 1 && s.ID != ids[0] && s.Status == SnapshotReady {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// ended reports whether there is no reader, also if a worker looks once more for a copy that was made late.
func (r Reader) ended() bool { return r.SnapshotID == "" || !r.GoneAt.IsZero() }

// Generation is that of the reader's workload. It is higher for every later reader, and for its end, so that no late
// worker makes a pod again that was taken away.
func (r Reader) Generation(runs bool) int64 {
	if runs {
		return readerGenerations * r.Number
	}
	return readerGenerations*r.Number + 1
}

// PassReader gives the reader a number whose generations are above that of the workload on the cluster. It serves
// records of a database that was restored from a backup.
func (a *Agent) PassReader(above int64) {
	a.Reader.Number = max(a.Reader.Number, above/readerGenerations+1)
}

// exports reports whether a reader has, or is about to have, a copy of a snapshot.
func (a Agent) exports(id string) bool { return a.Reader.SnapshotID == id && !a.Reader.ended() }
