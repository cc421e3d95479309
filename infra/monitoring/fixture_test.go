package monitoring_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/infra/monitoring"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/testtier"
)

const (
	project = "control-plane-test"
	domain  = "agents.example.com"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	// A library of the client starts this goroutine when it is loaded and never stops it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// noon is the time of every read.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// minutesAgo returns the time that many minutes before noon.
func minutesAgo(minutes int) time.Time { return noon().Add(-time.Duration(minutes) * time.Minute) }

// fixture is an empty local Cloud Monitoring, a source that reads it, and the id of an agent.
type fixture struct {
	*testing.T
	server *monitoringemu.Server
	source *monitoring.Source
	agent  string
}

func newFixture(t *testing.T, pageSize int) fixture {
	t.Helper()
	server, err := monitoringemu.Start(t.Context(), monitoringemu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := monitoring.Open(t.Context(), monitoring.Options{
		ProjectID: project, Endpoint: server.Addr, Domain: domain, PageSize: pageSize,
		Cells: []monitoring.Cell{{Name: "cell", Cluster: "cluster-1", Location: "us-central1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return fixture{T: t, server: server, source: source, agent: uuid.NewString()}
}

// gaugePoint returns a gauge's point of the agent's container, as GKE writes it.
func (f fixture) gaugePoint(metricType string, at time.Time, value any) monitoringemu.Sample {
	return monitoringemu.Sample{
		Metric: metricType, Resource: "k8s_container", End: at, Value: value,
		ResourceLabels: map[string]string{
			"project_id": project, "location": "us-central1", "cluster_name": "cluster-1", "namespace_name": "agent-" +
				f.agent,
			"pod_name": "agent-0", "container_name": "agent",
		},
	}
}

// counterPoint returns a counter's point. The counter started at began.
func (f fixture) counterPoint(metricType string, began, at time.Time, value any) monitoringemu.Sample {
	s := f.gaugePoint(metricType, at, value)
	s.Kind, s.Start = metric.MetricDescriptor_CUMULATIVE, began
	return s
}

// prometheusPoint returns a point of the router's counters as Managed Prometheus writes it.
func (f fixture) prometheusPoint(metricType string, began, at time.Time, value any,
	labels map[string]string,
) monitoringemu.Sample {
	s := f.counterPoint(metricType, began, at, value)
	s.Resource, s.MetricLabels = "prometheus_target", labels
	s.ResourceLabels = map[string]string{
		"project_id": project, "location": "us-central1", "cluster": "cluster-1", "namespace": "agent-gateway",
		"job": "agent-router", "instance": "agent-router-1:9090",
	}
	return s
}

// host returns the agent's hostname in the cell.
func (f fixture) host() string { return hostname(f.agent, "cell") }

func hostname(agentID, cell string) string {
	return agent.Agent{ID: agentID, Slug: "bot", Cell: cell}.Hostname(agent.Addresses{Domain: domain})
}

// sandboxMemoryPoint returns a point of the memory that the front of a sandboxed agent measured.
func (f fixture) sandboxMemoryPoint(at time.Time, bytes float64) monitoringemu.Sample {
	s := f.gaugePoint("prometheus.googleapis.com/agent_memory_used_bytes/gauge", at, bytes)
	s.Resource = "prometheus_target"
	s.ResourceLabels = map[string]string{
		"project_id": project, "location": "us-central1", "cluster": "cluster-1", "namespace": "agent-" + f.agent,
		"job": "agents", "instance": "agent-0:9091",
	}
	return s
}

func (f fixture) feed(samples ...monitoringemu.Sample) {
	f.Helper()
	if err := f.server.Feed(project, samples...); err != nil {
		f.Fatal(err)
	}
}

// span returns the ten minutes before noon.
func span() metrics.Span { return metrics.Span{From: minutesAgo(10), To: noon()} }

// read returns the values of a metric by agent and host, and by the minutes before noon.
func (f fixture) read(q metrics.Query) (map[string]map[int]float64, metrics.Usage, error) {
	found := map[string]map[int]float64{}
	q.Cell, q.Span = "cell", span()
	usage, err := f.source.Read(f.Context(), q, func(s metrics.Sample) {
		if found[s.AgentID+s.Host] == nil {
			found[s.AgentID+s.Host] = map[int]float64{}
		}
		found[s.AgentID+s.Host][int(noon().Sub(s.At).Minutes())] = s.Value
	})
	return found, usage, err
}

// histogram returns a histogram with bounds at 0.1, 0.2 and 0.4 seconds.
func histogram(counts ...int64) *distribution.Distribution {
	d := &distribution.Distribution{BucketCounts: counts, BucketOptions: &distribution.Distribution_BucketOptions{
		Options: &distribution.Distribution_BucketOptions_ExplicitBuckets{
			ExplicitBuckets: &distribution.Distribution_BucketOptions_Explicit{Bounds: []float64{0.1, 0.2, 0.4}},
		},
	}}
	for _, count := range counts {
		d.Count += count
	}
	return d
}
