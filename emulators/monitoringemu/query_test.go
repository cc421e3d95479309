package monitoringemu_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/monitoringemu"
)

func TestListTimeSeries_Filters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, namespace := range []string{"agent-a", "agent-b", "system"} {
		for _, kind := range []string{"evictable", "non-evictable"} {
			sample := level(memory, namespace, noon(), int64(1))
			sample.MetricLabels = map[string]string{"memory_type": kind}
			f.feed(sample)
		}
	}
	f.feed(level(restarts, "agent-a", noon(), int64(1)))
	base := `metric.type = "` + memory + `"`
	tests := map[string]struct {
		filter string
		want   string // namespaces, with the first letter of the memory type
	}{
		"a metric type": {filter: base, want: "agent-a/e agent-a/n agent-b/e agent-b/n system/e system/n"},
		"single quotes, no spaces": {
			filter: `metric.type='` + memory + `'`,
			want:   "agent-a/e agent-a/n agent-b/e agent-b/n system/e system/n",
		},
		"a metric label": {
			filter: base + ` AND metric.labels.memory_type = "non-evictable"`,
			want:   "agent-a/n agent-b/n system/n",
		},
		"a resource label": {
			filter: base + ` AND resource.labels.namespace_name = "agent-b"`,
			want:   "agent-b/e agent-b/n",
		},
		"the old spelling": {filter: base +
			` AND resource.label.namespace_name="agent-b" AND metric.label.memory_type="evictable"`, want: "agent-b/e"},
		"without AND": {
			filter: base + ` resource.labels.namespace_name = "agent-b"`,
			want:   "agent-b/e agent-b/n",
		},
		"a resource type": {filter: `resource.type = k8s_container AND ` + base +
			` AND metric.labels.memory_type=evictable`, want: "agent-a/e agent-b/e system/e"},
		"another resource type": {filter: base + ` AND resource.type = "k8s_pod"`, want: ""},
		"starts_with": {
			filter: base + ` AND resource.labels.namespace_name = starts_with("agent-")`,
			want:   "agent-a/e agent-a/n agent-b/e agent-b/n",
		},
		"ends_with": {
			filter: base + ` AND resource.labels.namespace_name = ends_with("-a")`,
			want:   "agent-a/e agent-a/n",
		},
		"has_substring": {
			filter: base + ` AND resource.labels.namespace_name = has_substring("yst")`,
			want:   "system/e system/n",
		},
		"a regular expression matches all of the value": {
			filter: base + ` AND metric.labels.memory_type != "evictable" AND ` +
				`resource.labels.namespace_name = monitoring.regex.full_match("(agent-[a])|yste(m)?")`, want: "agent-a/n",
		},
		"one_of": {filter: base +
			` AND resource.labels.namespace_name = one_of("agent-a", "system") AND metric.labels.memory_type != "evictable"`, want: "agent-a/n system/n"},
		"not one of": {
			filter: base + ` AND resource.labels.namespace_name != one_of("agent-a","system")`,
			want:   "agent-b/e agent-b/n",
		},
		"an escaped quote": {filter: base + ` AND resource.labels.namespace_name = "agent\"b"`, want: ""},
		"the project": {filter: base + ` AND project = "` + project +
			`" AND resource.labels.cluster_name = "cell-2"`, want: ""},
	}
	for name, test := range tests {
		all, err := f.list(request(test.filter))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range all {
			got = append(got, s.Resource.Labels["namespace_name"]+"/"+s.Metric.Labels["memory_type"][:1])
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: series = %s, want %s", name, got, test.want)
		}
	}
	bad := map[string]codes.Code{
		"":                                    codes.Unimplemented,
		`resource.type = "k8s_container"`:     codes.InvalidArgument,
		base + ` AND ` + base:                 codes.InvalidArgument,
		`metric.type = starts_with("kube")`:   codes.InvalidArgument,
		`metric.type != "a"`:                  codes.InvalidArgument,
		base + ` OR resource.type = "a"`:      codes.Unimplemented,
		`NOT ` + base:                         codes.Unimplemented,
		`(` + base + `)`:                      codes.Unimplemented,
		base + ` AND metric.labels.x > 5`:     codes.Unimplemented,
		base + ` AND metadata.x = "y"`:        codes.Unimplemented,
		base + ` AND metric.labels.x = f("")`: codes.Unimplemented,
		base + ` AND metric.labels.x = starts_with("a", "b")`: codes.InvalidArgument,
		base + ` AND metric.labels.x = one_of()`:              codes.InvalidArgument,
	}
	for filter, code := range bad {
		_, err := f.list(request(filter))
		f.wantCode("filter "+filter, err, code)
	}
}

func TestListTimeSeries_IntervalAndOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, seconds := range []int{0, 300, 60, 601, 600, 599} { // out of order
		f.feed(level(memory, "a", at(seconds), int64(seconds)))
	}
	f.feed(level(memory, "a", at(300), int64(1300))) // replaces the first one
	r := request(`metric.type = "` + memory + `"`)
	if diff := cmp.Diff(map[string]map[int]float64{"a": {0: 0, 60: 60, 300: 1300, 599: 599}}, f.values(r)); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	all, err := f.list(r)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(all[0].Points, func(a, b *monitoringpb.Point) int {
		return b.Interval.EndTime.AsTime().Compare(a.Interval.EndTime.AsTime())
	}) {
		t.Error("points are not sorted newest first")
	}
	r.Interval.StartTime = nil
	if diff := cmp.Diff(map[string]map[int]float64{"a": {0: 0}}, f.values(r)); diff != "" {
		t.Errorf("without a start (-want +got):\n%s", diff)
	}
	r.Name = "projects/another"
	if diff := cmp.Diff(map[string]map[int]float64{}, f.values(r)); diff != "" {
		t.Errorf("another project (-want +got):\n%s", diff)
	}
}

func TestListTimeSeries_Pages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	namespaces := []string{"a", "b", "c"}
	for n, namespace := range namespaces {
		for i := range 2 + n { // 2, 3 and 4 points
			f.feed(level(memory, namespace, at(60*i), int64(i)))
		}
	}
	for _, size := range []int32{0, 1, 2, 4, 9, 200_000} {
		r := request(`metric.type = "` + memory + `"`)
		var got []string
		pages := 0
		for {
			r.PageSize = size
			it := f.client.ListTimeSeries(t.Context(), r)
			if _, err := it.Next(); err != nil {
				t.Fatal(err)
			}
			pages++
			points := 0
			response := it.Response.(*monitoringpb.ListTimeSeriesResponse)
			for _, s := range response.TimeSeries {
				points += len(s.Points)
				for _, p := range s.Points {
					got = append(got, s.Resource.Labels["namespace_name"]+string(rune('0'+p.Value.GetInt64Value())))
				}
			}
			if size > 0 && points > int(size) {
				t.Errorf("page of size %d has %d points", size, points)
			}
			if r.PageToken = response.NextPageToken; r.PageToken == "" {
				break
			}
		}
		if want := "a0 a1 b0 b1 b2 c0 c1 c2 c3"; strings.Join(got, " ") != want {
			t.Errorf("pages of size %d = %v, want %s", size, got, want)
		}
		if want := 1 + 8/max(int(size), 1); size > 0 && pages != want {
			t.Errorf("number of pages of size %d = %d, want %d", size, pages, want)
		}
	}
	r := request(`metric.type = "` + memory + `"`)
	r.View, r.PageSize = monitoringpb.ListTimeSeriesRequest_HEADERS, 2
	all, err := f.list(r)
	if err != nil || len(all) != 3 || len(all[0].Points) != 0 {
		t.Errorf("headers view = %v, %v; want 3 series without points", all, err)
	}
}

func TestListTimeSeries_RefusesBadRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tests := map[string]struct {
		change func(*monitoringpb.ListTimeSeriesRequest)
		want   codes.Code
	}{
		"not a project": {
			change: func(r *monitoringpb.ListTimeSeriesRequest) { r.Name = "folders/1" },
			want:   codes.InvalidArgument,
		},
		"no end of the interval": {
			change: func(r *monitoringpb.ListTimeSeriesRequest) { r.Interval.EndTime = nil },
			want:   codes.InvalidArgument,
		},
		"interval ends before it starts": {change: func(r *monitoringpb.ListTimeSeriesRequest) { r.Interval.EndTime = timestamppb.New(at(900)) }, want: codes.InvalidArgument},
		"a bad token": {
			change: func(r *monitoringpb.ListTimeSeriesRequest) { r.PageToken = "?" },
			want:   codes.InvalidArgument,
		},
		"a short period": {change: func(r *monitoringpb.ListTimeSeriesRequest) {
			r.Aggregation.AlignmentPeriod = durationpb.New(59 * time.Second)
		}, want: codes.InvalidArgument},
		"too many periods": {change: func(r *monitoringpb.ListTimeSeriesRequest) { r.Interval.StartTime = timestamppb.New(at(60 * 100_001)) }, want: codes.InvalidArgument},
		"a reducer without an aligner": {change: func(r *monitoringpb.ListTimeSeriesRequest) {
			r.Aggregation = &monitoringpb.Aggregation{CrossSeriesReducer: monitoringpb.Aggregation_REDUCE_SUM}
		}, want: codes.InvalidArgument},
		"an unknown group field": {change: func(r *monitoringpb.ListTimeSeriesRequest) { r.Aggregation.GroupByFields = []string{"namespace_name"} }, want: codes.InvalidArgument},
		"an unimplemented aligner": {change: func(r *monitoringpb.ListTimeSeriesRequest) {
			r.Aggregation.PerSeriesAligner = monitoringpb.Aggregation_ALIGN_STDDEV
		}, want: codes.Unimplemented},
		"an unimplemented reducer": {change: func(r *monitoringpb.ListTimeSeriesRequest) {
			r.Aggregation.CrossSeriesReducer = monitoringpb.Aggregation_REDUCE_STDDEV
		}, want: codes.Unimplemented},
		"a second aggregation": {change: func(r *monitoringpb.ListTimeSeriesRequest) { r.SecondaryAggregation = &monitoringpb.Aggregation{} }, want: codes.Unimplemented},
		"an order": {
			change: func(r *monitoringpb.ListTimeSeriesRequest) { r.OrderBy = "x" },
			want:   codes.Unimplemented,
		},
		"a valid request": {change: func(*monitoringpb.ListTimeSeriesRequest) {}, want: codes.OK},
	}
	for name, test := range tests {
		r := aligned(cpu, monitoringpb.Aggregation_ALIGN_RATE, monitoringpb.Aggregation_REDUCE_SUM)
		test.change(r)
		_, err := f.list(r)
		f.wantCode(name, err, test.want)
	}
	_, err := f.client.ListMetricDescriptors(t.Context(),
		&monitoringpb.ListMetricDescriptorsRequest{Name: "projects/" + project}).Next()
	f.wantCode("an unimplemented method", err, codes.Unimplemented)
	if err == nil || !strings.Contains(err.Error(), "ListMetricDescriptors") {
		t.Errorf("error = %v, want one that names the method", err)
	}
	if got := f.server.Calls()["ListTimeSeries"]; got != len(tests) {
		t.Errorf("counted calls = %d, want %d", got, len(tests))
	}
}

func TestStart_FailsIfTheAddressIsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := monitoringemu.Start(t.Context(), monitoringemu.Options{Address: f.server.Addr}); err == nil {
		t.Error("Start on an address in use succeeded, want an error")
	}
}
