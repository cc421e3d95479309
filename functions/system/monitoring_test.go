package system_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
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

func TestMonitoring_AlertsWatchSeriesThatExist(t *testing.T) {
	t.Parallel()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(file(t, "prometheus-alerts.yaml", "application/yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	series, found := scraped(t), 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			found++
			checkExpression(t, r.Expr, series)
			_, err := time.ParseDuration(r.For)
			if err != nil || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no duration, severity or summary (%v)", r.Alert, err)
			}
		}
	}
	if found < 5 {
		t.Errorf("there are %d alerts", found)
	}
}

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
