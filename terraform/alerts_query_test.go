package terraform_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/zclconf/go-cty/cty"
)

// An alertCase holds the series with which an alert is true, and those with which it is not, by a name of the case.
// A series is written as promtool's tests write it, with a value for each minute: "name{label="value"} 0+60x30".
type alertCase struct{ firing, quiet map[string][]string }

// alertModule is the module whose alerts are evaluated. It has two cells.
func alertModule(t *testing.T) *module {
	t.Helper()
	return load(t, map[string]cty.Value{"cells": cells("a1", "b1")})
}

// TestMetricAlerts_FireAndStayQuiet evaluates the query of every alert as Prometheus does.
func TestMetricAlerts_FireAndStayQuiet(t *testing.T) {
	t.Parallel()
	m := alertModule(t)
	cases := agentAlertCases()
	for name, c := range serviceAlertCases() {
		cases[name] = c
	}
	for name := range m.local(t, "silent_alerts").AsValueMap() {
		cases[name] = silentAlertCase(text(t, m.local(t, "silent_alerts"), name+".query"))
	}
	for name, alert := range m.local(t, "metric_alerts").AsValueMap() {
		c, ok := cases[name]
		if !ok || len(c.firing) == 0 || len(c.quiet) == 0 {
			t.Errorf("the alert %s has no series with which it fires, or none with which it does not: add a case", name)
		}
		delete(cases, name)
		query, lasts := text(t, alert, "query"), duration(t, text(t, alert, "for"))
		for what, series := range c.firing {
			if got := fires(t, query, lasts, series); !got {
				t.Errorf("%s does not fire: %s\n%s", name, what, query)
			}
		}
		for what, series := range c.quiet {
			if got := fires(t, query, lasts, series); got {
				t.Errorf("%s fires: %s\n%s", name, what, query)
			}
		}
	}
	for name := range cases {
		t.Errorf("there are cases for the alert %s, which does not exist", name)
	}
}

// TestMetricAlerts_FireWithoutDataOnlyAboutSilence holds which alerts the absence of all series raises. A new
// deployment has no series of most metrics, and a log-based counter exists only after its first line.
func TestMetricAlerts_FireWithoutDataOnlyAboutSilence(t *testing.T) {
	t.Parallel()
	m := alertModule(t)
	for name, alert := range m.local(t, "metric_alerts").AsValueMap() {
		want := name == "router" || strings.HasPrefix(name, "silent ")
		if got := fires(t, text(t, alert, "query"), time.Minute, nil); got != want {
			t.Errorf("without data the alert %s fires: %t, want %t", name, got, want)
		}
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fires reports whether a query has a result at every minute of a duration that ends with the series.
func fires(t *testing.T, query string, lasts time.Duration, descriptions []string) bool {
	t.Helper()
	stored, end := &recorded{}, lasts
	for _, description := range descriptions {
		series, length := parseSeries(t, description)
		stored.series, end = append(stored.series, series), max(end, length)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	for at := end - lasts; at <= end; at += time.Minute {
		q, err := engine.NewInstantQuery(t.Context(), stored, nil, query, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		result := q.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		empty := len(vector) == 0
		q.Close()
		if empty {
			return false
		}
	}
	return true
}

// parseSeries returns a series with a sample each minute, and the time of its last one.
func parseSeries(t *testing.T, description string) (storage.Series, time.Duration) {
	t.Helper()
	lset, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(description)
	if err != nil {
		t.Fatalf("%s: %v", description, err)
	}
	var points []promql.FPoint
	for i, v := range values {
		if !v.Omitted {
			points = append(points, promql.FPoint{T: int64(i) * time.Minute.Milliseconds(), F: v.Value})
		}
	}
	series := promql.Series{Metric: lset, Floats: points}
	return promql.NewStorageSeries(series), time.Duration(len(values)-1) * time.Minute
}

// recorded is a store of series. It implements storage.Queryable and storage.Querier.
type recorded struct {
	series []storage.Series
	at     int
}

func (r *recorded) Querier(_, _ int64) (storage.Querier, error) { return r, nil }

func (r *recorded) Close() error { return nil }

func (r *recorded) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) (
	[]string, annotations.Annotations, error,
) {
	return nil, nil, nil // queries do not ask for it
}

func (r *recorded) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) (
	[]string, annotations.Annotations, error,
) {
	return nil, nil, nil // queries do not ask for it
}

func (r *recorded) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
) storage.SeriesSet {
	found := &recorded{at: -1}
	for _, s := range r.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			found.series = append(found.series, s)
		}
	}
	return seriesSet{found}
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct{ *recorded }

func (s seriesSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s seriesSet) At() storage.Series                { return s.series[s.at] }
func (s seriesSet) Err() error                        { return nil }
func (s seriesSet) Warnings() annotations.Annotations { return nil }

// each repeats a series for the numbers from 1 to n, which replace %d in it.
func each(n int, series string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(series, i+1)
	}
	return all
}
