package mcp_test

import (
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

// snapshot gives an agent a daily snapshot that is ready, and returns its id.
func (s *service) snapshot(t *testing.T, agentID string) string {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	a := s.UpdateAgent(t, agentID, func(a *agent.Agent) {
		taken, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, now)
		if err != nil {
			t.Fatal(err)
		}
		a.RecordSnapshot(taken.ID, agent.SnapshotState{CutAt: now, Handle: "h", Ready: true, SizeBytes: 1 << 30}, now)
		a.Snapshots[0].Cause, a.Snapshots[0].Name = agent.SnapshotBySchedule, "Daily snapshot"
	})
	return a.Snapshots[0].ID
}

// TestTools_TakeRestoreAndDeleteSnapshots goes through what an assistant does with snapshots.
func TestTools_TakeRestoreAndDeleteSnapshots(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, map[string]string{"OPENAI_API_KEY": "value"})
	daily := s.snapshot(t, a.ID)
	session := s.connect(t, functiontest.AdminToken(org), "")
	of := map[string]any{"agent_id": a.ID}
	taken := want(t, session, "take_snapshot",
		map[string]any{"agent_id": a.ID, "name": "by hand", "consistency": "crash"})
	if taken.structured["name"] != "by hand" || taken.structured["status"] != "pending" {
		t.Errorf("take_snapshot = %v, want a pending snapshot", taken.structured)
	}
	listed := want(t, session, "list_snapshots", of)
	all, _ := listed.structured["snapshots"].([]any)
	if len(all) != 2 {
		t.Fatalf("list_snapshots = %v, want two", listed.structured)
	}
	if first, _ := all[0].(map[string]any); first["consistency"] != "crash" || first["cause"] != "user" {
		t.Errorf("the newest snapshot is %v", first)
	}
	restore := map[string]any{"agent_id": a.ID, "snapshot_id": daily}
	rehearsal := map[string]any{"agent_id": a.ID, "snapshot_id": daily, "dry_run": true}
	if got := want(t, session, "restore_snapshot", rehearsal); !strings.Contains(got.text, "lose what it wrote since") {
		t.Errorf("the rehearsal says %q, want what is lost", got.text)
	}
	if got := want(t, session, "restore_snapshot", restore).structured; got["status"] != "provisioning" {
		t.Errorf("restore_snapshot = %v, want that it is provisioning", got)
	}
	clone := want(t, session, "create_agent",
		map[string]any{"name": "copy", "resource_plan": "hobby", "from_snapshot": daily})
	shown := want(t, session, "get_agent",
		map[string]any{"agent_id": clone.structured["id"], "fields": []string{"clone_of", "unset_secrets"}})
	if !strings.Contains(shown.text, daily) || !strings.Contains(shown.text, "OPENAI_API_KEY") {
		t.Errorf("get_agent = %q, want what the clone is of and the secret that it lacks", shown.text)
	}
	remove := map[string]any{"agent_id": a.ID, "snapshot_id": taken.structured["id"], "name": "another"}
	wantError(t, session, "delete_snapshot", remove, "invalid_arguments")
	remove["name"] = "by hand"
	if got := want(t, session, "delete_snapshot", remove).structured; got["status"] != "deleting" {
		t.Errorf("delete_snapshot = %v, want that it is being deleted", got)
	}
}
