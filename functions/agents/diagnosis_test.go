package agents_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/secret"
)

func diagnose(t *testing.T, b *backendtest.Backend, id string, as functiontest.Option) diagnosis.View {
	t.Helper()
	var v diagnosis.View
	callAgent(t, b, id, "DiagnoseAgent", as).Want(t, http.StatusOK, "").Decode(t, &v)
	return v
}

// TestDiagnosis_ExplainsTheRecord breaks an agent whose secret change failed, and asks as an admin and as a member.
func TestDiagnosis_ExplainsTheRecord(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	if v := diagnose(t, b, a.ID, functiontest.AsMember("org-1")); v.WaitingFor != nil || len(v.Causes) > 0 {
		t.Errorf("diagnosis of a running agent = %+v, want no cause and no wait", v)
	}
	b.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		a.Break(agent.Failure{
			Code: "pod_crash_loop", Message: "It exits.", Observed: agent.Observation{Exited: true, ExitCode: 3},
		}, time.Now())
		a.Operations = []secret.Operation{{
			ID: "11111111-1111-4111-8111-111111111111", AgentID: a.ID, Key: "TOKEN", Action: secret.Set,
			Stage: secret.Rollout, Status: secret.Failed, ErrorCode: "rollout_timeout",
		}}
	})
	_, key := b.CreateMemberKey(t, "org-1")
	for name, c := range map[string]struct {
		as    functiontest.Option
		names bool
	}{
		"admin":      {functiontest.AsAdmin("org-1"), true},
		"member":     {functiontest.AsMember("org-1"), false},
		"member key": {functiontest.WithToken(key), false},
	} {
		v := diagnose(t, b, a.ID, c.as)
		if len(v.Causes) != 2 || v.Causes[0].Code != "pod_crash_loop" || v.Causes[1].Code != "rollout_timeout" {
			t.Fatalf("%s: causes = %+v, want the crash and the failed change", name, v.Causes)
		}
		if !strings.Contains(strings.Join(v.Causes[0].Evidence, " "), "exit code: 3") {
			t.Errorf("%s: evidence = %q, want the exit code", name, v.Causes[0].Evidence)
		}
		if v.WaitingFor == nil || *v.WaitingFor != diagnosis.User {
			t.Errorf("%s: waiting for %v, want the user", name, v.WaitingFor)
		}
		text, err := json.Marshal(v)
		must(t, err)
		if got := strings.Contains(string(text), "TOKEN"); got != c.names {
			t.Errorf("%s: the answer names the secret = %t, want %t", name, got, c.names)
		}
	}
}

// TestDiagnosis_ListsWhatHappened breaks an agent, recovers it and breaks it again.
func TestDiagnosis_ListsWhatHappened(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a, other := b.RunningAgent(t, "org-1", nil), b.RunningAgent(t, "org-2", nil)
	crash := agent.Failure{Code: "pod_crash_loop", Message: "It exits."}
	for _, id := range []string{a.ID, other.ID} {
		b.UpdateAgent(t, id, func(a *agent.Agent) { a.Break(crash, time.Now()) })
	}
	b.UpdateAgent(t, a.ID, func(a *agent.Agent) { a.Recover(time.Now()) })
	b.UpdateAgent(t, a.ID, func(a *agent.Agent) { a.Break(crash, time.Now()) })
	var got []event.Type
	for _, m := range diagnose(t, b, a.ID, functiontest.AsMember("org-1")).Timeline {
		if m.Type != event.AgentStageChanged && m.Type != event.AgentUpdated {
			got = append(got, m.Type)
		}
	}
	want := []event.Type{
		event.AgentCreated, event.AgentRunning, event.AgentError, event.AgentRecovered, event.AgentError,
	}
	if !slices.Equal(got, want) {
		t.Errorf("timeline = %v, want %v", got, want)
	}
}

// TestDiagnosis_ExplainsTheAccount asks about an agent that was paused because it does not fit into the plan.
func TestDiagnosis_ExplainsTheAccount(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := b.RunningAgent(t, "org-1", nil)
	b.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		if err := a.Act(agent.Withhold, agent.Billing, time.Now()); err != nil {
			t.Error(err)
		}
	})
	v := diagnose(t, b, a.ID, functiontest.AsMember("org-1"))
	if len(v.Causes) != 1 || v.Causes[0].Code != "plan_capacity_exceeded" {
		t.Errorf("causes = %+v, want the capacity of the plan", v.Causes)
	}
}
