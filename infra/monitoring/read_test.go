package monitoring_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/metrics"
)

const (
	cpuTime     = "kubernetes.io/container/cpu/core_usage_time"
	memoryUsed  = "kubernetes.io/container/memory/used_bytes"
	uptime      = "kubernetes.io/container/uptime"
	restarted   = "kubernetes.io/container/restart_count"
	utilization = "kubernetes.io/pod/volume/utilization"
	requested   = "prometheus.googleapis.com/http_requests_total/counter"
	durations   = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
)

// memory is a point of a kind of memory.
func (w world) memory(kind string, at time.Time, bytes int64) monitoringemu.Sample {
	s := w.raw(memoryUsed, at, bytes)
	s.MetricLabels = map[string]string{"memory_type": kind}
	return s
}

// volume is a point of a volume of the agent's pod.
func (w world) volume(name string, at time.Time, share float64) monitoringemu.Sample {
	s := w.raw(utilization, at, share)
	s.Resource, s.MetricLabels = "k8s_pod", map[string]string{"volume_name": name}
	delete(s.ResourceLabels, "container_name")
	return s
}

// in moves a point to another place.
func in(s monitoringemu.Sample, label, value string) monitoringemu.Sample {
	s.ResourceLabels[label] = value
	return s
}

// TestRead holds what is read of each metric against what was computed by hand from the raw points.
func TestRead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		metric metrics.Metric
		raw    func(world) []monitoringemu.Sample
		want   map[int]float64
	}{
		"cores are seconds of CPU a second": {metric: metrics.CPU, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.total(cpuTime, ago(20), ago(3), 100.0),
				w.total(cpuTime, ago(20), ago(2), 115.0), w.total(cpuTime, ago(20), ago(1), 145.0)}
		}, want: map[int]float64{2: 0.25, 1: 0.5}},
		"a counter that begins anew counts what it has": {metric: metrics.CPU,
			raw: func(w world) []monitoringemu.Sample {
				return []monitoringemu.Sample{w.total(cpuTime, ago(20), ago(3), 100.0),
					w.total(cpuTime, ago(20), ago(2), 115.0), w.total(cpuTime, ago(2), ago(1), 6.0)}
			}, want: map[int]float64{2: 0.25, 1: 0.1}},
		"minutes without a point are left out": {metric: metrics.CPU, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.total(cpuTime, ago(20), ago(6), 100.0),
				w.total(cpuTime, ago(20), ago(5), 115.0), w.total(cpuTime, ago(20), ago(1), 235.0)}
		}, want: map[int]float64{5: 0.25, 1: 0.5}}, // 120 s of CPU in four minutes
		"a pod and its successor add up": {metric: metrics.CPU, raw: func(w world) []monitoringemu.Sample {
			other := func(s monitoringemu.Sample) monitoringemu.Sample { return in(s, "pod_name", "agent-1") }
			return []monitoringemu.Sample{
				w.total(cpuTime, ago(20), ago(2), 100.0), w.total(cpuTime, ago(20), ago(1), 115.0),
				other(w.total(cpuTime, ago(20), ago(2), 10.0)), other(w.total(cpuTime, ago(20), ago(1), 40.0)),
			}
		}, want: map[int]float64{1: 0.75}},
		"memory that can be given back does not count": {metric: metrics.Memory,
			raw: func(w world) []monitoringemu.Sample {
				return []monitoringemu.Sample{w.memory("non-evictable", ago(1), 700),
					w.memory("evictable", ago(1), 5000)}
			}, want: map[int]float64{1: 700}},
		"a pod and its successor don't hold their memory at once": {metric: metrics.Memory,
			raw: func(w world) []monitoringemu.Sample {
				return []monitoringemu.Sample{w.memory("non-evictable", ago(1), 700),
					in(w.memory("non-evictable", ago(1), 300), "pod_name", "agent-1")}
			}, want: map[int]float64{1: 700}},
		"another container does not count": {metric: metrics.Memory, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.memory("non-evictable", ago(1), 700),
				in(w.memory("non-evictable", ago(1), 90), "container_name", "sidecar")}
		}, want: map[int]float64{1: 700}},
		"the agent's own volume": {metric: metrics.Volume, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.volume("data", ago(1), 0.25), w.volume("tmp", ago(1), 0.9)}
		}, want: map[int]float64{1: 0.25}},
		"seconds since the container's start": {metric: metrics.Uptime, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.raw(uptime, ago(2), 3600.0), w.raw(uptime, ago(1), 23.0)}
		}, want: map[int]float64{2: 3600, 1: 23}},
		"restarts of a day, over a reset": {metric: metrics.Restarts, raw: func(w world) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				w.total(restarted, ago(2000), ago(1500), int64(7)), // the day before
				w.total(restarted, ago(2000), ago(600), int64(9)), w.total(restarted, ago(2000), ago(500), int64(10)),
				w.total(restarted, ago(400), ago(300), int64(1)), w.total(restarted, ago(400), ago(1), int64(4)),
			}
		}, want: map[int]float64{0: 7}}, // 7 to 10, then 0 to 4
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pageSize := range []int{0, 1} {
				w := newWorld(t, pageSize)
				w.feed(row.raw(w)...)
				got, _, err := w.read(metrics.Query{Metric: row.metric})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(map[string]map[int]float64{w.agent: row.want}, got); diff != "" {
					t.Errorf("in pages of %d: %s", pageSize, diff)
				}
			}
		})
	}
}

// TestReadByHost tells the agent's own hostname from what else is written into requests.
func TestReadByHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	count := func(at int, n float64, host, code string) monitoringemu.Sample {
		return w.scraped(requested, ago(20), ago(at), n, map[string]string{"host": host, "code": code})
	}
	took := func(at int, host string, counts ...int64) monitoringemu.Sample {
		return w.scraped(durations, ago(20), ago(at), histogram(counts...), map[string]string{"host": host})
	}
	w.feed(
		count(2, 10, w.host(), "200"), count(1, 40, w.host(), "200"), count(2, 0, w.host(), "503"),
		count(1, 6, w.host(), "503"),
		count(2, 0, "other."+domain, "200"), count(1, 60, "other."+domain, "200"),
		count(2, 0, "10.0.0.7:8080", "200"), count(1, 600, "10.0.0.7:8080", "200"),
		took(7, w.host(), 0, 0, 0, 0), took(1, w.host(), 0, 20, 0, 0),
	)
	for m, want := range map[metrics.Metric]map[string]map[int]float64{
		metrics.Requests: {w.agent + w.host(): {1: 0.6}, w.agent + "other." + domain: {1: 1}},
		metrics.Errors:   {w.agent + w.host(): {1: 0.1}},
		metrics.Latency:  {w.agent + w.host(): {0: 195}}, // 95 % of the way from 0.1 s to 0.2 s
	} {
		got, _, err := w.read(metrics.Query{Metric: m})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got,
			cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
			t.Errorf("%s: %s", m, diff)
		}
	}
}

// TestOthers leaves out what is not of an agent, or of another cluster.
func TestOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	here := w.raw(uptime, ago(1), 60.0)
	w.feed(here)
	for label, value := range map[string]string{"cluster_name": "cluster-2", "location": "europe-west1"} {
		w.feed(in(w.raw(uptime, ago(1), 60.0), label, value))
	}
	for _, namespace := range []string{"kube-system", "agent-", "agent-gateway", "agent-" + strings.ToUpper(w.agent),
		"xagent-" + w.agent} {
		w.feed(in(w.raw(uptime, ago(1), 60.0), "namespace_name", namespace))
	}
	got, _, err := w.read(metrics.Query{Metric: metrics.Uptime})
	if err != nil || len(got) != 1 || got[w.agent][1] != 60 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCalls counts: one a metric for any number of agents of a page, more only for pages and for agents that are named.
func TestCalls(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		agents, pageSize, named int
		calls                   int
	}{{agents: 1, pageSize: 0, named: 0, calls: 1}, {agents: 10, pageSize: 0, named: 0, calls: 1},
		{agents: 1000, pageSize: 0, named: 0, calls: 1}, {agents: 10, pageSize: 4, named: 0, calls: 3},
		{agents: 100, pageSize: 0, named: 30, calls: 1}, {agents: 100, pageSize: 0, named: 31, calls: 2}} {
		w := newWorld(t, row.pageSize)
		var ids []string
		for range row.agents {
			id := uuid.NewString()
			ids = append(ids, id)
			w.feed(in(w.raw(uptime, ago(1), 60.0), "namespace_name", "agent-"+id))
		}
		q, want := metrics.Query{Metric: metrics.Uptime}, row.agents
		if row.named > 0 {
			q.Agents, want = ids[:row.named], row.named
		}
		got, usage, err := w.read(q)
		if err != nil || len(got) != want || usage != (metrics.Usage{Calls: row.calls, Series: want, Points: want}) {
			t.Errorf("%+v: %d agents, %+v, %v", row, len(got), usage, err)
		}
		if calls := w.server.Calls()["ListTimeSeries"]; calls != usage.Calls {
			t.Errorf("%+v: counted %d calls of %d", row, usage.Calls, calls)
		}
	}
}

// TestFaults tells what may pass from what will not.
func TestFaults(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]fault.Kind{
		codes.ResourceExhausted: fault.Unavailable, codes.DeadlineExceeded: fault.Unavailable,
		codes.Internal:         fault.Unavailable,
		codes.PermissionDenied: fault.Internal, codes.InvalidArgument: fault.Internal,
	} {
		w := newWorld(t, 0)
		w.server.Inject(func(string, string) rpc.Fault { return rpc.Fault{Before: status.Error(code, "no")} })
		_, usage, err := w.read(metrics.Query{Metric: metrics.CPU})
		if err == nil || fault.From(err).Kind != want || usage.Calls != 1 {
			t.Errorf("%v: %v after %d calls", code, err, usage.Calls)
		}
	}
	w := newWorld(t, 0)
	w.server.Inject(func(string, string) rpc.Fault {
		return rpc.Fault{Before: status.Error(codes.NotFound, "no such metric")}
	})
	if got, _, err := w.read(metrics.Query{Metric: metrics.Requests}); err != nil || len(got) != 0 {
		t.Errorf("a metric that nobody has written: %v, %v", got, err)
	}
	for _, q := range []metrics.Query{{Cell: "nowhere", Metric: metrics.CPU}, {Cell: "cell", Metric: "mood"}} {
		if _, err := w.source.Read(t.Context(), q, func(metrics.Sample) {}); err == nil {
			t.Errorf("%+v was read", q)
		}
	}
}

// TestGivesUp ends with its caller, and not later.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	w.server.Inject(func(string, string) rpc.Fault { cancel(); return rpc.Fault{Delay: time.Minute} })
	_, err := w.source.Read(ctx, metrics.Query{Cell: "cell", Metric: metrics.CPU, Span: span()},
		func(metrics.Sample) {})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}
