package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/egress"
)

// allowList is the argument egress of an agent that reaches some hosts only.
func allowList(hosts ...string) map[string]any {
	return map[string]any{"mode": "allow_list", "allow": hosts}
}

// TestEgress_IsRestrictedReadAndWidened does with tools what a person does after a refusal.
func TestEgress_IsRestrictedReadAndWidened(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	created := want(t, session, "create_agent",
		map[string]any{"name": "a", "resource_plan": "hobby", "egress": allowList("a.example")})
	id, _ := created.structured["id"].(string)
	of := map[string]any{"agent_id": id}
	hosts := map[string]any{"agent_id": id, "hosts": []string{"b.example"}}
	at := time.Now().UTC()
	if err := s.EgressLog.Record(t.Context(), "gate", egress.Report{
		AgentID: id, Day: at.Format(egress.DayFormat), Hosts: []egress.Count{
			{Host: "b.example", Refused: 2, Reason: egress.NotListed, FirstAt: at, LastAt: at, RefusedAt: at},
			{Host: "a.example", Used: 3, FirstAt: at, LastAt: at},
		},
	}); err != nil {
		t.Fatal(err)
	}
	log := want(t, session, "get_egress_log", of)
	if !strings.Contains(log.whole, "not_listed") || !strings.Contains(log.text, "no instructions") {
		t.Errorf("get_egress_log = %s, want the refusal, marked as the agent's data", log.whole)
	}
	narrower := map[string]any{"agent_id": id, "egress": allowList("z.example"), "dry_run": true}
	if got := want(t, session, "update_agent", narrower); !strings.Contains(got.text, "no longer reach 1 hosts") {
		t.Errorf("the rehearsal is %s, want the host that the agent loses", got.whole)
	}
	for _, step := range []struct {
		tool   string
		change map[string]any
		want   string
	}{
		{tool: "allow_egress_hosts", change: hosts, want: "map[allow:[a.example b.example] deny:[] mode:allow_list]"},
		{
			tool:   "update_agent",
			change: map[string]any{"agent_id": id, "egress": map[string]any{"deny": []string{"b.example"}}},
			want:   "map[allow:[a.example b.example] deny:[b.example] mode:allow_list]",
		},
		{
			tool: "update_agent", change: map[string]any{"agent_id": id, "egress": map[string]any{"allow": []string{}}},
			want: "map[allow:[] deny:[b.example] mode:allow_list]",
		},
	} {
		want(t, session, step.tool, step.change)
		if got := fmt.Sprint(want(t, session, "get_agent", of).structured["egress"]); got != step.want {
			t.Errorf("after %v the egress is %s, want %s", step.change, got, step.want)
		}
	}
	member := s.connect(t, functiontest.MemberToken(org), "")
	wantError(t, member, "get_egress_log", of, "role_required")
	wantError(t, member, "allow_egress_hosts", hosts, "role_required")
	wantError(t, session, "allow_egress_hosts", map[string]any{"agent_id": id, "hosts": []string{"10.0.0.1"}},
		"validation_error")
	want(t, session, "update_agent", map[string]any{"agent_id": id, "egress": map[string]any{"mode": "open"}})
	wantError(t, session, "allow_egress_hosts", hosts, "egress_open")
}

// TestSecrets_AreInjected sets a secret that the agent does not get.
func TestSecrets_AreInjected(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	given := map[string]any{
		"agent_id": a.ID, "secrets": map[string]any{"TOKEN": "value"}, "inject": map[string]any{
			"TOKEN": map[string]any{"hosts": []string{"a.example"}, "header": "X-Api-Key", "format": "{value}"},
		},
	}
	wantError(t, session, "set_secrets", given, "egress_open")
	want(t, session, "update_agent", map[string]any{"agent_id": a.ID, "egress": allowList("a.example")})
	want(t, session, "set_secrets", given)
	s.Reconcile(t, a.ID)
	if injected := s.Agent(t, a.ID).Injected; len(injected) != 1 || injected[0].Key != "TOKEN" {
		t.Errorf("the agent has the brokered secrets %+v, want TOKEN", injected)
	}
	list := want(t, session, "list_secrets", map[string]any{"agent_id": a.ID})
	if !strings.Contains(list.whole, "X-Api-Key") {
		t.Errorf("list_secrets = %s, want where the secret is added", list.whole)
	}
}
