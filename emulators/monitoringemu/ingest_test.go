package monitoringemu_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/emulators/rpc"
)

// contains reports whether words, separated by spaces, include word.
func contains(words, word string) bool {
	for f := range strings.FieldsSeq(words) {
		if f == word {
			return true
		}
	}
	return false
}

func written(end time.Time, value *monitoringpb.TypedValue) *monitoringpb.TimeSeries {
	return &monitoringpb.TimeSeries{
		Metric: &metric.Metric{Type: "custom.googleapis.com/m"},
		Resource: &monitoredres.MonitoredResource{
			Type:   "k8s_container",
			Labels: map[string]string{"namespace_name": "a"},
		},
		Points: []*monitoringpb.Point{{
			Interval: &monitoringpb.TimeInterval{EndTime: timestamppb.New(end)},
			Value:    value,
		}},
	}
}

func integer(n int64) *monitoringpb.TypedValue {
	return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_Int64Value{Int64Value: n}}
}

func TestCreateTimeSeries_Validates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(series ...*monitoringpb.TimeSeries) error {
		return f.client.CreateTimeSeries(t.Context(),
			&monitoringpb.CreateTimeSeriesRequest{Name: "projects/" + project, TimeSeries: series})
	}
	f.wantCode("the first point", create(written(at(60), integer(1))), codes.OK)
	f.wantCode("the next point", create(written(noon(), integer(2))), codes.OK)
	f.wantCode("the same time", create(written(noon(), integer(3))), codes.InvalidArgument)
	f.wantCode("an older point", create(written(at(30), integer(3))), codes.InvalidArgument)
	f.wantCode("another type", create(written(noon().Add(time.Minute), &monitoringpb.TypedValue{
		Value: &monitoringpb.TypedValue_DoubleValue{DoubleValue: 1},
	})), codes.InvalidArgument)
	f.wantCode("a boolean value", create(written(noon().Add(time.Minute), &monitoringpb.TypedValue{
		Value: &monitoringpb.TypedValue_BoolValue{BoolValue: true},
	})), codes.InvalidArgument)
	f.wantCode("no series", create(), codes.InvalidArgument)
	f.wantCode("too many series", create(make([]*monitoringpb.TimeSeries, 201)...), codes.InvalidArgument)
	f.wantCode("two points", create(&monitoringpb.TimeSeries{Points: make([]*monitoringpb.Point, 2)}),
		codes.InvalidArgument)
	f.wantCode("no metric", create(&monitoringpb.TimeSeries{Points: written(noon(), integer(1)).Points}),
		codes.InvalidArgument)
	err := f.client.CreateTimeSeries(t.Context(),
		&monitoringpb.CreateTimeSeriesRequest{
			Name:       "x",
			TimeSeries: []*monitoringpb.TimeSeries{written(noon(), integer(1))},
		})
	f.wantCode("no project", err, codes.InvalidArgument)
	got := f.values(request(`metric.type = "custom.googleapis.com/m"`))
	if diff := cmp.Diff(map[string]map[int]float64{"a": {0: 2, 60: 1}}, got); diff != "" {
		t.Errorf("stored points (-want +got):\n%s", diff)
	}
}

func TestFeed_RefusesInvalidSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.feed(level("m", "a", noon(), int64(1)))
	miscounted := histogram(1, 2)
	miscounted.Count = 4
	lasting := level("n", "a", noon(), 1.0)
	lasting.Start = at(60)
	none := histogram()
	none.BucketOptions = nil
	tests := map[string]monitoringemu.Sample{
		"no metric":                          level("", "a", noon(), 1.0),
		"no resource":                        {Metric: "m", End: noon(), Value: 1.0},
		"no end":                             level("n", "a", time.Time{}, 1.0),
		"a gauge with a start":               lasting,
		"a total without a start":            total("n", "a", time.Time{}, noon(), 1.0),
		"a delta that ends before its start": growth("n", "a", noon(), at(60), 1.0),
		"a string value":                     level("n", "a", noon(), "x"),
		"an int value":                       level("n", "a", noon(), 1),
		"another kind":                       growth("m", "a", at(60), noon(), int64(1)),
		"another type":                       level("m", "a", noon(), 1.0),
		"bucket counts that do not add up":   level("n", "a", noon(), miscounted),
		"no buckets":                         level("n", "a", noon(), none),
		"more counts than buckets":           level("n", "a", noon(), histogram(1, 1, 1, 1, 1)),
	}
	for name, sample := range tests {
		if err := f.server.Feed(project, sample); err == nil {
			t.Errorf("Feed(%s) succeeded, want an error", name)
		}
	}
}

func TestFeed_DropsOldPoints(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.feed(level("m", "a", noon().Add(-49*time.Hour), int64(1)), level("m", "a", at(60), int64(2)))
	r := request(`metric.type = "m"`)
	r.Interval.StartTime = timestamppb.New(noon().Add(-100 * time.Hour))
	if diff := cmp.Diff(map[string]map[int]float64{"a": {60: 2}}, f.values(r)); diff != "" {
		t.Errorf("stored points (-want +got):\n%s", diff)
	}
}

func TestInject_ReceivesMethodAndProject(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := make(chan string, 1)
	f.server.Inject(func(method, resource string) rpc.Fault {
		seen <- method + " " + resource
		return rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")}
	})
	_, err := f.list(request(`metric.type = "m"`))
	f.wantCode("list", err, codes.PermissionDenied)
	if got, want := <-seen, "ListTimeSeries projects/"+project; got != want {
		t.Errorf("hook received %q, want %q", got, want)
	}
}
