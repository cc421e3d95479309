package cloud_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
)

// measures has two agents measured, of which somebody uses one: nothing is known of them at first, then how they fare,
// and how quickly the one answers.
func measures(t *testing.T, w world) {
	id, idle := w.create(t, `{"name": "measured", "resource_plan": "starter"}`),
		w.create(t, `{"name": "idle", "resource_plan": "hobby"}`)
	path := "/api/v1/agents/" + id + "/metrics"
	first := w.must(t, http.StatusOK, http.MethodGet, path, "")
	for _, field := range []string{"cpu_pct", "mem_pct", "pvc_pct", "uptime_pct_24h", "latency_p95_ms", "cpu_cores",
		"memory_bytes", "collected_at"} {
		if v, there := first.body[field]; !there || v != nil {
			t.Errorf("%s of an agent that was not measured is %v", field, v)
		}
	}
	if first.body["stale"] != true || first.body["restarts_24h"] != 0.0 || len(curve(first, "cpu")) != 0 {
		t.Errorf("not measured: %s", first.text)
	}
	visit(t, w, w.awaitStatus(t, id, "running"))
	w.awaitStatus(t, idle, "running")
	used := w.measured(t, path+"?window=1h", func(a answer) bool {
		ms, ok := a.body["latency_p95_ms"].(float64)
		return ok && ms > 0 && a.body["cpu_pct"] != nil && len(curve(a, "requests")) > 0 && len(curve(a, "errors")) > 0
	})
	unused := w.measured(t, "/agents/"+idle+"/metrics",
		func(a answer) bool { return a.body["cpu_pct"] != nil && len(curve(a, "memory")) > 0 })
	if unused.body["latency_p95_ms"] != nil || unused.body["stale"] != false || len(curve(unused, "requests")) != 0 {
		t.Errorf("an agent that nobody used: %s", unused.text)
	}
	for field, most := range map[string]float64{"cpu_pct": 100, "mem_pct": 100, "pvc_pct": 100, "uptime_pct_24h": 100,
		"cpu_cores": 1, "memory_bytes": 2 << 30} {
		if v, _ := used.body[field].(float64); v <= 0 || v > most {
			t.Errorf("%s is %v", field, used.body[field])
		}
	}
	for _, name := range []string{"cpu", "memory", "requests", "errors"} {
		last := 0.0
		for _, p := range curve(used, name) {
			point, _ := p.(map[string]any)
			at, _ := point["t"].(float64)
			if at <= last || at > float64(time.Now().Unix()) {
				t.Errorf("%s: a point at %v after one at %v", name, at, last)
			}
			last = at
		}
	}
	scraped(t, w, path)
	if bad := w.must(t, http.StatusUnprocessableEntity, http.MethodGet, path+"?window=2h",
		""); !strings.Contains(bad.text, "'1h', '6h' or '24h'") {
		t.Errorf("an unknown window: %s", bad.text)
	}
	outage(t, w, id)
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+idle, "")
}

// measured polls metrics until a condition holds. What is measured of a minute is known when the minute is over.
func (w world) measured(t *testing.T, path string, holds func(answer) bool) answer {
	t.Helper()
	deadline := time.Now().Add(2 * patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		a := w.must(t, http.StatusOK, http.MethodGet, path, "")
		if holds(a) {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still %s", path, a.text)
		}
		<-tick.C
	}
}

// curve is one of the series of an answer.
func curve(a answer, name string) []any {
	series, _ := a.body["series"].(map[string]any)
	points, _ := series[name].([]any)
	return points
}

// scraped reads the figures as Prometheus does.
func scraped(t *testing.T, w world, path string) {
	t.Helper()
	for accept, want := range map[string]string{
		"text/plain": "text/plain; version=0.0.4; charset=utf-8",
		"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": "application/openmetrics-text; version=1.0.0; charset=utf-8",
	} {
		a := w.send(t, http.MethodGet, path, "",
			http.Header{"Authorization": {"Bearer " + w.Ready.APIKey}, "Accept": {accept}})
		if a.status != http.StatusOK || a.header.Get("Content-Type") != want ||
			!strings.Contains(a.text, "\nagent_cpu_usage_ratio{agent_id=\"") {
			t.Errorf("Accept %s: %d %s\n%s", accept, a.status, a.header.Get("Content-Type"), a.text)
		}
	}
	refused := w.send(t, http.MethodGet, path, "", http.Header{"Accept": {"text/plain"}})
	if refused.status != http.StatusUnauthorized || refused.body["code"] != "missing_token" {
		t.Errorf("scraped without a token: %d %s", refused.status, refused.text)
	}
}

// outage takes Cloud Monitoring away: what was collected is still there, and nobody who reads it waits for what is not.
func outage(t *testing.T, w world, id string) {
	t.Helper()
	down := status.Error(codes.Unavailable, "the test took it away")
	w.Monitoring.Inject(func(string, string) rpc.Fault { return rpc.Fault{Before: down} })
	path := fmt.Sprintf("/api/v1/agents/%s/metrics", id)
	before := w.must(t, http.StatusOK, http.MethodGet, path, "")
	if before.body["cpu_pct"] == nil || len(curve(before, "cpu")) == 0 {
		t.Errorf("during an outage: %s", before.text)
	}
	other := w.create(t, `{"name": "unmeasured", "resource_plan": "hobby"}`)
	if a := w.must(t, http.StatusOK, http.MethodGet, "/agents/"+other+"/metrics", ""); a.body["stale"] != true ||
		a.body["cpu_pct"] != nil {
		t.Errorf("an agent that was created during an outage: %s", a.text)
	}
	w.Monitoring.Inject(nil)
	for _, gone := range []string{id, other} {
		w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+gone, "")
		w.await(t, gone, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
		w.must(t, http.StatusNotFound, http.MethodGet, "/agents/"+gone+"/metrics", "")
	}
}
