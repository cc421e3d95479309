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
	utilization = "kubernetes.io/pod/volume/utilization"
	requested   = "prometheus.googleapis.com/http_requests_total/counter"
	durations   = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
)

// memoryPoint returns a point of one memory type.
func (f fixture) memoryPoint(kind string, at time.Time, bytes int64) monitoringemu.Sample {
	s := f.gaugePoint(memoryUsed, at, bytes)
	s.MetricLabels = map[string]string{"memory_type": kind}
	return s
}

// volumePoint returns a point of a volume of the agent's pod.
func (f fixture) volumePoint(name string, at time.Time, share float64) monitoringemu.Sample {
	s := f.gaugePoint(utilization, at, share)
	s.Resource, s.MetricLabels = "k8s_pod", map[string]string{"volume_name": name}
	delete(s.ResourceLabels, "container_name")
	return s
}

// withResourceLabel changes one resource label of a point.
func withResourceLabel(s monitoringemu.Sample, label, value string) monitoringemu.Sample {
	s.ResourceLabels[label] = value
	return s
}

// The expected values are computed by hand from the raw points.
func TestRead_ReducesRawPointsToOneSeriesPerAgent(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		metric metrics.Metric
		raw    func(fixture) []monitoringemu.Sample
		want   map[int]float64
	}{
		"CPU time becomes cores": {metric: metrics.CPU, raw: func(f fixture) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(3), 100.0),
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(2), 115.0),
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(1), 145.0),
			}
		}, want: map[int]float64{2: 0.25, 1: 0.5}},
		"a reset counter counts from zero": {
			metric: metrics.CPU,
			raw: func(f fixture) []monitoringemu.Sample {
				return []monitoringemu.Sample{
					f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(3), 100.0),
					f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(2), 115.0),
					f.counterPoint(cpuTime, minutesAgo(2), minutesAgo(1), 6.0),
				}
			}, want: map[int]float64{2: 0.25, 1: 0.1},
		},
		"minutes without a point are omitted": {metric: metrics.CPU, raw: func(f fixture) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(6), 100.0),
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(5), 115.0),
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(1), 235.0),
			}
		}, want: map[int]float64{5: 0.25, 1: 0.5}}, // 120 s of CPU in four minutes
		"CPU of a pod and its successor adds up": {metric: metrics.CPU, raw: func(f fixture) []monitoringemu.Sample {
			other := func(s monitoringemu.Sample) monitoringemu.Sample {
				return withResourceLabel(s, "pod_name", "agent-1")
			}
			return []monitoringemu.Sample{
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(2), 100.0),
				f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(1), 115.0),
				other(f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(2), 10.0)),
				other(f.counterPoint(cpuTime, minutesAgo(20), minutesAgo(1), 40.0)),
			}
		}, want: map[int]float64{1: 0.75}},
		"evictable memory does not count": {
			metric: metrics.Memory,
			raw: func(f fixture) []monitoringemu.Sample {
				return []monitoringemu.Sample{
					f.memoryPoint("non-evictable", minutesAgo(1), 700),
					f.memoryPoint("evictable", minutesAgo(1), 5000),
				}
			}, want: map[int]float64{1: 700},
		},
		"memory of a pod and its successor does not add up": {
			metric: metrics.Memory,
			raw: func(f fixture) []monitoringemu.Sample {
				return []monitoringemu.Sample{
					f.memoryPoint("non-evictable", minutesAgo(1), 700),
					withResourceLabel(f.memoryPoint("non-evictable", minutesAgo(1), 300), "pod_name", "agent-1"),
				}
			}, want: map[int]float64{1: 700},
		},
		"other containers do not count": {metric: metrics.Memory, raw: func(f fixture) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				f.memoryPoint("non-evictable", minutesAgo(1), 700),
				withResourceLabel(f.memoryPoint("non-evictable", minutesAgo(1), 90), "container_name", "sidecar"),
			}
		}, want: map[int]float64{1: 700}},
		"only the data volume counts": {metric: metrics.Volume, raw: func(f fixture) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				f.volumePoint("data", minutesAgo(1), 0.25),
				f.volumePoint("tmp", minutesAgo(1), 0.9),
			}
		}, want: map[int]float64{1: 0.25}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pageSize := range []int{0, 1} {
				f := newFixture(t, pageSize)
				f.feed(row.raw(f)...)
				got, _, err := f.read(metrics.Query{Metric: row.metric})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(map[string]map[int]float64{f.agent: row.want}, got); diff != "" {
					t.Errorf("page size %d: values (-want +got):\n%s", pageSize, diff)
				}
			}
		})
	}
}

// The router's series are in its own namespace: the host names the agent.
func TestRead_FindsTheAgentOfRequestsByHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	neighbour := uuid.NewString()
	requestPoint := func(at int, n float64, host, code string) monitoringemu.Sample {
		return f.prometheusPoint(requested, minutesAgo(20), minutesAgo(at), n,
			map[string]string{"host": host, "code": code})
	}
	durationPoint := func(at int, host string, counts ...int64) monitoringemu.Sample {
		return f.prometheusPoint(durations, minutesAgo(20), minutesAgo(at), histogram(counts...),
			map[string]string{"host": host})
	}
	replica := func(s monitoringemu.Sample) monitoringemu.Sample {
		return withResourceLabel(s, "instance", "agent-router-2:9090")
	}
	f.feed(
		requestPoint(2, 10, f.host(), "200"), requestPoint(1, 30, f.host(), "200"), requestPoint(2, 0, f.host(), "503"),
		requestPoint(1, 6, f.host(), "503"),
		replica(requestPoint(2, 0, f.host(), "200")), replica(requestPoint(1, 10, f.host(), "200")),
		requestPoint(2, 0, hostname(neighbour, "cell"), "200"), requestPoint(1, 60, hostname(neighbour, "cell"), "200"),
		durationPoint(7, f.host(), 0, 0, 0, 0), durationPoint(1, f.host(), 0, 20, 0, 0),
	)
	for _, foreign := range []string{"10.0.0.7:8080", "other." + domain, "", hostname(f.agent, "other")} {
		f.feed(requestPoint(2, 0, foreign, "200"), requestPoint(1, 600, foreign, "200"))
	}
	// An agent can write metrics in its own namespace. It cannot write the router's.
	f.feed(withResourceLabel(requestPoint(2, 0, f.host(), "200"), "namespace", "agent-"+f.agent),
		withResourceLabel(requestPoint(1, 600, f.host(), "200"), "namespace", "agent-"+f.agent))
	for m, want := range map[metrics.Metric]map[string]map[int]float64{
		metrics.Requests: {f.agent + f.host(): {1: 0.6}, neighbour + hostname(neighbour, "cell"): {1: 1}},
		metrics.Errors:   {f.agent + f.host(): {1: 0.1}},
		metrics.Latency:  {f.agent + f.host(): {0: 195}}, // 95 % of the way from 0.1 s to 0.2 s
	} {
		same := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
		got, _, err := f.read(metrics.Query{Metric: m})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Errorf("%s: values (-want +got):\n%s", m, diff)
		}
		got, usage, err := f.read(metrics.Query{Metric: m, Agents: []string{uuid.NewString(), f.agent}})
		if err != nil {
			t.Fatal(err)
		}
		delete(want, neighbour+hostname(neighbour, "cell"))
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Errorf("%s of one agent: values (-want +got):\n%s", m, diff)
		}
		if usage.Series != 1 {
			t.Errorf("%s of one agent: series = %d, want 1", m, usage.Series)
		}
	}
}

func TestRead_TakesTheLatencyOfFiveMinutes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	point := func(at int, counts ...int64) monitoringemu.Sample {
		return f.prometheusPoint(durations, minutesAgo(60), minutesAgo(at), histogram(counts...),
			map[string]string{"host": f.host()})
	}
	f.feed(point(40, 0, 0, 0, 0), point(6, 0, 0, 0, 500), point(1, 0, 20, 0, 500)) // slow requests, and then fast ones
	got, _, err := f.read(metrics.Query{Metric: metrics.Latency, Agents: []string{f.agent}})
	if err != nil {
		t.Fatal(err)
	}
	if v := got[f.agent+f.host()][0]; v < 100 || v > 200 {
		t.Errorf("the latency is %v, want that of the last five minutes, 100 to 200 ms", got)
	}
}

func TestRead_TakesTheMemoryOfSandboxedAgentsFromTheirFront(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	plain := f
	plain.agent = uuid.NewString()
	f.feed(f.sandboxMemoryPoint(minutesAgo(1), 500),
		plain.memoryPoint("non-evictable", minutesAgo(1), 700), plain.sandboxMemoryPoint(minutesAgo(1), 900))
	got, _, err := f.read(metrics.Query{Metric: metrics.Memory})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[int]float64{f.agent: {1: 500}, plain.agent: {1: 700}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestRead_IgnoresOtherNamespacesAndClusters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	here := f.volumePoint("data", minutesAgo(1), 0.5)
	f.feed(here)
	for label, value := range map[string]string{"cluster_name": "cluster-2", "location": "europe-west1"} {
		f.feed(withResourceLabel(f.volumePoint("data", minutesAgo(1), 0.5), label, value))
	}
	for _, namespace := range []string{
		"kube-system", "agent-", "agent-gateway", "agent-" + strings.ToUpper(f.agent),
		"xagent-" + f.agent,
	} {
		f.feed(withResourceLabel(f.volumePoint("data", minutesAgo(1), 0.5), "namespace_name", namespace))
	}
	got, _, err := f.read(metrics.Query{Metric: metrics.Volume})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]map[int]float64{f.agent: {1: 0.5}}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// One page costs one call for any number of agents. Only further pages and lists of agents cost more.
func TestRead_CallsGrowWithPagesNotAgents(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		agents, pageSize, listed int
		wantCalls                int
	}{
		{agents: 1, pageSize: 0, listed: 0, wantCalls: 1},
		{agents: 10, pageSize: 0, listed: 0, wantCalls: 1},
		{agents: 1000, pageSize: 0, listed: 0, wantCalls: 1},
		{agents: 10, pageSize: 4, listed: 0, wantCalls: 3},
		{agents: 100, pageSize: 0, listed: 30, wantCalls: 1},
		{agents: 100, pageSize: 0, listed: 31, wantCalls: 2},
	} {
		f := newFixture(t, row.pageSize)
		var ids []string
		for range row.agents {
			id := uuid.NewString()
			ids = append(ids, id)
			f.feed(withResourceLabel(f.volumePoint("data", minutesAgo(1), 0.5), "namespace_name", "agent-"+id))
		}
		q, want := metrics.Query{Metric: metrics.Volume}, row.agents
		if row.listed > 0 {
			q.Agents, want = ids[:row.listed], row.listed
		}
		got, usage, err := f.read(q)
		if err != nil {
			t.Fatalf("%+v: %v", row, err)
		}
		if len(got) != want {
			t.Errorf("%+v: got %d agents, want %d", row, len(got), want)
		}
		if want := (metrics.Usage{Calls: row.wantCalls, Series: want, Points: want}); usage != want {
			t.Errorf("%+v: usage = %+v, want %+v", row, usage, want)
		}
		if calls := f.server.Calls()["ListTimeSeries"]; calls != usage.Calls {
			t.Errorf("%+v: usage counts %d calls, the server %d", row, usage.Calls, calls)
		}
	}
}

func TestRead_SeparatesTransientErrorsFromDefects(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]fault.Kind{
		codes.ResourceExhausted: fault.Unavailable, codes.DeadlineExceeded: fault.Unavailable,
		codes.Internal:         fault.Unavailable,
		codes.PermissionDenied: fault.Internal, codes.InvalidArgument: fault.Internal,
	} {
		f := newFixture(t, 0)
		f.server.Inject(func(string, string) rpc.Fault { return rpc.Fault{Before: status.Error(code, "no")} })
		_, usage, err := f.read(metrics.Query{Metric: metrics.CPU})
		if err == nil || fault.From(err).Kind != want {
			t.Errorf("%v: error = %v, want kind %v", code, err, want)
		}
		if usage.Calls != 1 {
			t.Errorf("%v: calls = %d, want 1", code, usage.Calls)
		}
	}
}

func TestRead_MissingMetricHasNoValues(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	f.server.Inject(func(string, string) rpc.Fault {
		return rpc.Fault{Before: status.Error(codes.NotFound, "no such metric")}
	})
	if got, _, err := f.read(metrics.Query{Metric: metrics.Requests}); err != nil || len(got) != 0 {
		t.Errorf("read = %v, %v; want no values and no error", got, err)
	}
}

func TestRead_RefusesUnknownCellsAndMetrics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	for _, q := range []metrics.Query{{Cell: "nowhere", Metric: metrics.CPU}, {Cell: "cell", Metric: "mood"}} {
		if _, err := f.source.Read(t.Context(), q, func(metrics.Sample) {}); err == nil {
			t.Errorf("Read(%+v) returned no error", q)
		}
	}
}

func TestRead_EndsWhenItsCallerCancels(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	f.server.Inject(func(string, string) rpc.Fault { cancel(); return rpc.Fault{Delay: time.Minute} })
	_, err := f.source.Read(ctx, metrics.Query{Cell: "cell", Metric: metrics.CPU, Span: span()},
		func(metrics.Sample) {})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("Read returned %v, want kind Unavailable", err)
	}
}
