package monitoring

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// source says where a metric comes from, and how the series of one agent become one.
type source struct {
	metric    string
	resource  resource
	condition string // on the metric's labels, beside the cluster and the namespaces
	aligner   monitoringpb.Aggregation_Aligner
	period    time.Duration
	reducer   monitoringpb.Aggregation_Reducer
	// host is the label with the host of requests; empty where the metric is not of requests.
	host string
	// scale turns the value's unit into ours.
	scale float64
	// window is how far back the one sample of a metric goes that has only one; zero reads the span that is asked for.
	window time.Duration
}

// resource is a monitored resource with the labels that place it.
type resource struct{ kind, cluster, namespace string }

func container() resource { return resource{"k8s_container", "cluster_name", "namespace_name"} }
func pod() resource       { return resource{"k8s_pod", "cluster_name", "namespace_name"} }
func target() resource    { return resource{"prometheus_target", "cluster", "namespace"} }

// Names in an agent's pod.
const (
	containerName = "agent"
	volumeName    = "data"
)

// sources is the table of what is read. Alignment to a minute is the finest that the service has; GKE samples once in
// it. An agent has one container at a time, but in the minute in which one follows another there are series of both:
// what they used adds up, what they held does not.
func sources() map[metrics.Metric]source {
	const (
		inContainer = `resource.labels.container_name = "` + containerName + `"`
		requests    = "prometheus.googleapis.com/http_requests_total/counter"
		durations   = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
	)
	of := func(metric string, r resource, condition string, a monitoringpb.Aggregation_Aligner,
		reduce monitoringpb.Aggregation_Reducer) source {
		return source{metric: metric, resource: r, condition: condition, aligner: a, period: time.Minute,
			reducer: reduce, scale: 1}
	}
	all := map[metrics.Metric]source{
		metrics.CPU: of("kubernetes.io/container/cpu/core_usage_time", container(), inContainer,
			monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Memory: of("kubernetes.io/container/memory/used_bytes", container(), inContainer+
			` AND metric.labels.memory_type = "non-evictable"`,
			monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Uptime: of("kubernetes.io/container/uptime", container(), inContainer,
			monitoringpb.Aggregation_ALIGN_MAX, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Restarts: of("kubernetes.io/container/restart_count", container(), inContainer,
			monitoringpb.Aggregation_ALIGN_DELTA, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Volume: of("kubernetes.io/pod/volume/utilization", pod(), `metric.labels.volume_name = "`+volumeName+
			`"`,
			monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Requests: of(requests, target(), "", monitoringpb.Aggregation_ALIGN_RATE,
			monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Errors: of(requests, target(), `metric.labels.code = starts_with("5")`,
			monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Latency: of(durations, target(), "", monitoringpb.Aggregation_ALIGN_DELTA,
			monitoringpb.Aggregation_REDUCE_PERCENTILE_95),
	}
	for _, m := range []metrics.Metric{metrics.Requests, metrics.Errors, metrics.Latency} {
		s := all[m]
		s.host = "host"
		all[m] = s
	}
	restarts, latency := all[metrics.Restarts], all[metrics.Latency]
	restarts.period, restarts.window = metrics.Day, metrics.Day
	latency.period, latency.scale = 5*time.Minute, 1000
	all[metrics.Restarts], all[metrics.Latency] = restarts, latency
	return all
}

// maxNamed is how many agents one filter names: the service takes filters of 2,048 characters, and a namespace has 42.
const maxNamed = 30

// filters makes the filters that together pick the agents: one for all of a cluster, or several that name them.
func (s source) filters(c Cell, domain string, agents []string) []string {
	common := []string{
		fmt.Sprintf("metric.type = %q", s.metric), fmt.Sprintf("resource.type = %q", s.resource.kind),
		fmt.Sprintf("resource.labels.%s = %q", s.resource.cluster, c.Cluster),
		fmt.Sprintf("resource.labels.location = %q", c.Location),
	}
	if s.condition != "" {
		common = append(common, s.condition)
	}
	if s.host != "" {
		common = append(common, fmt.Sprintf("metric.labels.%s = ends_with(%q)", s.host, "."+domain))
	}
	namespace := "resource.labels." + s.resource.namespace
	and := func(condition string) string {
		return strings.Join(append(slices.Clip(common), namespace+" = "+condition), " AND ")
	}
	if agents == nil {
		return []string{and(fmt.Sprintf("starts_with(%q)", agent.Namespace("")))}
	}
	var filters []string
	for some := range slices.Chunk(agents, maxNamed) {
		quoted := make([]string, len(some))
		for i, id := range some {
			quoted[i] = fmt.Sprintf("%q", agent.Namespace(id))
		}
		filters = append(filters, and("one_of("+strings.Join(quoted, ", ")+")"))
	}
	return filters
}

// request asks for one value an agent, and host, and period.
func (s source) request(project, filter string, span metrics.Span) *monitoringpb.ListTimeSeriesRequest {
	from := span.From
	if s.window > 0 {
		from = span.To.Add(-s.window)
	}
	groups := []string{"resource.labels." + s.resource.namespace}
	if s.host != "" {
		groups = append(groups, "metric.labels."+s.host)
	}
	return &monitoringpb.ListTimeSeriesRequest{
		Name: project, Filter: filter,
		Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(from), EndTime: timestamppb.New(span.To)},
		Aggregation: &monitoringpb.Aggregation{
			AlignmentPeriod: durationpb.New(s.period), PerSeriesAligner: s.aligner, CrossSeriesReducer: s.reducer,
			GroupByFields: groups,
		},
	}
}

// samples hands on the points of a series. One of a namespace that is not an agent's is somebody else's.
func (s source) samples(series *monitoringpb.TimeSeries, visit func(metrics.Sample)) {
	id, ok := strings.CutPrefix(series.GetResource().GetLabels()[s.resource.namespace], agent.Namespace(""))
	parsed, err := uuid.Parse(id)
	if !ok || err != nil || parsed.String() != id {
		return
	}
	host := ""
	if s.host != "" {
		host = strings.ToLower(series.GetMetric().GetLabels()[s.host])
	}
	for _, p := range series.GetPoints() {
		var value float64
		switch v := p.GetValue().GetValue().(type) {
		case *monitoringpb.TypedValue_DoubleValue:
			value = v.DoubleValue
		case *monitoringpb.TypedValue_Int64Value:
			value = float64(v.Int64Value)
		default:
			continue
		}
		visit(metrics.Sample{AgentID: id, Host: host, At: p.GetInterval().GetEndTime().AsTime(),
			Value: value * s.scale})
	}
}
