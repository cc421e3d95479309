package cloud_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/rpc"
)

// testMetrics reads the metrics of two agents, one of which serves requests: empty at first, then their usage, and the
// latency of the used one.
func testMetrics(t *testing.T, d deployment) {
	id, idle := d.create(t, `{"name": "measured", "resource_plan": "starter"}`),
		d.create(t, `{"name": "idle", "resource_plan": "hobby"}`)
	path := "/api/v1/agents/" + id + "/metrics"
	first := d.must(t, http.StatusOK, http.MethodGet, path, "")
	for _, field := range []string{
		"cpu_pct", "mem_pct", "pvc_pct", "uptime_pct_24h", "latency_p95_ms", "cpu_cores",
		"memory_bytes", "collected_at",
	} {
		if v, there := first.body[field]; !there || v != nil {
			t.Errorf("%s before the first measurement = %v (present: %t), want null", field, v, there)
		}
	}
	checkEqual(t, "stale before the first measurement", first.body["stale"], true)
	checkEqual(t, "restarts_24h before the first measurement", first.body["restarts_24h"], 0.0)
	checkEqual(t, "CPU points before the first measurement", len(pointsOf(first, "cpu")), 0)
	dashboard, _ := d.awaitStatus(t, id, "running").body["dashboard_url"].(string)
	d.awaitStatus(t, idle, "running")
	user := hosted{credentials: d.revealCredentials(t, id)}
	// A request is seen by the second scrape of its host.
	used := d.awaitMetrics(t, path+"?window=1h", func(a answer) bool {
		status, _ := d.get(t, dashboard, user.signIn)
		checkEqual(t, "status of the dashboard", status, http.StatusOK)
		ms, ok := a.body["latency_p95_ms"].(float64)
		return ok && ms > 0 && a.body["cpu_pct"] != nil && len(pointsOf(a, "requests")) > 0 &&
			len(pointsOf(a, "errors")) > 0
	})
	unused := d.awaitMetrics(t, "/agents/"+idle+"/metrics",
		func(a answer) bool { return a.body["cpu_pct"] != nil && len(pointsOf(a, "memory")) > 0 })
	checkEqual(t, "latency_p95_ms of an unused agent", unused.body["latency_p95_ms"], nil)
	checkEqual(t, "stale of an unused agent", unused.body["stale"], false)
	checkEqual(t, "requests a second of an unused agent", lastValue(pointsOf(unused, "requests")), 0.0)
	for field, most := range map[string]float64{
		"cpu_pct": 100, "mem_pct": 100, "pvc_pct": 100, "uptime_pct_24h": 100,
		"cpu_cores": 1, "memory_bytes": 2 << 30,
	} {
		if v, _ := used.body[field].(float64); v <= 0 || v > most {
			t.Errorf("%s = %v, want more than 0 and at most %v", field, used.body[field], most)
		}
	}
	for _, name := range []string{"cpu", "memory", "requests", "errors"} {
		last := 0.0
		for _, p := range pointsOf(used, name) {
			point, _ := p.(map[string]any)
			at, _ := point["t"].(float64)
			if at <= last || at > float64(time.Now().Unix()) {
				t.Errorf("%s has a point at %v after one at %v, want ascending times in the past", name, at, last)
			}
			last = at
		}
	}
	checkPrometheusFormats(t, d, path)
	bad := d.must(t, http.StatusUnprocessableEntity, http.MethodGet, path+"?window=2h", "")
	if want := "'1h', '6h' or '24h'"; !strings.Contains(bad.text, want) {
		t.Errorf("response to an unknown window = %s, want it to list %s", bad.text, want)
	}
	checkMonitoringOutage(t, d, id)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+idle, "")
}

// testUptimeFalls reads the metrics of an agent that crashes, and again after it was stopped.
func testUptimeFalls(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "crashes while measured", "resource_plan": "hobby"}`)
	path := "/agents/" + id + "/metrics"
	d.awaitStatus(t, id, "running")
	injectPodFault(t, d, id, cluster.CrashLoop)
	d.awaitStatus(t, id, "error")
	fallen := func(a answer) bool {
		v, measured := a.body["uptime_pct_24h"].(float64)
		return measured && v < 100
	}
	during := d.awaitMetrics(t, path, fallen)
	if n, _ := during.body["restarts_24h"].(float64); n < 1 {
		t.Errorf("restarts_24h in a crash loop = %v, want some", n)
	}
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	d.awaitStatus(t, id, "stopped")
	if after := d.must(t, http.StatusOK, http.MethodGet, path, ""); !fallen(after) {
		t.Errorf("uptime_pct_24h of a stopped agent = %v, want that of before", after.body["uptime_pct_24h"])
	}
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// awaitMetrics reads metrics until a condition holds. A minute's figures arrive after the minute.
func (d deployment) awaitMetrics(t *testing.T, path string, holds func(answer) bool) answer {
	t.Helper()
	deadline := time.Now().Add(2 * patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		a := d.must(t, http.StatusOK, http.MethodGet, path, "")
		if holds(a) {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for %s, which is %s", 2*patience, path, a.text)
		}
		<-tick.C
	}
}

// pointsOf returns the points of one series.
func pointsOf(a answer, name string) []any {
	series, _ := a.body["series"].(map[string]any)
	points, _ := series[name].([]any)
	return points
}

// checkPrometheusFormats reads the metrics in the formats of Prometheus.
func checkPrometheusFormats(t *testing.T, d deployment, path string) {
	t.Helper()
	for accept, want := range map[string]string{
		"text/plain": "text/plain; version=0.0.4; charset=utf-8",
		"application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1": "" +
			"application/openmetrics-text; version=1.0.0; charset=utf-8",
	} {
		a := d.send(t, http.MethodGet, path, "",
			http.Header{"Authorization": {"Bearer " + d.Ready.APIKey}, "Accept": {accept}})
		checkEqual(t, "status with Accept "+accept, a.status, http.StatusOK)
		checkEqual(t, "Content-Type with Accept "+accept, a.header.Get("Content-Type"), want)
		if !strings.Contains(a.text, "\nagent_cpu_usage_ratio{agent_id=\"") {
			t.Errorf("Accept %s: the response has no agent_cpu_usage_ratio:\n%s", accept, a.text)
		}
	}
	refused := d.send(t, http.MethodGet, path, "", http.Header{"Accept": {"text/plain"}})
	checkRefusal(t, "scrape without a token", refused, http.StatusUnauthorized, "missing_token")
}

// checkMonitoringOutage makes Cloud Monitoring unavailable. Collected metrics can still be read, and no request waits
// for others. Deleted agents have no metrics.
func checkMonitoringOutage(t *testing.T, d deployment, id string) {
	t.Helper()
	down := status.Error(codes.Unavailable, "outage of the test")
	d.Monitoring.Inject(func(string, string) rpc.Fault { return rpc.Fault{Before: down} })
	path := fmt.Sprintf("/api/v1/agents/%s/metrics", id)
	before := d.must(t, http.StatusOK, http.MethodGet, path, "")
	if before.body["cpu_pct"] == nil || len(pointsOf(before, "cpu")) == 0 {
		t.Errorf("metrics during an outage = %s, want the collected ones", before.text)
	}
	other := d.create(t, `{"name": "unmeasured", "resource_plan": "hobby"}`)
	a := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+other+"/metrics", "")
	checkEqual(t, "stale of an agent created during an outage", a.body["stale"], true)
	checkEqual(t, "cpu_pct of an agent created during an outage", a.body["cpu_pct"], nil)
	d.Monitoring.Inject(nil)
	for _, gone := range []string{id, other} {
		d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+gone, "")
		d.await(t, gone, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
		d.must(t, http.StatusNotFound, http.MethodGet, "/agents/"+gone+"/metrics", "")
	}
}
