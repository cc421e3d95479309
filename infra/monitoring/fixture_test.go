package monitoring_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/infra/monitoring"
	"agents.example/controlplane/shared/metrics"
)

const (
	project = "control-plane-test"
	domain  = "agents.example.com"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// A library of the client starts this one when it is loaded, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// noon is the time at which everything is read.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// ago is a number of minutes before noon.
func ago(minutes int) time.Time { return noon().Add(-time.Duration(minutes) * time.Minute) }

// world is an empty Cloud Monitoring, read in small pages, and an agent.
type world struct {
	*testing.T
	server *monitoringemu.Server
	source *monitoring.Source
	agent  string
}

func newWorld(t *testing.T, pageSize int) world {
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
	return world{T: t, server: server, source: source, agent: uuid.NewString()}
}

// raw is a point as GKE writes it, of the agent's container.
func (w world) raw(metricType string, at time.Time, value any) monitoringemu.Sample {
	return monitoringemu.Sample{
		Metric: metricType, Resource: "k8s_container", End: at, Value: value,
		ResourceLabels: map[string]string{
			"project_id": project, "location": "us-central1", "cluster_name": "cluster-1", "namespace_name": "agent-" +
				w.agent,
			"pod_name": "agent-0", "container_name": "agent",
		},
	}
}

// total is a point of a counter that began to count at a time.
func (w world) total(metricType string, began, at time.Time, value any) monitoringemu.Sample {
	s := w.raw(metricType, at, value)
	s.Kind, s.Start = metric.MetricDescriptor_CUMULATIVE, began
	return s
}

// scraped is a point of a counter as Managed Prometheus writes it.
func (w world) scraped(metricType string, began, at time.Time, value any,
	labels map[string]string) monitoringemu.Sample {
	s := w.total(metricType, began, at, value)
	s.Resource, s.MetricLabels = "prometheus_target", labels
	s.ResourceLabels = map[string]string{
		"project_id": project, "location": "us-central1", "cluster": "cluster-1", "namespace": "agent-" + w.agent,
		"job": "agent", "instance": "agent-0:9090",
	}
	return s
}

func (w world) host() string { return "bot-" + w.agent[:8] + "." + domain }

func (w world) feed(samples ...monitoringemu.Sample) {
	w.Helper()
	if err := w.server.Feed(project, samples...); err != nil {
		w.Fatal(err)
	}
}

// span is the ten minutes before noon.
func span() metrics.Span { return metrics.Span{From: ago(10), To: noon()} }

// read reads a metric of all agents, by agent and the minutes before noon.
func (w world) read(q metrics.Query) (map[string]map[int]float64, metrics.Usage, error) {
	found := map[string]map[int]float64{}
	q.Cell, q.Span = "cell", span()
	usage, err := w.source.Read(w.Context(), q, func(s metrics.Sample) {
		if found[s.AgentID+s.Host] == nil {
			found[s.AgentID+s.Host] = map[int]float64{}
		}
		found[s.AgentID+s.Host][int(noon().Sub(s.At).Minutes())] = s.Value
	})
	return found, usage, err
}

// histogram has bounds at 0.1, 0.2 and 0.4 seconds.
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
