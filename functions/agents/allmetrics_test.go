package agents_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

// hostileName ends its label and adds a series, if it is not escaped.
const hostileName = `x"} 1` + "\n" + `agent_info{agent_id="stolen"} 1` + "\n" + `\` + "\u202e{"

// collect gives an agent figures and totals, as a collection would have now.
func collect(t *testing.T, b *backendtest.Backend, id string) {
	t.Helper()
	found, err := b.MetricsWorkerStore.Load(t.Context(), []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("load the snapshot: %v, %v", found, err)
	}
	s := found[id]
	s.CollectedAt = time.Now().UTC()
	s.Figures = metrics.Figures{CPUCores: new(0.25), CPUPct: new(50.0), UptimePct: new(99.0), Restarts: 3}
	s.Counted = metrics.Counted{Requests: 120, Errors: 4, Until: time.Now().UTC()}
	must(t, b.MetricsWorkerStore.Save(t.Context(), s, ""))
}

// series parses an answer in the text format, and returns the values of the series by their names and labels.
func series(t *testing.T, body []byte) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatalf("%v:\n%s", err, body)
	}
	found := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			found[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return found
}

func scrape(t *testing.T, b *backendtest.Backend, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	options = append([]functiontest.Option{
		functiontest.AsMember("org-1"), functiontest.Header("Accept", "text/plain"),
	}, options...)
	return b.Call(t, agents.AllMetrics(b.Metrics), options...).Want(t, http.StatusOK, "")
}

func TestAllMetrics_IsForMembers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, agents.AllMetrics(nil), function.Member)
}

// TestAllMetrics_ListsEveryAgentOfTheOrganization has agents in several statuses, one with a hostile name, and one of
// another organization.
func TestAllMetrics_ListsEveryAgentOfTheOrganization(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	ids := map[string]string{}
	for name, change := range map[string]func(*agent.Agent){
		"runs":     func(a *agent.Agent) { a.Name = hostileName },
		"failed":   func(a *agent.Agent) { a.Status = agent.Error },
		"asleep":   func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, agent.ReasonIdle },
		"stopped":  func(a *agent.Agent) { a.Status = agent.Stopped },
		"deleting": func(a *agent.Agent) { a.Status = agent.Deleting },
	} {
		ids[name] = b.RunningAgent(t, "org-1", nil).ID
		collect(t, b, ids[name])
		b.UpdateAgent(t, ids[name], change)
	}
	other := b.RunningAgent(t, "org-2", nil).ID
	found := series(t, scrape(t, b).Body)
	infos := 0
	for key := range found {
		if strings.HasPrefix(key, "agent_info ") {
			infos++
		}
		if strings.Contains(key, other) || strings.Contains(key, ids["deleting"]) ||
			strings.HasPrefix(key, "agent_info agent_id=stolen") {
			t.Errorf("the answer has the series %s", key)
		}
	}
	if infos != 4 {
		t.Errorf("%d agents, want 4: %v", infos, found)
	}
	for name, id := range ids {
		if name == "deleting" {
			continue
		}
		requests, errs := found["agent_requests_total agent_id="+id], found["agent_request_errors_total agent_id="+id]
		if requests != 120 || errs != 4 {
			t.Errorf("%s: %v requests and %v errors, want 120 and 4", name, requests, errs)
		}
		has := false
		for _, gauge := range []string{
			"agent_cpu_usage_cores", "agent_restarts_24h", "agent_uptime_24h_ratio", "agent_metrics_stale",
			"agent_metrics_collected_timestamp_seconds",
		} {
			_, shown := found[gauge+" agent_id="+id]
			if want := name == "runs" || name == "failed"; shown != want {
				t.Errorf("%s has the gauge %s: %t, want %t", name, gauge, shown, want)
			}
			has = has || shown
		}
	}
	for key := range found {
		if strings.Contains(key, "status=running") && !strings.Contains(key, "name="+hostileName) {
			t.Errorf("the name is not as the client wrote it: %q", key)
		}
	}
}

// TestAllMetrics_AnswersInOpenMetrics compares what differs between the formats.
func TestAllMetrics_AnswersInOpenMetrics(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id := b.RunningAgent(t, "org-1", nil).ID
	collect(t, b, id)
	b.UpdateAgent(t, id, func(a *agent.Agent) { a.Name = hostileName })
	text := string(scrape(t, b).Body)
	res := scrape(t, b, functiontest.Header("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"))
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text") {
		t.Fatalf("Content-Type = %q", got)
	}
	open := string(res.Body)
	for _, line := range []string{
		"# TYPE agent info\n", "# TYPE agent_requests counter\n", "# UNIT agent_cpu_usage_cores cores\n",
	} {
		if !strings.Contains(open, line) || strings.Contains(text, line) {
			t.Errorf("the line %q must be in OpenMetrics only:\n%s", line, open)
		}
	}
	if !strings.HasSuffix(open, "\n# EOF\n") || strings.Contains(text, "# EOF") {
		t.Errorf("OpenMetrics has no end mark, or the text format has one:\n%s", open)
	}
	if samples(open) != samples(text) {
		t.Errorf("the samples differ:\n%s\n%s", open, text)
	}
}

// samples returns an answer without its comments.
func samples(answer string) string {
	found := ""
	for line := range strings.Lines(answer) {
		if !strings.HasPrefix(line, "#") {
			found += line
		}
	}
	return found
}

// countingStore counts the reads of a store, which end when they may.
type countingStore struct {
	metrics.Store

	reads atomic.Int64
	may   chan struct{}
}

// ListCurrent implements metrics.Store.
func (s *countingStore) ListCurrent(ctx context.Context) ([]metrics.Current, error) {
	s.reads.Add(1)
	<-s.may
	return s.Store.ListCurrent(ctx)
}

// TestAllMetrics_ReadsOnceForManyScrapes has twenty callers of two organizations.
func TestAllMetrics_ReadsOnceForManyScrapes(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	own, foreign := b.RunningAgent(t, "org-1", nil).ID, b.RunningAgent(t, "org-2", nil).ID
	store := &countingStore{Store: b.Metrics, may: make(chan struct{})}
	route := agents.AllMetrics(store)
	var calls sync.WaitGroup
	for i := range 20 {
		organization, want, not := "org-1", own, foreign
		if i%2 == 1 {
			organization, want, not = "org-2", foreign, own
		}
		calls.Go(func() {
			body := string(b.Call(t, route, functiontest.AsMember(organization)).Want(t, http.StatusOK, "").Body)
			if !strings.Contains(body, want) || strings.Contains(body, not) {
				t.Errorf("%s gets %s", organization, body)
			}
		})
	}
	close(store.may)
	calls.Wait()
	if reads := store.reads.Load(); reads != 2 {
		t.Errorf("%d reads, want one for each organization", reads)
	}
	b.Call(t, route).Want(t, http.StatusUnauthorized, "missing_token")
}
