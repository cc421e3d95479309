package mcp_test

import (
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

// TestTools_ChangeSchedules leaves them, replaces them and removes them.
func TestTools_ChangeSchedules(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	schedule := map[string]any{"id": "daily", "cron": "30 9 * * *", "path": "/v1/run", "body": "report"}
	created := want(t, session, "create_agent",
		map[string]any{"name": "a", "resource_plan": "hobby", "schedules": []any{schedule}})
	for _, step := range []struct {
		change map[string]any
		want   int
	}{
		{change: map[string]any{"name": "b"}, want: 1},
		{change: map[string]any{"schedules": []any{schedule, map[string]any{
			"id": "check", "cron": "0 * * * *", "path": "/check", "enabled": false,
		}}}, want: 2},
		{change: map[string]any{"schedules": []any{}}, want: 0},
	} {
		step.change["agent_id"] = created.structured["id"]
		want(t, session, "update_agent", step.change)
		changed := want(t, session, "get_agent", map[string]any{"agent_id": created.structured["id"]})
		got, listed := changed.structured["schedules"].([]any)
		if !listed || len(got) != step.want {
			t.Errorf("schedules after %v = %v, want %d", step.change, changed.structured["schedules"], step.want)
		}
		if len(got) == 1 {
			if shown, _ := got[0].(map[string]any); shown["body"] != "report" || shown["next_at"] == nil {
				t.Errorf("the schedule is %v", shown)
			}
		}
	}
}
