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

// source describes where a metric comes from and how the series of one agent are reduced to one.
type source struct {
	metric    string
	resource  resource
	condition string // an additional filter on labels
	aligner   monitoringpb.Aggregation_Aligner
	period    time.Duration
	reducer   monitoringpb.Aggregation_Reducer
	// host is the label with the host of a request. It is empty for metrics that do not count requests.
	host string
	// scale converts the value's unit to ours.
	scale float64
	// window is the period of a metric that is read as one sample. Zero means the query's span.
	window time.Duration
}

// resource is a type of monitored resource and the names of its location labels.
type resource struct{ kind, cluster, namespace string }

func containerResource() resource { return resource{"k8s_container", "cluster_name", "namespace_name"} }
func podResource() resource       { return resource{"k8s_pod", "cluster_name", "namespace_name"} }
func targetResource() resource    { return resource{"prometheus_target", "cluster", "namespace"} }

// Names in an agent's pod.
const (
	containerName = "agent"
	volumeName    = "data"
)

// sources returns the source of each metric. One minute is the service's finest alignment, and GKE samples once a
// minute. An agent has one container at a time, but in the minute of a replacement both have a series. CPU time and
// requests of the two add up; memory and volume do not.
func sources() map[metrics.Metric]source {
	const (
		inContainer = `resource.labels.container_name = "` + containerName + `"`
		requests    = "prometheus.googleapis.com/http_requests_total/counter"
		durations   = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
	)
	perMinute := func(metric string, r resource, condition string, a monitoringpb.Aggregation_Aligner,
		reduce monitoringpb.Aggregation_Reducer,
	) source {
		return source{
			metric: metric, resource: r, condition: condition, aligner: a, period: time.Minute,
			reducer: reduce, scale: 1,
		}
	}
	all := map[metrics.Metric]source{
		metrics.CPU: perMinute("kubernetes.io/container/cpu/core_usage_time", containerResource(), inContainer,
			monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Memory: perMinute("kubernetes.io/container/memory/used_bytes", containerResource(), inContainer+
			` AND metric.labels.memory_type = "non-evictable"`,
			monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Uptime: perMinute("kubernetes.io/container/uptime", containerResource(), inContainer,
			monitoringpb.Aggregation_ALIGN_MAX, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Restarts: perMinute("kubernetes.io/container/restart_count", containerResource(), inContainer,
			monitoringpb.Aggregation_ALIGN_DELTA, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Volume: perMinute("kubernetes.io/pod/volume/utilization", podResource(),
			`metric.labels.volume_name = "`+volumeName+`"`,
			monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX),
		metrics.Requests: perMinute(requests, targetResource(), "", monitoringpb.Aggregation_ALIGN_RATE,
			monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Errors: perMinute(requests, targetResource(), `metric.labels.code = starts_with("5")`,
			monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM),
		metrics.Latency: perMinute(durations, targetResource(), "", monitoringpb.Aggregation_ALIGN_DELTA,
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

// maxAgentsPerFilter bounds the agents in one filter. The service limits filters to 2,048 characters, and a namespace
// has 42.
const maxAgentsPerFilter = 30

// filters returns the filters that together select the agents: one for all agents of a cluster, or several that list
// their namespaces.
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
	for chunk := range slices.Chunk(agents, maxAgentsPerFilter) {
		quoted := make([]string, len(chunk))
		for i, id := range chunk {
			quoted[i] = fmt.Sprintf("%q", agent.Namespace(id))
		}
		filters = append(filters, and("one_of("+strings.Join(quoted, ", ")+")"))
	}
	return filters
}

// request returns the request for one value per agent, host and period.
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

// visitSamples visits the points of a series. It skips series of namespaces that are not an agent's.
func (s source) visitSamples(series *monitoringpb.TimeSeries, visit func(metrics.Sample)) {
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
		visit(metrics.Sample{
			AgentID: id, Host: host, At: p.GetInterval().GetEndTime().AsTime(),
			Value: value * s.scale,
		})
	}
}
