package agentmetrics_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/functions/agentmetrics"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/function"
)

const unknownID = "00000000-0000-4000-8000-000000000000"

func get(t *testing.T, b *functiontest.Backend, id string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	options = append([]functiontest.Option{functiontest.AsMember("org-1"), functiontest.Path("agent_id", id)},
		options...)
	return b.Call(t, agentmetrics.Get(b.Agents, b.Metrics), options...)
}

func TestGet_IsForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, agentmetrics.Get(nil, nil), function.Member, functiontest.Path("agent_id", unknownID))
}

func TestGet_ShowsNullsBeforeTheFirstCollection(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	res := get(t, b, b.RunningAgent(t, "org-1", nil).ID).Want(t, http.StatusOK, "")
	for _, field := range []string{"cpu_pct", "mem_pct", "collected_at"} {
		if value, shown := res.JSON[field]; !shown || value != nil {
			t.Errorf("%s = %v, want null", field, value)
		}
	}
	if series, _ := res.JSON["series"].(map[string]any); len(series) != 4 {
		t.Errorf("series = %v, want four", res.JSON["series"])
	}
}

func TestGet_AnswersPrometheusInText(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	res := get(t, b, b.RunningAgent(t, "org-1", nil).ID, functiontest.Header("Accept", "text/plain")).
		Want(t, http.StatusOK, "")
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("Content-Type = %q, want the text format of Prometheus", got)
	}
	if !strings.Contains(string(res.Body), "# TYPE ") {
		t.Errorf("the answer has no metric: %s", res.Body)
	}
}

func TestGet_RefusesAnUnknownWindow(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	for _, window := range []string{"1h", "6h", "24h"} {
		get(t, b, unknownID, functiontest.Query(url.Values{"window": {window}})).
			Want(t, http.StatusNotFound, "agent_not_found")
	}
	get(t, b, unknownID, functiontest.Query(url.Values{"window": {"1w"}})).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
}

func TestGet_DoesNotFindAgentsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	b := functiontest.New(t)
	id := b.RunningAgent(t, "org-2", nil).ID
	get(t, b, id).Want(t, http.StatusNotFound, "agent_not_found")
}
