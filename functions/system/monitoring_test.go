package system_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// scraped returns the series of an agent that has every figure, by their names, with the names of their labels.
func scraped(t *testing.T) map[string][]string {
	t.Helper()
	v, _ := metrics.OrganizationView{}.Example().(metrics.OrganizationView)
	series := map[string][]string{}
	for _, f := range v.Formats() {
		for line := range strings.Lines(string(f.Encode())) {
			name, labels, ok := strings.Cut(line, "{")
			if strings.HasPrefix(line, "#") || !ok {
				continue
			}
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(labels, -1) {
				series[name] = append(series[name], l[1])
			}
		}
	}
	if len(series) < 10 {
		t.Fatalf("the example has the series %v only", series)
	}
	return series
}

// checkExpression checks that an expression can be read, and that every series and label in it exists.
func checkExpression(t *testing.T, expression string, series map[string][]string) (names int) {
	t.Helper()
	expression = strings.ReplaceAll(expression, "$agent", ".*")
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return 0
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names++
		labels, known := series[selector.Name]
		if !known {
			t.Errorf("%s: no agent has the series %s", expression, selector.Name)
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
				t.Errorf("%s: %s has no label %s", expression, selector.Name, m.Name)
			}
			if m.Name == "status" && !slices.Contains(agent.Status("").Values(), m.Value) {
				t.Errorf("%s: there is no status %s", expression, m.Value)
			}
		}
		return nil
	})
	return names
}

// file gets a file of the service as users do.
func file(t *testing.T, name, contentType string) []byte {
	t.Helper()
	w := get(serve(t), "/docs/"+name)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != contentType {
		t.Fatalf("%s: status %d, type %s; want 200 and %s", name, w.Code, w.Header().Get("Content-Type"), contentType)
	}
	return w.Body.Bytes()
}

func TestMonitoring_DashboardShowsSeriesThatExist(t *testing.T) {
	t.Parallel()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(file(t, "grafana-dashboard.json", "application/json"), &d); err != nil {
		t.Fatal(err)
	}
	series, names := scraped(t), 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			names += checkExpression(t, target.Expr, series)
		}
	}
	if len(d.Panels) < 10 || names < 20 {
		t.Errorf("the dashboard has %d panels with %d series", len(d.Panels), names)
	}
}

// A rule is one of the published alerts.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func publishedRules(t *testing.T) (all []rule) {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(file(t, "prometheus-alerts.yaml", "application/yaml"), &f); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestMonitoring_AlertsWatchSeriesThatExist(t *testing.T) {
	t.Parallel()
	series, rules := scraped(t), publishedRules(t)
	for _, r := range rules {
		checkExpression(t, r.Expr, series)
		_, err := time.ParseDuration(r.For)
		if err != nil || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s has no duration, severity or summary (%v)", r.Alert, err)
		}
	}
	if len(rules) < 5 {
		t.Errorf("there are %d alerts", len(rules))
	}
}

// TestMonitoring_StaleMetricsOfRunningAgentsAlert evaluates the rule with a scrape. No metrics of an agent are due that
// has been in error for a day, and the alert about its error says enough.
func TestMonitoring_StaleMetricsOfRunningAgentsAlert(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, row := range map[string]struct {
		status    agent.Status
		collected time.Duration
		want      int
	}{
		"runs, and an hour old":      {status: agent.Running, collected: time.Hour, want: 1},
		"runs, and a minute old":     {status: agent.Running, collected: time.Minute},
		"in error, and two days old": {status: agent.Error, collected: 48 * time.Hour},
	} {
		c := metrics.Current{Agent: agent.Agent{ID: "a", Name: "Ada", Status: row.status}}
		c.Snapshot.CollectedAt = now.Add(-row.collected)
		scrape := metrics.ShowAll([]metrics.Current{c}, now).Formats()[0].Encode()
		for _, r := range publishedRules(t) {
			if r.Alert != "AgentMetricsAreStale" {
				continue
			}
			if got := evaluate(t, r.Expr, scrape, now); len(got) != row.want {
				t.Errorf("%s: the alert is true of %v, want %d agents\n%s", name, got, row.want, scrape)
			}
		}
	}
}

// evaluate returns the results of an expression at the time of a scrape.
func evaluate(t *testing.T, expression string, scrape []byte, at time.Time) promql.Vector {
	t.Helper()
	var all []storage.Series
	for line := range strings.Lines(string(scrape)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		lset, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		points := []promql.FPoint{{T: at.UnixMilli(), F: values[0].Value}}
		all = append(all, promql.NewStorageSeries(promql.Series{Metric: lset, Floats: points}))
	}
	stored := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &seriesSet{at: -1, found: slices.DeleteFunc(slices.Clone(all), func(s storage.Series) bool {
				return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
					return !m.Matches(s.Labels().Get(m.Name))
				})
			})}
		},
	}}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e4, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})
	q, err := engine.NewInstantQuery(t.Context(), stored, nil, expression, at)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return vector
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	found []storage.Series
	at    int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.found) }
func (s *seriesSet) At() storage.Series                { return s.found[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

func TestMonitoring_ScrapeConfigurationNamesTheRoute(t *testing.T) {
	t.Parallel()
	var c struct {
		Scrape []struct {
			Path string `json:"metrics_path"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(file(t, "prometheus-scrape.yaml", "application/yaml"), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Scrape) != 1 || c.Scrape[0].Path != "/api/v1/metrics" {
		t.Errorf("jobs = %+v, want one of /api/v1/metrics", c.Scrape)
	}
}
