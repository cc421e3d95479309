package monitoringemu_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
