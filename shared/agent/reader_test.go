package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// TestAdmitExport_CountsEachThatMaySendBytes admits exports of a volume of 20 GiB, or of a bit more, in an organization
// that may export 50 GiB a day. A repeat of an export that sent nothing, because the copy was not ready yet, is free.
func TestAdmitExport_CountsEachThatMaySendBytes(t *testing.T) {
	t.Parallel()
	const interval = 24 * time.Hour / 50
	limit, now := ratelimit.Limit{Quota: 50, Window: 24 * time.Hour}, time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	a := agent.Agent{ID: agenttest.ID(), Plan: plan.Startup, Status: agent.Running, Snapshots: []agent.Snapshot{
		{ID: "of the plan", Status: agent.SnapshotReady},
		{ID: "larger", Status: agent.SnapshotReady, SizeBytes: 20<<30 + 1},
		{ID: "pending"},
		{ID: "gone", Status: agent.SnapshotDeleting, GoneAt: now},
	}}
	var o organization.Organization
	for _, step := range []struct {
		about, id, wantCode string
		release             func()
		wantCost            time.Duration // of all exports until then
	}{
		{about: "one that is not ready", id: "pending", wantCode: "snapshot_not_ready"},
		{about: "one that is deleted", id: "gone", wantCode: "snapshot_not_found"},
		{about: "the first", id: "of the plan", wantCost: 20 * interval},
		{about: "a second call", id: "larger", wantCode: "export_in_progress", wantCost: 20 * interval},
		{
			about: "a repeat without bytes", id: "of the plan", wantCost: 20 * interval,
			release: func() { a.ReleaseReader("of the plan", 0, false, now) },
		},
		{
			about: "a repeat after bytes", id: "of the plan", wantCost: 40 * interval,
			release: func() { a.ReleaseReader("of the plan", 1, false, now) },
		},
		{
			about: "more than is left", id: "larger", wantCode: "rate_limited", wantCost: 40 * interval,
			release: func() { a.RecordReaderGone(true, now) },
		},
		{
			about: "what is left a bit later", id: "larger", wantCost: 61 * interval,
			release: func() { now = now.Add(11 * interval) },
		},
	} {
		if step.release != nil {
			step.release()
		}
		admitted := a
		code := fault.Code(admitted.AdmitExport(&o, step.id, step.id, limit, now))
		if code != step.wantCode {
			t.Errorf("%s: %q, want %q", step.about, code, step.wantCode)
		}
		if code == "" {
			a = admitted
		}
		var cost time.Duration
		if !o.ExportsFullAt.IsZero() {
			cost = o.ExportsFullAt.Sub(time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC))
		}
		if cost != step.wantCost {
			t.Errorf("%s: the exports cost %v, want %v", step.about, cost, step.wantCost)
		}
	}
}

// TestReader_IsOneCallsAndEnds follows the reader of a snapshot through two calls.
func TestReader_IsOneCallsAndEnds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	a := agent.Agent{ID: agenttest.ID(), Status: agent.Running, Snapshots: []agent.Snapshot{
		{ID: "one", Status: agent.SnapshotReady}, {ID: "two", Status: agent.SnapshotReady}, {ID: "three"},
	}}
	hold := func(id, holder string, at time.Time) string { return fault.Code(a.HoldReader(id, holder, at)) }
	check := func(step, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", step, got, want)
		}
	}
	check("an unknown snapshot", hold("none", "a", now), "snapshot_not_found")
	check("one that is not ready", hold("three", "a", now), "snapshot_not_ready")
	check("the first call", hold("one", "a", now), "")
	if due, wanted := a.ReaderDue(now); !due || !wanted {
		t.Errorf("a new reader: due %v, wanted %v", due, wanted)
	}
	a.RecordReader(false, now)
	check("more time for a reader that is not made", hold("one", "a", now.Add(time.Second)), "")
	if due, wanted := a.ReaderDue(now.Add(5 * time.Second)); !due || !wanted {
		t.Errorf("a reader that could not be made: due %v, wanted %v", due, wanted)
	}
	a.RecordReader(true, now)
	check("another call", hold("one", "b", now), "export_in_progress")
	check("another snapshot", hold("two", "a", now), "export_in_progress")
	check("the deletion of the snapshot", fault.Code(a.DeleteSnapshot("one", now)), "snapshot_in_use")
	a.ReleaseReader("b", 0, true, now)
	check("a call that does not hold it has no effect", hold("one", "b", now), "export_in_progress")
	a.ReleaseReader("a", 0, false, now)
	check("a repeat", hold("one", "b", now.Add(time.Minute)), "")
	if due, _ := a.ReaderDue(a.Reader.Until.Add(-time.Nanosecond)); due {
		t.Error("a worker makes a reader again that is held")
	}
	end := a.Reader.Until
	if due, wanted := a.ReaderDue(end); !due || wanted {
		t.Errorf("a reader whose time is over: due %v, wanted %v; want that it is taken away", due, wanted)
	}
	check("a call while it is taken away", hold("one", "b", end), "export_in_progress")
	a.RecordReaderGone(true, end)
	copied := a.Clone()
	check("the deletion of the snapshot, once the copy is gone", fault.Code(copied.DeleteSnapshot("one", end)), "")
	check("the next call", hold("two", "c", end), "")
	if a.Reader.Number != 2 {
		t.Errorf("the second reader has number %d, want 2", a.Reader.Number)
	}
}

// TestReader_SaysThatASnapshotCannotBeCopied: a call that is told to retry would do so forever.
func TestReader_SaysThatASnapshotCannotBeCopied(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	a := agent.Agent{ID: agenttest.ID(), Status: agent.Running, Snapshots: []agent.Snapshot{
		{ID: "one", Status: agent.SnapshotReady}, {ID: "two", Status: agent.SnapshotReady},
	}}
	want := func(id, holder string, at time.Time, code string) {
		t.Helper()
		b := a
		if got := fault.Code(b.HoldReader(id, holder, at)); got != code {
			t.Errorf("%s, %v later: %q, want %q", holder, at.Sub(now), got, code)
		}
	}
	if err := a.HoldReader("one", "call", now); err != nil {
		t.Fatal(err)
	}
	a.RefuseReader("It is gone.", now)
	if due, wanted := a.ReaderDue(now); !due || wanted {
		t.Errorf("a reader that is refused: due %v, wanted %v; want that it is taken away", due, wanted)
	}
	want("one", "call", now, "snapshot_not_exportable")
	want("two", "another call", now, "export_in_progress")
	a.RecordReaderGone(true, now)
	want("one", "call", now, "snapshot_not_exportable")
	want("two", "another call", now, "")
	later := now.Add(time.Hour)
	a.RecordReaderGone(true, later)
	want("one", "a later call", later, "")
}
