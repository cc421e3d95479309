package monitoringemu_test

import (
	"errors"
	"testing"
	"time"

	client "cloud.google.com/go/monitoring/apiv3/v2"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"go.uber.org/goleak"
	"google.golang.org/api/iterator"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/monitoringemu"
)

const (
	project    = "control-plane-dev"
	cpu        = "kubernetes.io/container/cpu/core_usage_time"
	memory     = "kubernetes.io/container/memory/used_bytes"
	restarts   = "kubernetes.io/container/restart_count"
	latency    = "prometheus.googleapis.com/http_request_duration_seconds/histogram"
	gauge      = metric.MetricDescriptor_GAUGE
	delta      = metric.MetricDescriptor_DELTA
	cumulative = metric.MetricDescriptor_CUMULATIVE
)

// noon is the end of all intervals in these tests.
func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// at returns the time that many seconds before noon.
func at(seconds int) time.Time { return noon().Add(-time.Duration(seconds) * time.Second) }

func TestMain(m *testing.M) {
	// A library of the client starts this goroutine in an init function and never stops it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// monitoringFixture is an empty server with the real client.
type monitoringFixture struct {
	*testing.T
	client *client.MetricClient
	server *monitoringemu.Server
}

func newFixture(t *testing.T) monitoringFixture {
	t.Helper()
	server, err := monitoringemu.Start(t.Context(), monitoringemu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewMetricClient(t.Context(), server.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), server.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return monitoringFixture{T: t, client: c, server: server}
}

// level returns a point of a GAUGE metric of a container.
func level(metricType, namespace string, end time.Time, value any) monitoringemu.Sample {
	return monitoringemu.Sample{
		Metric: metricType, Resource: "k8s_container", End: end, Value: value,
		ResourceLabels: map[string]string{
			"project_id": project, "cluster_name": "cell-1", "namespace_name": namespace,
			"container_name": "agent",
		},
	}
}

// growth returns a point of a DELTA metric.
func growth(metricType, namespace string, start, end time.Time, value any) monitoringemu.Sample {
	sample := level(metricType, namespace, end, value)
	sample.Kind, sample.Start = delta, start
	return sample
}

// total returns a point of a CUMULATIVE metric.
func total(metricType, namespace string, start, end time.Time, value any) monitoringemu.Sample {
	sample := growth(metricType, namespace, start, end, value)
	sample.Kind = cumulative
	return sample
}

func (f monitoringFixture) feed(samples ...monitoringemu.Sample) {
	f.Helper()
	if err := f.server.Feed(project, samples...); err != nil {
		f.Fatal(err)
	}
}

// request lists the ten minutes before noon.
func request(filter string) *monitoringpb.ListTimeSeriesRequest {
	return &monitoringpb.ListTimeSeriesRequest{
		Name: "projects/" + project, Filter: filter,
		Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(at(600)), EndTime: timestamppb.New(noon())},
	}
}

// aligned lists a metric in periods of one minute.
func aligned(metricType string, aligner monitoringpb.Aggregation_Aligner, reducer monitoringpb.Aggregation_Reducer,
	groupBy ...string,
) *monitoringpb.ListTimeSeriesRequest {
	r := request(`metric.type = "` + metricType + `"`)
	r.Aggregation = &monitoringpb.Aggregation{
		AlignmentPeriod: durationpb.New(time.Minute), PerSeriesAligner: aligner, CrossSeriesReducer: reducer,
		GroupByFields: groupBy,
	}
	return r
}

// list returns all pages.
func (f monitoringFixture) list(r *monitoringpb.ListTimeSeriesRequest) ([]*monitoringpb.TimeSeries, error) {
	var all []*monitoringpb.TimeSeries
	it := f.client.ListTimeSeries(f.Context(), r)
	for {
		s, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
}

// values returns the points of a request by namespace; the inner keys are seconds before noon.
func (f monitoringFixture) values(r *monitoringpb.ListTimeSeriesRequest) map[string]map[int]float64 {
	f.Helper()
	all, err := f.list(r)
	if err != nil {
		f.Fatal(err)
	}
	result := map[string]map[int]float64{}
	for _, s := range all {
		namespace := s.Resource.Labels["namespace_name"]
		if result[namespace] == nil {
			result[namespace] = map[int]float64{}
		}
		for _, p := range s.Points {
			number := p.Value.GetDoubleValue()
			if s.ValueType == metric.MetricDescriptor_INT64 {
				number = float64(p.Value.GetInt64Value())
			}
			result[namespace][int(noon().Sub(p.Interval.EndTime.AsTime()).Seconds())] = number
		}
	}
	return result
}

// wantCode checks the code of an error.
func (f monitoringFixture) wantCode(what string, err error, code codes.Code) {
	f.Helper()
	if status.Code(err) != code {
		f.Errorf("%s: error = %v, want %v", what, err, code)
	}
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
