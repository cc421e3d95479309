//go:build unix

package consoletest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// report publishes what a gate counted about an agent. A worker records it.
func report(t *testing.T, agent string, hosts ...egress.Count) {
	t.Helper()
	now := time.Now().UTC()
	for i := range hosts {
		hosts[i].FirstAt, hosts[i].LastAt = now, now
		if hosts[i].Refused > 0 {
			hosts[i].RefusedAt = now
		}
	}
	message, err := json.Marshal(egress.Reports{Gate: "gate-1", Reports: []egress.Report{
		{AgentID: agent, Day: now.Format(egress.DayFormat), Hosts: hosts},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ready := suite.Cloud(t).Ready
	conn, err := grpc.NewClient(ready.PubSubEmulatorHost, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := pubsubpb.NewPublisherClient(conn).Publish(t.Context(), &pubsubpb.PublishRequest{
		Topic:    "projects/" + ready.ProjectID + "/topics/" + string(function.EgressReports),
		Messages: []*pubsubpb.PubsubMessage{{Data: message}},
	}); err != nil {
		t.Fatal(err)
	}
}

// restrictedAgent creates an agent that reaches some hosts only.
func restrictedAgent(admin *consoletest.User, name string) string {
	id := admin.CreateAgent(name, nil)
	admin.Call(http.MethodPatch, "/api/v1/agents/"+id,
		`{"egress": {"mode": "allow_list", "allow": ["api.example.com", "*.example.org"]}}`, http.StatusOK)
	return id
}

// TestEgress_RefusedHostIsAllowed shows what the gate refused, allows it with one click, and warns before a list is
// saved that lacks a host in use. A list that another admin changed is not replaced.
func TestEgress_RefusedHostIsAllowed(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := restrictedAgent(admin, "fenced")
	report(t, agent, egress.Count{Host: "api.example.com", Used: 7},
		egress.Count{Host: "blocked.example.net", Refused: 3, Reason: egress.NotListed},
		egress.Count{Host: "(no name)", Refused: 1, Reason: egress.NoName})
	p := admin.Open(t, "/console#/agents/"+agent+"/settings")
	card, log := p.Within("region", "Egress"), p.Within("region", "Hosts that it tried")
	card.WaitText("Allowed hosts only")
	log.WaitText("It was not on the agent’s list of allowed hosts")
	p.Review("agent-egress")
	log.Click("button", "Allow blocked.example.net")
	card.WaitText("blocked.example.net")
	p.WaitGone("button", "Allow blocked.example.net")
	if buttons := log.All("button", "Allow*"); len(buttons) > 0 {
		t.Errorf("there are buttons to allow %+v, want none for what has no name", buttons)
	}
	card.Click("button", "Change what it reaches")
	dialog := p.Within("dialog", "What may it reach?")
	dialog.Fill("Allowed hosts", "blocked.example.net\nhttps://api.example.com")
	dialog.Click("button", "Save")
	dialog.WaitText("https://api.example.com: Must consist of letters, digits and hyphens")
	admin.Call(http.MethodPost, "/api/v1/agents/"+agent+"/egress-hosts", `{"hosts": ["theirs.example.net"]}`,
		http.StatusOK)
	dialog.Fill("Allowed hosts", "blocked.example.net")
	dialog.Click("button", "Save")
	dialog.WaitText("What the agent reaches was changed by someone else while you looked at it.")
	checkGuarded(t, p, "What may it reach?")
	dialog.Click("button", "Cancel")
	p.WaitGone("dialog", "What may it reach?")
	card.WaitText("theirs.example.net")
	card.Click("button", "Change what it reaches")
	dialog.Fill("Allowed hosts", "blocked.example.net")
	dialog.WaitText("api.example.com (used 7 times in 7 days)")
	p.Review("agent-egress-change")
	consoletest.Eval[int](p, loseAnswers)
	dialog.Click("button", "Save")
	dialog.WaitText(isUnknown)
	consoletest.Eval[int](p, restoreAnswers)
	dialog.Click("button", "Try again")
	p.WaitGone("dialog", "What may it reach?")
	rules, _ := admin.Call(http.MethodGet, "/api/v1/agents/"+agent, "", http.StatusOK)["egress"].(map[string]any)
	if allow, _ := rules["allow"].([]any); !slices.Equal(allow, []any{any("blocked.example.net")}) {
		t.Errorf("the agent may reach %v, want blocked.example.net", allow)
	}
	p.Containing("row", "api.example.com").WaitText("No longer allowed")
}

// TestEgress_SecretStaysOutside sets a secret that is added to requests, and shows where.
func TestEgress_SecretStaysOutside(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	agent := restrictedAgent(admin, "brokered")
	p := admin.Open(t, "/console#/agents/"+agent+"/variables")
	p.Click("button", "Set variables")
	dialog := p.Within("dialog", "Set variables")
	dialog.Fill("Name of variable 1", "API_KEY")
	dialog.Fill("Value of API_KEY", "value-of-the-key")
	dialog.Click("checkbox", "Keep it outside the agent: it is added to the agent’s requests")
	dialog.Click("button", "Save")
	dialog.WaitText("Name the hosts whose requests get the value.")
	dialog.Fill("Hosts", "other.example.net")
	dialog.Click("button", "Save")
	dialog.WaitText("The agent may not reach other.example.net: allow it first.")
	p.Review("variables-inject")
	dialog.Fill("Hosts", "api.example.com")
	dialog.Fill("Header", "X-Api-Key")
	dialog.Fill("Format", "{value}")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "Set variables")
	p.WaitText("Added to requests to api.example.com (X-Api-Key)")
	p.Review("variables-injected")
	p.Click("button", "Set API_KEY to a new value")
	again := p.Within("dialog", "Set API_KEY")
	if field := again.WaitFor("textbox", "Hosts"); field.Value != "api.example.com" {
		t.Errorf("another value goes to %q, want api.example.com", field.Value)
	}
}

// TestEgress_OfNewAgents sets what new agents may reach. What another admin changed is not replaced.
func TestEgress_OfNewAgents(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/usage")
	card := p.Within("region", "Egress of new agents")
	card.WaitText("Every host")
	card.Click("button", "Change the default")
	dialog := p.Within("dialog", "What may new agents reach?")
	dialog.Select("It reaches", "Allowed hosts only")
	dialog.Fill("Allowed hosts", "api.example.com")
	dialog.Click("button", "Save")
	p.WaitGone("dialog", "What may new agents reach?")
	card.WaitText("api.example.com")
	p.Review("organization-egress")
	card.Click("button", "Change the default")
	dialog.Fill("Allowed hosts", "mine.example.com")
	admin.Call(http.MethodPatch, "/api/v1/organizations/current", `{"egress": {"mode": "open"}}`, http.StatusOK)
	dialog.Click("button", "Save")
	dialog.WaitText("What new agents reach was changed by someone else while you looked at it.")
	checkGuarded(t, p, "What may new agents reach?")
	dialog.Click("button", "Cancel")
	card.WaitText("Every host")
	card.Click("button", "Change the default")
	dialog.Select("It reaches", "Allowed hosts only")
	dialog.Click("button", "Save")
	card.WaitText("Allowed hosts only")
	p.Open("/console#/agents/new")
	p.Within("dialog", "New agent").WaitText("It reaches only the hosts that your organization allows new agents.")
}

// TestEgress_IsChosenForANewAgent creates an agent that never reaches more than the hosts that its creator named, after
// a refusal of one of them.
func TestEgress_IsChosenForANewAgent(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Starter)
	p := admin.Open(t, "/console#/agents/new")
	dialog := p.Within("dialog", "New agent")
	dialog.Fill("Name", "restricted")
	dialog.WaitText("It reaches every host.")
	dialog.Click("button", "Choose the hosts that it reaches")
	dialog.WaitNoText("It reaches every host.")
	dialog.Fill("Allowed hosts", "https://api.example.com")
	dialog.Click("button", "Create the agent")
	dialog.WaitText("https://api.example.com: ")
	p.Review("new-agent-egress-refused")
	dialog.Fill("Allowed hosts", "api.example.com")
	dialog.Click("button", "Create the agent")
	p.WaitURL("/agents/")
	p.WaitGone("dialog", "New agent")
	list, _ := admin.Call(http.MethodGet, "/api/v1/agents", "", http.StatusOK)["list"].([]any)
	for _, item := range list {
		rules, _ := item.(map[string]any)["egress"].(map[string]any)
		allow, _ := rules["allow"].([]any)
		if rules["mode"] != "allow_list" || !slices.Equal(allow, []any{"api.example.com"}) {
			t.Errorf("egress = %v, want a list with api.example.com", rules)
		}
	}
	if len(list) != 1 {
		t.Errorf("%d agents, want one", len(list))
	}
}
