package agent_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

func TestRequestSnapshot_StopsThePodOnlyIfItMust(t *testing.T) {
	t.Parallel()
	hooked := func(a agent.Agent) agent.Agent {
		a.Image.Quiesce = "/quiesce"
		return a
	}
	stopped := func(a agent.Agent) agent.Agent {
		_ = a.Act(agent.Stop, agent.Manual, at(2))
		a.MarkObserved(at(2))
		return a
	}
	for name, row := range map[string]struct {
		agent     agent.Agent
		asked     agent.Consistency
		want      agent.Consistency
		wantStops bool
	}{
		"by default": {agent: runningOn(t), want: agent.ConsistentByStop, wantStops: true},
		"a hook":     {agent: hooked(runningOn(t)), want: agent.ConsistentByHook},
		"a stop although there is a hook": {
			agent: hooked(runningOn(t)), asked: agent.ConsistentByStop, want: agent.ConsistentByStop, wantStops: true,
		},
		"after a crash": {
			agent: runningOn(t), asked: agent.ConsistentAfterCrash, want: agent.ConsistentAfterCrash,
		},
		"of a stopped agent":           {agent: stopped(runningOn(t)), want: agent.ConsistentByStop},
		"of a stopped one with a hook": {agent: stopped(hooked(runningOn(t))), want: agent.ConsistentByStop},
	} {
		a := row.agent
		before := a.Generation
		s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: row.asked, By: "user"}, at(3))
		equal(t, name+": error", err, nil)
		equal(t, name+": consistency", s.Consistency, row.want)
		equal(t, name+": stops the pod", a.StoppedFor == s.ID, row.wantStops)
		equal(t, name+": another generation", a.Generation > before, row.wantStops)
		equal(t, name+": a pod runs", a.RunsPod(), a.WantsPod() && !row.wantStops)
		equal(t, name+": due", a.SnapshotsDue(at(3)), !row.wantStops)
		equal(t, name+": by", s.CreatedBy, "user")
	}
}

func TestRequestSnapshot_IsRefused(t *testing.T) {
	t.Parallel()
	full, _ := taken(t, runningOn(t), 2)
	full.Plan = plan.Hobby
	pending := runningOn(t)
	if _, err := pending.RequestSnapshot(agent.SnapshotRequest{}, at(2)); err != nil {
		t.Fatal(err)
	}
	deleted := runningOn(t)
	_ = deleted.Act(agent.Delete, "", at(2))
	fresh := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: plan.Pro}, at(0))
	for name, row := range map[string]struct {
		agent agent.Agent
		asked agent.Consistency
		kind  fault.Kind
		code  string
	}{
		"more than the plan keeps": {agent: full, kind: fault.PaymentRequired, code: "plan_capacity_exceeded"},
		"one is not taken yet":     {agent: pending, kind: fault.Conflict, code: "snapshot_in_progress"},
		"being deleted":            {agent: deleted, kind: fault.Conflict, code: "agent_deleting"},
		"no data":                  {agent: fresh, kind: fault.Conflict, code: "volume_empty"},
		"no hook": {
			agent: runningOn(t), asked: agent.ConsistentByHook, kind: fault.Conflict, code: "hook_missing",
		},
	} {
		before := row.agent.Clone()
		_, err := row.agent.RequestSnapshot(agent.SnapshotRequest{Consistency: row.asked}, at(3))
		wantKind(t, name, err, row.kind, row.code)
		equal(t, name+": unchanged", row.agent.Equal(before), true)
	}
}

// TestRequestSnapshot_LeavesRoomInTheRecord: one that fails stays for a week, and so does what a restore replaced.
func TestRequestSnapshot_LeavesRoomInTheRecord(t *testing.T) {
	t.Parallel()
	a, ready := taken(t, runningOn(t), 2)
	r := agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}
	const enough = 100 // for a plan that keeps 30 by request and 30 daily ones
	for n := range 1000 {
		s, err := a.RequestSnapshot(r, at(3+n))
		if err == nil {
			a.RefuseSnapshot(s.ID, "The program ended with status 1.", at(3+n))
			continue
		}
		equal(t, "enough", len(a.Snapshots) > enough, true)
		wantKind(t, "one more", err, fault.Conflict, "snapshots_full")
		wantKind(t, "a restore", a.Restore(ready.ID, at(3+n)), fault.Conflict, "snapshots_full")
		equal(t, "error of a deletion", a.DeleteSnapshot(a.Snapshots[1].ID, at(3+n)), nil)
		return
	}
	t.Errorf("the record has %d snapshots", len(a.Snapshots))
}
