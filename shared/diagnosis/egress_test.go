package diagnosis_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
)

func restricted(a agent.Agent) agent.Agent {
	a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{"*.example"}, Deny: []string{"denied.example"}}
	return a
}

func refused(host string, at time.Time) egress.Count {
	return egress.Count{Host: host, Refused: 3, Reason: egress.NotListed, RefusedAt: at}
}

// TestOf_NamesHostsThatWereRefused is about agents that run, start, and fail.
func TestOf_NamesHostsThatWereRefused(t *testing.T) {
	t.Parallel()
	now := after(2 * time.Hour)
	lately := now.Add(-time.Minute)
	failing := restricted(running())
	failing.Break(crash(), lately)
	const unlisted = "The agent cannot reach api.openai.com: it is not on its list of allowed hosts."
	for name, row := range map[string]struct {
		agent   agent.Agent
		reached []egress.Count
		summary string   // a part of it
		causes  []string // their codes
	}{
		"running": {
			agent: restricted(running()), reached: []egress.Count{refused("api.openai.com", lately)},
			summary: "The agent is running. " + unlisted, causes: []string{"egress_refused"},
		},
		"crashing": {
			agent: failing, reached: []egress.Count{refused("api.openai.com", lately)},
			summary: "The agent exits soon after it starts. " + unlisted,
			causes:  []string{"pod_crash_loop", "egress_refused"},
		},
		"denied": {
			agent: restricted(running()), reached: []egress.Count{refused("denied.example", lately)},
			summary: "denied.example: it is on its list of denied hosts.", causes: []string{"egress_refused"},
		},
		"several": {
			agent: restricted(running()),
			reached: []egress.Count{
				refused("a.org", lately.Add(-time.Second)), refused("api.openai.com", lately),
				refused("b.org", lately.Add(-time.Second)),
			},
			summary: unlisted + " It was refused 2 other hosts, too.", causes: []string{"egress_refused"},
		},
		"allowed since": {
			agent: restricted(running()), reached: []egress.Count{refused("api.example", lately)},
		},
		"an hour ago": {
			agent: restricted(running()), reached: []egress.Count{refused("api.openai.com", now.Add(-time.Hour))},
		},
		"used": {
			agent: restricted(running()), reached: []egress.Count{{Host: "api.openai.com", Used: 1, LastAt: lately}},
		},
		"no name": {
			agent: restricted(running()), reached: []egress.Count{refused(egress.OtherHosts, lately)},
		},
		"open": {agent: running(), reached: []egress.Count{refused("api.openai.com", lately)}},
		"stopped": {
			agent: with(restricted(running()), func(a *agent.Agent) {
				if err := a.Act(agent.Stop, agent.Manual, lately); err != nil {
					t.Fatal(err)
				}
			}),
			reached: []egress.Count{refused("api.openai.com", lately)}, causes: []string{"agent_stopped"},
		},
	} {
		v := diagnosis.Of(diagnosis.Facts{
			Agent: row.agent, Reached: row.reached, Now: now,
			Caller: identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin},
		})
		var causes []string
		for _, c := range v.Causes {
			causes = append(causes, c.Code)
		}
		if !slices.Equal(causes, row.causes) || !strings.Contains(v.Summary, row.summary) {
			t.Errorf("%s: causes %q, %q; want %q, %q", name, causes, v.Summary, row.causes, row.summary)
		}
	}
}

// TestOf_SaysHowToAllowAHost reads the steps as an admin, who can take them, and as a member, who sees no names.
func TestOf_SaysHowToAllowAHost(t *testing.T) {
	t.Parallel()
	a, now := restricted(running()), after(time.Hour)
	data, err := json.Marshal(map[string]any{"host": "api.openai.com", "reason": egress.NotListed})
	if err != nil {
		t.Fatal(err)
	}
	for role, shown := range map[identity.Role]bool{identity.RoleAdmin: true, identity.RoleMember: false} {
		v := diagnosis.Of(diagnosis.Facts{
			Agent: a, Reached: []egress.Count{refused("api.openai.com", now)}, Now: now,
			Events: []event.Event{{ID: event.Start, Type: event.EgressRefused, CreatedAt: now, Data: data}},
			Caller: identity.Caller{OrganizationID: "o", Role: role},
		})
		if len(v.Causes) != 1 || v.Causes[0].Code != "egress_refused" || v.WaitingFor != nil {
			t.Fatalf("%s: causes %+v, waiting for %v; want the refusal only", role, v.Causes, v.WaitingFor)
		}
		step := v.Causes[0].YouCan[0]
		if step.Action != diagnosis.AllowHosts || !strings.Contains(step.Text, "/egress-hosts") ||
			!strings.Contains(step.Text, "agentctl egress allow") {
			t.Errorf("%s: the step %+v does not say how to allow a host", role, step)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(text), "api.openai.com"); got != shown {
			t.Errorf("%s: the host is named: %t, want %t: %s", role, got, shown, text)
		}
	}
}
