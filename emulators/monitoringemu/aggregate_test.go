package monitoringemu_test

import (
	"math"
	"testing"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"agents.example/controlplane/emulators/monitoringemu"
)

const (
	alignRate       = monitoringpb.Aggregation_ALIGN_RATE
	alignDelta      = monitoringpb.Aggregation_ALIGN_DELTA
	alignMean       = monitoringpb.Aggregation_ALIGN_MEAN
	alignMax        = monitoringpb.Aggregation_ALIGN_MAX
	alignSum        = monitoringpb.Aggregation_ALIGN_SUM
	alignNextOlder  = monitoringpb.Aggregation_ALIGN_NEXT_OLDER
	alignPercentile = monitoringpb.Aggregation_ALIGN_PERCENTILE_95
	reduceNone      = monitoringpb.Aggregation_REDUCE_NONE
	reduceSum       = monitoringpb.Aggregation_REDUCE_SUM
	reduceMean      = monitoringpb.Aggregation_REDUCE_MEAN
	reduceMax       = monitoringpb.Aggregation_REDUCE_MAX
	reduceP95       = monitoringpb.Aggregation_REDUCE_PERCENTILE_95
)

func TestAligners_Values(t *testing.T) {
	t.Parallel()
	long := at(86_400)
	// Two points of a minute each: (120, 60] and (60, 0] seconds before noon.
	levels := []monitoringemu.Sample{
		level("m", "a", at(110), 1.0), level("m", "a", at(60), 3.0),
		level("m", "a", at(30), 10.0), level("m", "a", noon(), 4.0),
	}
	deltas := []monitoringemu.Sample{
		growth("m", "a", at(120), at(90), int64(6)), growth("m", "a", at(90), at(60), int64(9)),
		growth("m", "a", at(60), noon(), int64(60)),
	}
	totals := []monitoringemu.Sample{
		total("m", "a", long, at(120), 1000.0), total("m", "a", long, at(60), 1030.0),
		total("m", "a", long, noon(), 1120.0),
	}
	restarted := []monitoringemu.Sample{
		total("m", "a", long, at(120), int64(50)), total("m", "a", at(100), at(60), int64(4)),
		total("m", "a", at(100), noon(), int64(1)), // decreases without a new start
	}
	young := []monitoringemu.Sample{total("m", "a", at(60), noon(), 12.0)}
	tests := map[string]struct {
		samples []monitoringemu.Sample
		aligner monitoringpb.Aggregation_Aligner
		want    map[int]float64
		kind    metric.MetricDescriptor_MetricKind
	}{
		"mean": {
			samples: levels, aligner: alignMean, want: map[int]float64{60: 2, 0: 7},
			kind: gauge,
		},
		"max": {
			samples: levels, aligner: alignMax, want: map[int]float64{60: 3, 0: 10},
			kind: gauge,
		},
		"sum": {
			samples: levels, aligner: alignSum, want: map[int]float64{60: 4, 0: 14},
			kind: delta,
		},
		"next older": {
			samples: levels, aligner: alignNextOlder, want: map[int]float64{60: 3, 0: 4},
			kind: gauge,
		},
		"mean of deltas": {
			samples: deltas, aligner: alignMean, want: map[int]float64{60: 7.5, 0: 60},
			kind: gauge,
		},
		"delta of deltas": {
			samples: deltas, aligner: alignDelta, want: map[int]float64{60: 15, 0: 60},
			kind: delta,
		},
		"rate of deltas": {
			samples: deltas, aligner: alignRate, want: map[int]float64{60: 0.25, 0: 1},
			kind: gauge,
		},
		"rate of totals": {
			samples: totals, aligner: alignRate, want: map[int]float64{60: 0.5, 0: 1.5},
			kind: gauge,
		},
		"delta of totals": {
			samples: totals, aligner: alignDelta, want: map[int]float64{60: 30, 0: 90},
			kind: delta,
		},
		"delta across a restart": {
			samples: restarted, aligner: alignDelta, want: map[int]float64{60: 4, 0: 1},
			kind: delta,
		},
		"first point of a new total": {samples: young, aligner: alignRate, want: map[int]float64{0: 0.2}, kind: gauge},
	}
	for name, test := range tests {
		f := newFixture(t)
		f.feed(test.samples...)
		r := aligned("m", test.aligner, reduceNone)
		if diff := cmp.Diff(map[string]map[int]float64{"a": test.want}, f.values(r),
			cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		all, err := f.list(r)
		if err != nil {
			t.Fatal(err)
		}
		if all[0].MetricKind != test.kind {
			t.Errorf("%s: MetricKind = %v, want %v", name, all[0].MetricKind, test.kind)
		}
		wantLength := time.Duration(0)
		if test.kind == delta {
			wantLength = time.Minute
		}
		got := all[0].Points[0].Interval
		if length := got.EndTime.AsTime().Sub(got.StartTime.AsTime()); length != wantLength {
			t.Errorf("%s: length of a point = %v, want %v", name, length, wantLength)
		}
	}
}

func TestAligners_RefuseOtherKinds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.feed(
		level("level", "a", noon(), 1.0), growth("flow", "a", at(60), noon(), int64(1)),
		total("total", "a", at(60), noon(), 1.0),
		level("levels", "a", noon(), histogram(1)), growth("flows", "a", at(60), noon(), histogram(1)),
		total("totals", "a", at(60), noon(), histogram(1)),
	)
	accepted := map[monitoringpb.Aggregation_Aligner]string{
		alignRate: "flow total", alignDelta: "flow total flows totals", alignMean: "level flow", alignMax: "level flow",
		alignSum: "level flow levels flows", alignNextOlder: "level levels", alignPercentile: "levels flows",
	}
	for aligner, metrics := range accepted {
		for _, m := range []string{"level", "flow", "total", "levels", "flows", "totals"} {
			want := codes.InvalidArgument
			if contains(metrics, m) {
				want = codes.OK
			}
			_, err := f.list(aligned(m, aligner, reduceNone))
			f.wantCode(aligner.String()+" of "+m, err, want)
		}
	}
}

func TestReducers_Values(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for namespace, values := range map[string][]int64{"a": {1, 5}, "b": {7}} {
		for i, value := range values {
			sample := level(memory, namespace, at(10), value)
			sample.ResourceLabels["container_name"] = string(rune('x' + i))
			sample.MetricLabels = map[string]string{"memory_type": "non-evictable"}
			f.feed(sample)
		}
	}
	f.feed(level(memory, "a", at(70), int64(100)))
	byNamespace := "resource.labels.namespace_name"
	tests := map[string]struct {
		reducer monitoringpb.Aggregation_Reducer
		groupBy []string
		want    map[string]map[int]float64
	}{
		"sum by namespace": {
			reducer: reduceSum, groupBy: []string{byNamespace},
			want: map[string]map[int]float64{"a": {0: 6, 60: 100}, "b": {0: 7}},
		},
		"mean by namespace": {
			reducer: reduceMean, groupBy: []string{byNamespace},
			want: map[string]map[int]float64{"a": {0: 3, 60: 100}, "b": {0: 7}},
		},
		"max by namespace": {
			reducer: reduceMax, groupBy: []string{byNamespace},
			want: map[string]map[int]float64{"a": {0: 5, 60: 100}, "b": {0: 7}},
		},
		"sum of all namespaces": {
			reducer: reduceSum, groupBy: nil,
			want: map[string]map[int]float64{"": {0: 13, 60: 100}},
		},
		"by project": {
			reducer: reduceMax, groupBy: []string{"project", "metric.type", "resource.type"},
			want: map[string]map[int]float64{"": {0: 7, 60: 100}},
		},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want,
			f.values(aligned(memory, alignNextOlder, test.reducer, test.groupBy...))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	all, err := f.list(aligned(memory, alignNextOlder, reduceSum, byNamespace, "metric.labels.memory_type"))
	if err != nil || len(all) != 3 {
		t.Fatalf("sum by namespace and memory type = %d series, %v; want 3", len(all), err)
	}
	last := all[len(all)-1]
	if diff := cmp.Diff(map[string]string{"project_id": project, "namespace_name": "b"},
		last.Resource.Labels); diff != "" {
		t.Errorf("resource labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"memory_type": "non-evictable"}, last.Metric.Labels); diff != "" {
		t.Errorf("metric labels (-want +got):\n%s", diff)
	}
	if last.Metric.Type != memory {
		t.Errorf("metric type = %q, want %q", last.Metric.Type, memory)
	}
	if last.Resource.Type != "k8s_container" {
		t.Errorf("resource type = %q, want k8s_container", last.Resource.Type)
	}
	if last.ValueType != metric.MetricDescriptor_INT64 {
		t.Errorf("ValueType of a sum of integers = %v, want INT64", last.ValueType)
	}
}

func TestPercentiles_Interpolate(t *testing.T) {
	t.Parallel()
	long := at(86_400)
	linear := &distribution.Distribution{
		Count: 100, BucketCounts: []int64{0, 50, 50},
		BucketOptions: &distribution.Distribution_BucketOptions{
			Options: &distribution.Distribution_BucketOptions_LinearBuckets{
				LinearBuckets: &distribution.Distribution_BucketOptions_Linear{
					NumFiniteBuckets: 2, Width: 10,
					Offset: 5,
				},
			},
		},
	}
	exponential := &distribution.Distribution{
		Count: 10, BucketCounts: []int64{0, 0, 10},
		BucketOptions: &distribution.Distribution_BucketOptions{
			Options: &distribution.Distribution_BucketOptions_ExponentialBuckets{
				ExponentialBuckets: &distribution.Distribution_BucketOptions_Exponential{
					NumFiniteBuckets: 3,
					GrowthFactor:     2, Scale: 1,
				},
			},
		},
	}
	tests := map[string]struct {
		samples []monitoringemu.Sample
		aligner monitoringpb.Aggregation_Aligner
		reducer monitoringpb.Aggregation_Reducer
		want    float64
	}{
		"within a bucket": {samples: []monitoringemu.Sample{growth(latency, "a", at(60), noon(),
			histogram(0, 90, 10))}, aligner: alignPercentile, reducer: reduceNone, want: 0.3},
		"in the first bucket": {
			samples: []monitoringemu.Sample{growth(latency, "a", at(60), noon(), histogram(100))},
			aligner: alignPercentile, reducer: reduceNone, want: 0.095,
		},
		"above the last bound": {samples: []monitoringemu.Sample{growth(latency, "a", at(60), noon(),
			histogram(0, 0, 0, 5))}, aligner: alignPercentile, reducer: reduceNone, want: 0.4},
		"empty distribution": {
			samples: []monitoringemu.Sample{growth(latency, "a", at(60), noon(), histogram())},
			aligner: alignPercentile, reducer: reduceNone, want: 0,
		},
		"linear buckets": {
			samples: []monitoringemu.Sample{level(latency, "a", noon(), linear)},
			aligner: alignPercentile, reducer: reduceNone, want: 24,
		},
		"exponential buckets": {
			samples: []monitoringemu.Sample{level(latency, "a", noon(), exponential)},
			aligner: alignPercentile, reducer: reduceNone, want: 3.9,
		},
		"two points in one period": {samples: []monitoringemu.Sample{
			growth(latency, "a", at(60), at(30), histogram(0, 90)),
			growth(latency, "a", at(30), noon(), histogram(0, 0, 10)),
		}, aligner: alignPercentile, reducer: reduceNone, want: 0.3},
		"growth of totals across two containers": {samples: []monitoringemu.Sample{
			total(latency, "a", long, at(60), histogram(1000)), total(latency, "a", long, noon(), histogram(1000, 90)),
			containerTotal("other", latency, long, at(60), histogram(0, 0, 0, 7)),
			containerTotal("other", latency, long, noon(), histogram(0, 0, 10, 7)),
		}, aligner: alignDelta, reducer: reduceP95, want: 0.3},
	}
	for name, test := range tests {
		f := newFixture(t)
		f.feed(test.samples...)
		got := f.values(aligned(latency, test.aligner, test.reducer, "resource.labels.namespace_name"))["a"]
		if value, ok := got[0]; !ok || math.Abs(value-test.want) > 1e-9 {
			t.Errorf("%s: percentile = %v, want %v", name, got, test.want)
		}
	}
}

// containerTotal returns a point of a CUMULATIVE metric of another container in namespace a.
func containerTotal(name, metricType string, start, end time.Time, value any) monitoringemu.Sample {
	sample := total(metricType, "a", start, end, value)
	sample.ResourceLabels["container_name"] = name
	return sample
}

func TestListTimeSeries_RefusesIncompatibleSeries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := histogram(1)
	other.BucketOptions.GetExplicitBuckets().Bounds = []float64{1, 2, 3}
	f.feed(
		growth("buckets", "a", at(60), at(30), histogram(1)), growth("buckets", "a", at(30), noon(), other),
		level("types", "a", noon(), int64(1)), level("types", "b", noon(), 1.5),
		level("level", "a", noon(), 1.5), level("levels", "a", noon(), histogram(1)),
	)
	for name, r := range map[string]*monitoringpb.ListTimeSeriesRequest{
		"different buckets":        aligned("buckets", alignDelta, reduceNone),
		"different value types":    aligned("types", alignNextOlder, reduceSum),
		"percentile of numbers":    aligned("level", alignNextOlder, reduceP95),
		"maximum of distributions": aligned("levels", alignNextOlder, reduceMax),
	} {
		_, err := f.list(r)
		f.wantCode(name, err, codes.InvalidArgument)
	}
	if got := f.values(aligned("levels", alignNextOlder, reduceMean,
		"resource.labels.namespace_name")); got["a"][0] != 0 {
		t.Errorf("mean of distributions = %v, want 0", got)
	}
}

func TestAligners_PeriodsEndWithTheInterval(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 20 {
		f.feed(level(cpu, "a", at(60*i), float64(i)))
	}
	r := aligned(cpu, alignMax, reduceNone)
	r.Aggregation.AlignmentPeriod = durationpb.New(4 * time.Minute)
	// Ten minutes contain two and a half periods; the third starts before the interval.
	if diff := cmp.Diff(map[string]map[int]float64{"a": {0: 3, 240: 7, 480: 11}}, f.values(r)); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}
