package agent_test

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

func elsewhere() agent.Place { return agent.Place{Cell: "other", Region: "europe-west4"} }

// departing is an agent whose move has begun.
func departing(t *testing.T) agent.Agent {
	t.Helper()
	a := runningOn(t)
	do(t, a.StartMove(elsewhere(), false, at(2)))
	return a
}

// departed is an agent that is being brought up in its new cell.
func departed(t *testing.T) agent.Agent {
	t.Helper()
	a := departing(t)
	a.RecordSnapshot(a.Move.SnapshotID, readyAt(3), at(3))
	return a
}

func TestMove_ChangesTheCellOnceTheSnapshotIsReady(t *testing.T) {
	t.Parallel()
	a := departing(t)
	home := agent.Place{Cell: a.Cell, Region: a.Region}
	equal(t, "the pod must run", a.RunsPod(), false)
	a.RecordSnapshot(a.Move.SnapshotID, cutAt(3), at(3))
	equal(t, "the pod must run once the snapshot is cut", a.RunsPod(), false)
	equal(t, "the cell", a.Cell, home.Cell)
	a.RecordSnapshot(a.Move.SnapshotID, readyAt(3), at(4))
	equal(t, "the cell", agent.Place{Cell: a.Cell, Region: a.Region}, elsewhere())
	equal(t, "the pod must run in the new cell", a.RunsPod(), true)
	equal(t, "the status", a.Status, agent.Running)
	equal(t, "the dashboard is warming", a.Warming, true)
	equal(t, "the volume", a.Volume, agent.Volume{
		Number: 1, Source: agent.VolumeSource{SnapshotID: a.Move.SnapshotID, Handle: "handle"}, Unmade: true,
	})
	equal(t, "the stages left", len(a.Unfinished()), len(agent.StageNames()))
	equal(t, "the other cell", a.OtherCell(), home.Cell)

	before := a.Clone()
	a.BecameReady(at(6))
	equal(t, "the state", a.Move.State, agent.MoveAdopting)
	wantEvent(t, before, a, event.AgentMoved)
	a.Adopted(at(7))
	a.RecordLeft(true, at(8))
	equal(t, "the move is open until the former cell stays empty", a.Move.Open(), true)
	a.RecordLeft(true, at(30))
	equal(t, "the move in the end", a.Move, agent.Move{})
}

func wantEvent(t *testing.T, before, after agent.Agent, want event.Type) {
	t.Helper()
	if !slices.ContainsFunc(agent.Events(before, after), func(d event.Draft) bool { return d.Type == want }) {
		t.Errorf("no event %s", want)
	}
}

func TestMove_TakesAnAgentBackThatDoesNotStart(t *testing.T) {
	t.Parallel()
	a := departed(t)
	home, before := a.Move.From, a.Clone()
	a.GiveUp(agent.Failure{Code: "pod_crash_loop", Message: "It ends."}, at(9))
	equal(t, "the cell", agent.Place{Cell: a.Cell, Region: a.Region}, home)
	equal(t, "the volume", a.Volume, agent.Volume{})
	equal(t, "the status", a.Status, agent.Running)
	equal(t, "the reason", a.Move.Reason, "pod_crash_loop: It ends.")
	equal(t, "the other cell", a.OtherCell(), elsewhere().Cell)
	wantEvent(t, before, a, event.AgentMoveFailed)

	equal(t, "the pod waits", a.Returns(), true)
	a.RecordLeft(true, at(9).Add(agent.ReturnMargin-time.Second))
	equal(t, "the pod waits for calls of slow workers", a.Returns(), true)
	a.RecordLeft(false, at(10))
	equal(t, "the pod waits while something runs", a.Returns(), true)
	a.RecordLeft(true, at(11))
	equal(t, "the pod waits", a.Returns(), false)
	a.BecameReady(at(12))
	a.RecordLeft(true, at(40))
	equal(t, "the state", a.Move.State, agent.MoveFailed)
	equal(t, "the other cell in the end", a.OtherCell(), "")
	do(t, a.StartMove(elsewhere(), false, at(50)))
}

// TestMove_TakesAnAgentWithoutAPodBackThatCannotArrive: its client stops it after it has left.
func TestMove_TakesAnAgentWithoutAPodBackThatCannotArrive(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		act       agent.Trigger
		permanent bool
		outage    bool
		wantBack  bool
	}{
		"stopped":                   {act: agent.Stop, permanent: true, wantBack: true},
		"paused":                    {act: agent.Pause, permanent: true, wantBack: true},
		"a failure that may pass":   {act: agent.Stop},
		"an outage":                 {act: agent.Stop, permanent: true, outage: true},
		"one that is being deleted": {act: agent.Delete, permanent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := departed(t)
			home := a.Move.From
			do(t, a.Act(row.act, agent.Manual, at(5)))
			f := agent.Failure{Code: "snapshots_missing", Message: "The cell takes no snapshots.", Outage: row.outage}
			equal(t, "the work has ended", a.FailRun(f, row.permanent, at(6)), row.wantBack)
			equal(t, "the agent is where it was", agent.Place{Cell: a.Cell, Region: a.Region} == home, row.wantBack)
			equal(t, "a worker goes on", a.Converged(), false)
		})
	}
}

func TestMove_EndsIfTheSnapshotFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*agent.Agent){
		"it is never cut": func(a *agent.Agent) {
			a.RecordSnapshot(a.Move.SnapshotID, agent.SnapshotState{}, at(3))
			a.RecordSnapshot(a.Move.SnapshotID, agent.SnapshotState{}, at(3).Add(agent.HoldTime))
		},
		"it is never copied": func(a *agent.Agent) {
			a.RecordSnapshot(a.Move.SnapshotID, cutAt(3), at(3))
			a.RecordSnapshot(a.Move.SnapshotID, cutAt(3), at(20))
			equal(t, "the state while storage copies", a.Move.State, agent.MoveCopying)
			a.RecordSnapshot(a.Move.SnapshotID, cutAt(3), at(33))
		},
		"it is refused":       func(a *agent.Agent) { a.RefuseSnapshot(a.Move.SnapshotID, "no", at(3)) },
		"the worker gives up": func(a *agent.Agent) { a.GiveUp(agent.Failure{Code: "x", Message: "no"}, at(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := departing(t)
			before := a.Clone()
			fail(&a)
			equal(t, "the state", a.Move.State, agent.MoveFailed)
			equal(t, "the cell", a.Cell, before.Cell)
			equal(t, "the pod is stopped for", a.StoppedFor, "")
			wantEvent(t, before, a, event.AgentMoveFailed)
			s, err := a.Snapshot(a.Move.SnapshotID)
			if err != nil || s.Status != agent.SnapshotFailed {
				t.Errorf("the snapshot is %+v, %v, want it failed", s, err)
			}
		})
	}
}

func TestMove_OfAnAgentWithoutAPod(t *testing.T) {
	t.Parallel()
	a := runningOn(t)
	do(t, a.Act(agent.Stop, agent.Manual, at(2)))
	a.MarkObserved(at(2))
	do(t, a.StartMove(elsewhere(), false, at(3)))
	waiting := a.Clone()
	a.RecordSnapshot(a.Move.SnapshotID, readyAt(4), at(4))
	equal(t, "the cell", a.Cell, elsewhere().Cell)
	a.MarkObserved(at(5))
	equal(t, "the state", a.Move.State, agent.MoveAdopting)
	equal(t, "the volume is made at the next start", a.Volume.Unmade, true)
	wantKind(t, "a restore", a.Restore(a.Move.SnapshotID, at(6)), fault.Conflict, "agent_moving")
	a.Adopted(at(6))
	wantKind(t, "a restore", a.Restore(a.Snapshots[0].ID, at(6)), fault.Conflict, "volume_unmade")
	wantKind(t, "a second move", a.StartMove(agent.Place{Cell: "third"}, true, at(6)), fault.Conflict, "agent_moving")

	a = waiting
	a.RecordSnapshot(a.Move.SnapshotID, cutAt(4), at(4))
	do(t, a.Act(agent.Start, "", at(4)))
	equal(t, "a start waits", a.RunsPod(), false)
	a.RecordSnapshot(a.Move.SnapshotID, readyAt(5), at(5))
	equal(t, "the cell", a.Cell, elsewhere().Cell)
	equal(t, "and takes place in the new cell", a.RunsPod(), true)
}

func TestMove_LeavesTheSnapshotsAlone(t *testing.T) {
	t.Parallel()
	a, s := taken(t, runningOn(t), 2)
	do(t, a.StartMove(elsewhere(), false, at(3)))
	for range 2 {
		_, err := a.RequestSnapshot(agent.SnapshotRequest{}, at(4))
		wantKind(t, "a snapshot", err, fault.Conflict, "agent_moving")
		wantKind(t, "a restore", a.Restore(s.ID, at(4)), fault.Conflict, "agent_moving")
		wantKind(t, "a deletion", a.DeleteSnapshot(s.ID, at(4)), fault.Conflict, "agent_moving")
		wantKind(t, "an export", a.HoldReader(s.ID, "h", at(4)), fault.Conflict, "agent_moving")
		a.PrepareSnapshots(at(4).AddDate(1, 0, 0))
		equal(t, "the snapshot that is kept", a.Snapshots[0].Status, agent.SnapshotReady)
		a.RecordSnapshot(a.Move.SnapshotID, readyAt(5), at(5))
	}
	a.BecameReady(at(6))
	wantKind(t, "a deletion", a.DeleteSnapshot(s.ID, at(6)), fault.Conflict, "agent_moving")
	a.Adopted(at(7))
	do(t, a.DeleteSnapshot(s.ID, at(8)))
}

// After a roll-back, a move may be in a state that only the later release knows. Both cells may have the agent's data.
func TestMove_InAStateOfALaterReleaseKeepsWhatBothCellsHave(t *testing.T) {
	t.Parallel()
	from := func(m agent.Move) agent.Place { return m.From }
	to := func(m agent.Move) agent.Place { return m.To }
	for name, row := range map[string]struct{ cell, want func(agent.Move) agent.Place }{
		"in the former cell": {cell: from, want: to},
		"in the new cell":    {cell: to, want: from},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, s := taken(t, runningOn(t), 2)
			do(t, a.StartMove(elsewhere(), false, at(3)))
			a.RecordSnapshot(a.Move.SnapshotID, readyAt(4), at(4))
			a.BecameReady(at(5))
			a.Move.State, a.Cell = "verifying", row.cell(a.Move).Cell
			equal(t, "the other cell", a.OtherCell(), row.want(a.Move).Cell)
			equal(t, "the move is over", a.Move.Settled(), false)
			_, err := a.RequestSnapshot(agent.SnapshotRequest{}, at(6))
			wantKind(t, "a snapshot", err, fault.Conflict, "agent_moving")
			wantKind(t, "a restore", a.Restore(s.ID, at(6)), fault.Conflict, "agent_moving")
			wantKind(t, "a deletion", a.DeleteSnapshot(s.ID, at(6)), fault.Conflict, "agent_moving")
			a.PrepareSnapshots(at(6).AddDate(1, 0, 0))
			equal(t, "the snapshots that are left", len(a.Snapshots), 2)
			for _, kept := range a.Snapshots {
				equal(t, "a snapshot that is kept", kept.Status, agent.SnapshotReady)
			}
		})
	}
}

func TestCheckMove_SaysWhyAnAgentStays(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]func(*agent.Agent){
		"move_same_cell":      func(a *agent.Agent) { a.Cell = elsewhere().Cell },
		"agent_moving":        func(a *agent.Agent) { a.Move.State = agent.MoveLeaving },
		"move_unsettled":      func(a *agent.Agent) { do(t, a.Act(agent.Restart, "", at(2))) },
		"move_watched":        func(a *agent.Agent) { a.WatchedBy = "release" },
		"move_without_volume": func(a *agent.Agent) { a.LastReadyIsolation = "" },
		"move_snapshots": func(a *agent.Agent) {
			_, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, at(2))
			do(t, err)
		},
		"move_not_agreed": func(a *agent.Agent) { a.ImagePolicy = image.Pinned },
	} {
		a := runningOn(t)
		change(&a)
		wantKind(t, "StartMove", a.StartMove(elsewhere(), false, at(3)), fault.Conflict, code)
	}
	a := runningOn(t)
	a.ImagePolicy, a.MaintenanceWindow = image.Window, &image.MaintenanceWindow{}
	wantKind(t, "outside of the window", a.CheckMove(elsewhere(), false, at(3)), fault.Conflict, "move_not_agreed")
	do(t, a.CheckMove(elsewhere(), true, at(3)))
}
