package monitoring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
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
	// byHost is set for the router's metrics. Its series are in the router's namespace, and belong to the agent that
	// their label hostLabel names.
	byHost bool
	// scale converts the value's unit to ours.
	scale float64
}

// hostLabel is the label of the router's metrics with the host of a request.
const hostLabel = "host"

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

// sources returns the sources of each metric. A source after the first is a fallback for agents without samples in
// those before it. One minute is the service's finest alignment, and GKE samples once a minute. An agent has one
// container at a time, but in the minute of a replacement both have a series. CPU time of the two adds up; memory and
// volume do not.
func sources() map[metrics.Metric][]source {
	const inContainer = `resource.labels.container_name = "` + containerName + `"`
	perMinute := func(metric string, r resource, condition string, a monitoringpb.Aggregation_Aligner,
		reduce monitoringpb.Aggregation_Reducer,
	) source {
		return source{
			metric: metric, resource: r, condition: condition, aligner: a, period: time.Minute,
			reducer: reduce, scale: 1,
		}
	}
	memory := perMinute("kubernetes.io/container/memory/used_bytes", containerResource(), inContainer+
		` AND metric.labels.memory_type = "non-evictable"`,
		monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX)
	// GKE does not measure the memory of sandboxed containers. The front next to them does.
	sandboxed := perMinute("prometheus.googleapis.com/agent_memory_used_bytes/gauge", targetResource(), "",
		monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX)
	all := map[metrics.Metric][]source{
		metrics.CPU: {perMinute("kubernetes.io/container/cpu/core_usage_time", containerResource(), inContainer,
			monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM)},
		metrics.Memory: {memory, sandboxed},
		metrics.Volume: {perMinute("kubernetes.io/pod/volume/utilization", podResource(),
			`metric.labels.volume_name = "`+volumeName+`"`,
			monitoringpb.Aggregation_ALIGN_MEAN, monitoringpb.Aggregation_REDUCE_MAX)},
	}
	maps.Copy(all, routerSources())
	return all
}

// routerSources returns the sources that the router counts. The replicas of the router add up.
func routerSources() map[metrics.Metric][]source {
	const (
		requests  = "prometheus.googleapis.com/http_requests_total/counter"
		durations = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
	)
	counted := source{
		metric: requests, resource: targetResource(), byHost: true, period: time.Minute, scale: 1,
		aligner: monitoringpb.Aggregation_ALIGN_RATE, reducer: monitoringpb.Aggregation_REDUCE_SUM,
	}
	failed, latency := counted, counted
	failed.condition = `metric.labels.code = starts_with("5")`
	latency.metric, latency.period, latency.scale = durations, 5*time.Minute, 1000
	latency.aligner = monitoringpb.Aggregation_ALIGN_DELTA
	latency.reducer = monitoringpb.Aggregation_REDUCE_PERCENTILE_95
	return map[metrics.Metric][]source{
		metrics.Requests: {counted}, metrics.Errors: {failed}, metrics.Latency: {latency},
	}
}

// maxAgentsPerFilter bounds the agents in one filter. The service limits filters to 2,048 characters, and a namespace
// has 42.
const maxAgentsPerFilter = 30

// filters returns the filters that together select the agents: one for all agents of a cell, or several that list some.
func (s source) filters(p place, agents []string) []string {
	common := []string{
		fmt.Sprintf("metric.type = %q", s.metric), fmt.Sprintf("resource.type = %q", s.resource.kind),
		fmt.Sprintf("resource.labels.%s = %q", s.resource.cluster, p.Cluster),
		fmt.Sprintf("resource.labels.location = %q", p.Location),
	}
	if s.condition != "" {
		common = append(common, s.condition)
	}
	namespace := "resource.labels." + s.resource.namespace + " = "
	if s.byHost {
		common = append(common, namespace+fmt.Sprintf("%q", p.routerNamespace))
	}
	and := func(condition string) string { return strings.Join(append(slices.Clip(common), condition), " AND ") }
	switch {
	case agents == nil && s.byHost:
		return []string{and(fmt.Sprintf("metric.labels.%s = ends_with(%q)", hostLabel, "."+p.suffix()))}
	case agents == nil:
		return []string{and(namespace + fmt.Sprintf("starts_with(%q)", agent.Namespace("")))}
	}
	var filters []string
	for chunk := range slices.Chunk(agents, maxAgentsPerFilter) {
		if s.byHost {
			filters = append(filters, and("metric.labels."+hostLabel+" = "+p.matchHosts(chunk)))
			continue
		}
		quoted := make([]string, len(chunk))
		for i, id := range chunk {
			quoted[i] = fmt.Sprintf("%q", agent.Namespace(id))
		}
		filters = append(filters, and(namespace+"one_of("+strings.Join(quoted, ", ")+")"))
	}
	return filters
}

// place is where the series of a cell are.
type place struct {
	Cell
	domain, routerNamespace string
}

func (p place) suffix() string { return agent.Addresses{Domain: p.domain}.CellDomain(p.Name) }

// matchHosts matches the hostnames of agents, whatever their slugs are.
func (p place) matchHosts(agents []string) string {
	suffix := "." + p.suffix()
	labels := make([]string, len(agents))
	for i, id := range agents {
		withoutSlug := agent.Agent{ID: id, Cell: p.Name}.Hostname(agent.Addresses{Domain: p.domain})
		labels[i] = strings.TrimSuffix(withoutSlug, suffix)
	}
	pattern := ".*(" + strings.Join(labels, "|") + ")" + strings.ReplaceAll(suffix, ".", "[.]")
	return fmt.Sprintf("monitoring.regex.full_match(%q)", pattern)
}

// request returns the request for one value per agent, host and period.
func (s source) request(project, filter string, span metrics.Span) *monitoringpb.ListTimeSeriesRequest {
	group := "resource.labels." + s.resource.namespace
	if s.byHost {
		group = "metric.labels." + hostLabel
	}
	return &monitoringpb.ListTimeSeriesRequest{
		Name: project, Filter: filter,
		Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(span.From), EndTime: timestamppb.New(span.To)},
		Aggregation: &monitoringpb.Aggregation{
			AlignmentPeriod: durationpb.New(s.period), PerSeriesAligner: s.aligner, CrossSeriesReducer: s.reducer,
			GroupByFields: []string{group},
		},
	}
}

// agentOf returns the agent of a series, and the host of its requests. Other series belong to no agent.
func (s source) agentOf(p place, series *monitoringpb.TimeSeries) (id, host string, ok bool) {
	if s.byHost {
		host = strings.ToLower(series.GetMetric().GetLabels()[hostLabel])
		id, ok = agent.IDFromHostname(host, p.suffix())
		return id, host, ok
	}
	id, ok = agent.IDFromNamespace(series.GetResource().GetLabels()[s.resource.namespace])
	return id, "", ok
}

// visitSamples visits the points of an agent's series.
func (s source) visitSamples(series *monitoringpb.TimeSeries, id, host string, visit func(metrics.Sample)) {
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
