package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/emulators/monitoringemu"
)

const (
	scrapeTimeout = 5 * time.Second
	// frontMetricsPort is where the front of a sandboxed agent serves its metrics.
	frontMetricsPort = "9091"
)

// Families of metrics that are collected; terraform/cell/metrics.yaml lists the same.
const (
	requestsFamily  = "http_requests_total"
	durationsFamily = "http_request_duration_seconds"
	memoryFamily    = "agent_memory_used_bytes"
)

// scrape reads the metrics of one target.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape %s: status %d", url, res.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(res.Body)
}

// counters remembers the counters of the router, because a scrape does not say when they began.
type counters struct {
	series map[string]*counter
	// requests counts the requests to each namespace.
	requests map[string]int64
}

// counter is one time series of a counter or a histogram.
type counter struct {
	since      time.Time
	base, last reading
}

// reading is the value of a counter, or of a histogram: the number of values and the numbers in its buckets.
type reading struct {
	value   float64
	buckets []int64
}

// scrapeRouter returns the points of the router's counters.
func (t *Telemetry) scrapeRouter(ctx context.Context, now time.Time) ([]monitoringemu.Sample, error) {
	families, err := scrape(ctx, t.options.Router)
	if err != nil {
		return nil, err
	}
	known := t.counters.series
	t.counters = counters{series: map[string]*counter{}, requests: map[string]int64{}}
	var samples []monitoringemu.Sample
	for _, m := range families[requestsFamily].GetMetric() {
		n := m.GetCounter().GetValue()
		if namespace, ok := t.options.NamespaceOf(labels(m)["host"]); ok {
			t.counters.requests[namespace] += int64(n)
		}
		c := t.counters.advance(known, requestsFamily, m, reading{value: n}, now)
		if c != nil {
			samples = append(samples, t.counted(requestsFamily+"/counter", c.since, now, labels(m), n-c.base.value))
		}
	}
	for _, m := range families[durationsFamily].GetMetric() {
		bounds, counts := buckets(m.GetHistogram())
		c := t.counters.advance(known, durationsFamily, m,
			reading{float64(m.GetHistogram().GetSampleCount()), counts}, now)
		if c != nil {
			samples = append(samples, t.counted(durationsFamily+"/histogram", c.since, now, labels(m),
				c.distribution(bounds)))
		}
	}
	return samples, nil
}

// advance brings a series up to date. It returns nil for a series that is new: as in Managed Prometheus, later points
// start from its first value, since nothing says over which time that grew.
func (c *counters) advance(known map[string]*counter, family string, m *dto.Metric, r reading,
	now time.Time,
) *counter {
	key := family + fmt.Sprint(labels(m)) // fmt sorts the keys of maps
	s := known[key]
	switch {
	case s == nil:
		c.series[key] = &counter{since: now, base: r, last: r}
		return nil
	case r.value < s.last.value: // the target restarted and counts from zero
		s.since, s.base = now.Add(-time.Millisecond), reading{buckets: make([]int64, len(r.buckets))}
	}
	s.last = r
	c.series[key] = s
	return s
}

// distribution returns the values since the series began.
func (c *counter) distribution(bounds []float64) *distribution.Distribution {
	d := &distribution.Distribution{
		Count: int64(c.last.value - c.base.value),
		BucketOptions: &distribution.Distribution_BucketOptions{
			Options: &distribution.Distribution_BucketOptions_ExplicitBuckets{
				ExplicitBuckets: &distribution.Distribution_BucketOptions_Explicit{Bounds: bounds},
			},
		},
	}
	for i, n := range c.last.buckets {
		d.BucketCounts = append(d.BucketCounts, n-c.base.buckets[i])
	}
	return d
}

// buckets returns the upper bounds of a histogram's buckets and the number of values in each, with one more for the
// values above all bounds. Prometheus counts cumulatively.
func buckets(h *dto.Histogram) (bounds []float64, counts []int64) {
	below := uint64(0)
	for _, b := range h.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue
		}
		bounds = append(bounds, b.GetUpperBound())
		counts = append(counts, int64(b.GetCumulativeCount()-below)) //nolint:gosec // a count of requests
		below = b.GetCumulativeCount()
	}
	return bounds, append(counts, int64(h.GetSampleCount()-below)) //nolint:gosec // a count of requests
}

func labels(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}

// scrapeFront returns the memory that the front of a sandboxed agent reports; nothing while it does not answer.
func (t *Telemetry) scrapeFront(ctx context.Context, p observation) []monitoringemu.Sample {
	if p.pod.Status.PodIP == "" {
		return nil
	}
	var families map[string]*dto.MetricFamily
	var err error
	if t.onRealNode(p.pod) {
		families, err = t.scrapePod(ctx, p.pod)
	} else {
		families, err = scrape(ctx, "http://"+net.JoinHostPort(p.pod.Status.PodIP, frontMetricsPort)+"/metrics")
	}
	if err != nil {
		return nil // the pod starts or stops
	}
	var samples []monitoringemu.Sample
	for _, m := range families[memoryFamily].GetMetric() {
		samples = append(samples, t.target(memoryFamily+"/gauge", p.pod.Namespace, p.pod.Name+":"+frontMetricsPort,
			p.now, m.GetGauge().GetValue()))
	}
	return samples
}

// scrapePod reads the metrics of a pod's front by way of the API server, which reaches the networks of all nodes.
func (t *Telemetry) scrapePod(ctx context.Context, pod *corev1.Pod) (map[string]*dto.MetricFamily, error) {
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + ":" + frontMetricsPort + "/proxy/metrics"
	b, err := t.proxied(ctx, path)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(b))
}

// counted returns a point of a counter of the router.
func (t *Telemetry) counted(name string, since, now time.Time, labels map[string]string,
	value any,
) monitoringemu.Sample {
	s := t.target(name, t.options.RouterNamespace, "agent-router:metrics", now, value)
	s.Kind, s.Start, s.MetricLabels = metric.MetricDescriptor_CUMULATIVE, since, labels
	return s
}

// target returns a point as Managed Prometheus writes it.
func (t *Telemetry) target(name, namespace, instance string, now time.Time, value any) monitoringemu.Sample {
	return monitoringemu.Sample{
		Metric: "prometheus.googleapis.com/" + name, Resource: "prometheus_target", End: now, Value: value,
		ResourceLabels: map[string]string{
			"project_id": t.options.Project, "location": t.options.Location, "cluster": t.options.Cluster,
			"namespace": namespace, "job": strings.Split(instance, ":")[0], "instance": instance,
		},
	}
}
