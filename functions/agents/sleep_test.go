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
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

func TestAgents_HavePoliciesOfSleep(t *testing.T) {
	t.Parallel()
	const both = `"wake_on":["request","schedule"]}`
	for name, row := range map[string]struct{ create, created, patch, patched string }{
		"default of hobby": {
			create: `"resource_plan":"hobby"`, created: `{"after_seconds":1800,` + both,
			patch: `{"name":"b"}`, patched: `{"after_seconds":1800,` + both,
		},
		"default of a paid plan": {
			create: `"resource_plan":"pro"`, created: `{"after_seconds":null,"wake_on":[]}`,
			patch: `{"sleep":{"after_seconds":300}}`, patched: `{"after_seconds":300,` + both,
		},
		"never": {
			create: `"resource_plan":"hobby","sleep":{"after_seconds":null}`, created: `{"after_seconds":null,` + both,
			patch: `{"sleep":{"after_seconds":604800}}`, patched: `{"after_seconds":604800,` + both,
		},
		"one waker": {
			create:  `"resource_plan":"hobby","sleep":{"wake_on":["schedule","schedule"]}`,
			created: `{"after_seconds":1800,"wake_on":["schedule"]}`,
			patch:   `{"sleep":{"wake_on":[]}}`, patched: `{"after_seconds":1800,"wake_on":[]}`,
		},
		"no waker": {
			create:  `"resource_plan":"hobby","sleep":{"wake_on":[]}`,
			created: `{"after_seconds":1800,"wake_on":[]}`,
			patch:   `{"sleep":{"after_seconds":600}}`, patched: `{"after_seconds":600,"wake_on":[]}`,
		},
		"no change": {
			create:  `"resource_plan":"hobby","sleep":{"wake_on":[]}`,
			created: `{"after_seconds":1800,"wake_on":[]}`,
			patch:   `{"sleep":{}}`, patched: `{"after_seconds":1800,"wake_on":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRoomyBackend(t)
			created := b.CallNamed(t, "CreateAgent", functiontest.AsAdmin("org-1"),
				functiontest.RawBody(`{"name":"a",`+row.create+`}`)).Want(t, http.StatusCreated, "")
			if got := string(fieldOf[json.RawMessage](t, created, "sleep")); got != row.created {
				t.Errorf("created with %s, want %s", got, row.created)
			}
			patched := patchAgent(t, b, created.Text("id"), row.patch).Want(t, http.StatusOK, "")
			if got := string(fieldOf[json.RawMessage](t, patched, "sleep")); got != row.patched {
				t.Errorf("patched to %s, want %s", got, row.patched)
			}
		})
	}
}

func TestAgents_RefusePoliciesOfSleep(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	for name, sleep := range map[string]string{
		"too soon": `{"after_seconds":299}`, "too late": `{"after_seconds":604801}`, "a fraction": `{"after_seconds":300.5}`,
		"a text": `{"after_seconds":"1h"}`, "an unknown waker": `{"wake_on":["email"]}`,
	} {
		res := createAgent(t, b, `,"sleep":`+sleep)
		if res.Status != http.StatusUnprocessableEntity || res.Code() != "validation_error" {
			t.Errorf("%s: answer %d %s", name, res.Status, res.Body)
		}
	}
}

const doorHeader = "X-Agent-Door"

// ownKey is the API key of an agent in these tests.
const ownKey = "ak_0123456789abcdef0123456789abcdef"

// drowsyAgent returns an agent that runs with its own key, and may sleep.
func drowsyAgent(t *testing.T, b *backendtest.Backend) agent.Agent {
	t.Helper()
	a := b.RunningAgent(t, "org-1", nil)
	return b.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		a.Sleep = agent.SleepAfter(300)
		a.APIKeyHash = credential.HashKey(a.ID, ownKey)
	})
}

func TestSleep_OfTheAgentItself(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := drowsyAgent(t, b)
	other := b.RunningAgent(t, "org-2", nil)
	sleep := func(id, key, door string) functiontest.Response {
		return callAgent(t, b, id, "SleepAgent", functiontest.WithToken(key), functiontest.Header(doorHeader, door))
	}
	sleep(a.ID, ownKey+"x", "door").Want(t, http.StatusUnauthorized, "invalid_token")
	sleep(other.ID, ownKey, "door").Want(t, http.StatusUnauthorized, "invalid_token")
	for _, route := range []string{"GetAgent", "StopAgent", "UpdateAgent", "RevealCredentials", "DeleteAgent"} {
		callAgent(t, b, a.ID, route, functiontest.WithToken(ownKey)).
			Want(t, http.StatusUnauthorized, "invalid_token")
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	callAgent(t, b, a.ID, "WakeAgentAt", functiontest.WithToken(ownKey),
		functiontest.RawBody(`{"at":"`+at.Format(time.RFC3339)+`"}`)).Want(t, http.StatusOK, "")
	if got := b.Agent(t, a.ID).WakeAt; !got.Equal(at) {
		t.Errorf("the agent is woken at %v, want %v", got, at)
	}
	answer := sleep(a.ID, ownKey, "door").Want(t, http.StatusOK, "")
	if slept := b.Agent(t, a.ID); !slept.Asleep() || slept.Door != "door" {
		t.Errorf("the agent is %s (%s) behind %q: %s", slept.Status, slept.StatusReason, slept.Door, answer.Body)
	}
	sleep(a.ID, ownKey, "door").Want(t, http.StatusOK, "")
	sleep(a.ID, ownKey, "another").Want(t, http.StatusConflict, "agent_in_use")
	callAgent(t, b, a.ID, "DeleteAgent").Want(t, http.StatusAccepted, "")
	sleep(a.ID, ownKey, "door").Want(t, http.StatusUnauthorized, "invalid_token")
}

// TestSleep_IsInTheAuditLog: the log tells what an agent did from what people did, once: a front repeats its report
// every five seconds while its door is closed, for hours if the cluster's API is away.
func TestSleep_IsInTheAuditLog(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	a := drowsyAgent(t, b)
	for range 3 {
		callAgent(t, b, a.ID, "SleepAgent", functiontest.WithToken(ownKey), functiontest.Header(doorHeader, "door")).
			Want(t, http.StatusOK, "")
	}
	var list []audit.View
	res := b.CallNamed(t, "ListAuditLog", functiontest.AsAdmin("org-1")).Want(t, http.StatusOK, "")
	must(t, json.Unmarshal(res.Body, &list))
	list = slices.DeleteFunc(list, func(v audit.View) bool { return v.Action != "SleepAgent" })
	if len(list) != 1 || list[0].Actor.Type != audit.ActorType(identity.Agent) || list[0].Actor.ID != a.ID {
		t.Errorf("the audit log has %s, want one entry of the agent's sleep", res.Body)
	}
}

func TestSleep_OfAClient(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	a := drowsyAgent(t, b)
	b.SetPlan(t, "org-1", plan.Enterprise)
	never := b.RunningAgent(t, "org-1", nil)
	b.UpdateAgent(t, never.ID, func(a *agent.Agent) { a.Sleep = agent.SleepPolicy{} })
	call := func(route, id string) functiontest.Response {
		return callAgent(t, b, id, route)
	}
	refused := call("SleepAgent", never.ID).Want(t, http.StatusConflict, "sleep_disabled")
	if !strings.Contains(string(refused.Body), "sleep.after_seconds") {
		t.Errorf("the refusal %s does not say how to let the agent sleep", refused.Body)
	}
	slept := call("SleepAgent", a.ID).Want(t, http.StatusOK, "")
	var v struct{ Config agent.ConfigView }
	if err := json.Unmarshal(slept.Body, &v); err != nil || v.Config.StatusReason == nil ||
		*v.Config.StatusReason != agent.ReasonIdle || !slices.Contains(v.Config.AllowedActions, agent.Pause) {
		t.Errorf("answer %s (%v), want an agent that sleeps and can be paused", slept.Body, err)
	}
	call("ResumeAgent", a.ID).Want(t, http.StatusOK, "")
	if woken := b.Agent(t, a.ID); woken.WokenBy != agent.WokenByResume {
		t.Errorf("the agent was woken by %q", woken.WokenBy)
	}
}
