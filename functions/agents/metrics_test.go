package agents_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

func getMetrics(
	t *testing.T, b *backendtest.Backend, id string, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	options = append([]functiontest.Option{functiontest.AsMember("org-1"), functiontest.Path("agent_id", id)},
		options...)
	return b.Call(t, agents.Metrics(b.Agents, b.Metrics), options...)
}

func TestMetrics_IsForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, agents.Metrics(nil, nil), function.Member, functiontest.Path("agent_id", unknownID))
}

func TestMetrics_ShowsNullsBeforeTheFirstCollection(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	res := getMetrics(t, b, b.RunningAgent(t, "org-1", nil).ID).Want(t, http.StatusOK, "")
	for _, field := range []string{"cpu_pct", "mem_pct", "collected_at"} {
		if value, shown := res.JSON[field]; !shown || value != nil {
			t.Errorf("%s = %v, want null", field, value)
		}
	}
	if series, _ := res.JSON["series"].(map[string]any); len(series) != 4 {
		t.Errorf("series = %v, want four", res.JSON["series"])
	}
}

func TestMetrics_AnswersPrometheusInText(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	res := getMetrics(t, b, b.RunningAgent(t, "org-1", nil).ID, functiontest.Header("Accept", "text/plain")).
		Want(t, http.StatusOK, "")
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type = %q, want the text format of Prometheus", got)
	}
	if !strings.Contains(string(res.Body), "# TYPE ") {
		t.Errorf("the answer has no metric: %s", res.Body)
	}
}

func TestMetrics_RefusesAnUnknownWindow(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	for _, window := range []string{"1h", "6h", "24h"} {
		getMetrics(t, b, unknownID, functiontest.Query(url.Values{"window": {window}})).
			Want(t, http.StatusNotFound, "agent_not_found")
	}
	getMetrics(t, b, unknownID, functiontest.Query(url.Values{"window": {"1w"}})).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
}

func TestMetrics_DoesNotFindAgentsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-2", nil).ID
	getMetrics(t, b, id).Want(t, http.StatusNotFound, "agent_not_found")
}

// TestMetrics_SayForHowLongTheAgentWasAwake reads an agent whose record counts, and that sleeps since.
func TestMetrics_SayForHowLongTheAgentWasAwake(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	now := time.Now().UTC()
	a := b.RunningAgent(t, "org-1", nil)
	b.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		a.Sleep = agent.SleepPolicy{AfterSeconds: 300}
		a.Awake = agent.AwakeLog{Last: now.Unix()/86400 - 1, Seconds: []int{7, 4200}, Since: now}
	})
	callAgent(t, b, a.ID, "SleepAgent").Want(t, http.StatusOK, "")
	var got struct {
		Awake []agent.AwakeDay `json:"awake"`
	}
	getMetrics(t, b, a.ID).Want(t, http.StatusOK, "").Decode(t, &got)
	if len(got.Awake) != 0 {
		t.Errorf("awake = %v without the question", got.Awake)
	}
	getMetrics(t, b, a.ID, functiontest.Query(url.Values{"awake": {"true"}})).Want(t, http.StatusOK, "").Decode(t, &got)
	if len(got.Awake) != 3 || got.Awake[0].Seconds != 7 || got.Awake[1].Seconds != 4200 || got.Awake[2].Seconds > 60 ||
		got.Awake[2].Date != now.Format(time.DateOnly) {
		t.Errorf("awake = %v, want 7 s, 4200 s and almost nothing today", got.Awake)
	}
}
