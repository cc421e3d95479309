package mcp_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

// TestSleep_IsSetAndExplained sets when an agent sleeps, also to never, and lets it sleep and wake.
func TestSleep_IsSetAndExplained(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	created := want(t, session, "create_agent", map[string]any{
		"name": "one", "resource_plan": "hobby", "sleep_after_seconds": 7200, "wake_on": []string{"request"},
	})
	id, _ := created.structured["id"].(string)
	s.Reconcile(t, id)
	if p := s.Agent(t, id).Sleep; p.AfterSeconds != 7200 || len(p.WakeOn) != 1 {
		t.Errorf("the new agent has the policy %+v, want 7200 and requests", p)
	}
	of := map[string]any{"agent_id": id}
	got := want(t, session, "sleep_agent", of)
	if got.structured["status_reason"] != "idle" || !strings.Contains(got.text, "is asleep") ||
		!strings.Contains(got.text, "A request to its address wakes it") {
		t.Errorf("sleep_agent = %s, want an agent that sleeps and what wakes it", got.whole)
	}
	want(t, session, "update_agent", map[string]any{"agent_id": id, "wake_on": []string{}})
	if got := want(t, session, "get_agent", of); strings.Contains(got.text, "A request") {
		t.Errorf("get_agent says of an agent that no request wakes: %s", got.text)
	}
	want(t, session, "update_agent", map[string]any{"agent_id": id, "sleep_after_seconds": 0})
	if p := s.Agent(t, id).Sleep; p.AfterSeconds != 0 {
		t.Errorf("with 0, the policy is %+v, want never", p)
	}
	for _, seconds := range []int{1, 299, 604801, -5} {
		given := map[string]any{"agent_id": id, "sleep_after_seconds": seconds}
		wantError(t, session, "update_agent", given, "validation_error")
	}
}
