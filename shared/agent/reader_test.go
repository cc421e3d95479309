package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
)

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
	a.ReleaseReader("b", true, now)
	check("a call that does not hold it has no effect", hold("one", "b", now), "export_in_progress")
	a.ReleaseReader("a", false, now)
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
	check("the next call", hold("two", "c", end), "")
	if a.Reader.Number != 2 {
		t.Errorf("the second reader has number %d, want 2", a.Reader.Number)
	}
}
