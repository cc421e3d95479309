package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/api/distribution"

	"agents.example/controlplane/emulators/monitoringemu"
)

// routerMetrics is what a router with a number of requests to one host answers.
func routerMetrics(requests, fast, slow int) string {
	return fmt.Sprintf(`# TYPE http_requests_total counter
http_requests_total{code="200",host="bot.local"} %d
http_requests_total{code="404",host=""} 7
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{host="bot.local",le="0.1"} %d
http_request_duration_seconds_bucket{host="bot.local",le="1"} %d
http_request_duration_seconds_bucket{host="bot.local",le="+Inf"} %d
http_request_duration_seconds_sum{host="bot.local"} 1
http_request_duration_seconds_count{host="bot.local"} %d
# TYPE go_goroutines gauge
go_goroutines 12
`, requests, fast, fast+slow, fast+slow, fast+slow)
}

// describeSamples returns the value of each sample, with the time over which it counts.
func describeSamples(samples []monitoringemu.Sample) map[string]string {
	found := map[string]string{}
	for _, s := range samples {
		value := fmt.Sprint(s.Value)
		if d, ok := s.Value.(*distribution.Distribution); ok {
			value = fmt.Sprint(d.GetBucketCounts())
		}
		name := strings.TrimPrefix(s.Metric, "prometheus.googleapis.com/") + " " + s.MetricLabels["host"]
		found[name] = value + " in " + s.End.Sub(s.Start).String()
	}
	return found
}

// The expected values are those of Managed Prometheus, which takes the first value of a series as its start.
func TestScrape_CountsFromTheFirstScrape(t *testing.T) {
	t.Parallel()
	body := ""
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer router.Close()
	server, err := monitoringemu.Start(t.Context(), monitoringemu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // the test is over
	tel := &Telemetry{options: Options{
		Router: router.URL, RouterNamespace: "agent-gateway", Project: "p",
		NamespaceOf: func(host string) (string, bool) { return "agent-" + host, host != "" },
	}}
	for i, row := range []struct {
		body string
		want map[string]string
	}{
		{body: routerMetrics(10, 2, 1), want: map[string]string{}},
		{body: routerMetrics(13, 5, 1), want: map[string]string{
			"http_requests_total/counter ": "0 in 1m0s", "http_requests_total/counter bot.local": "3 in 1m0s",
			"http_request_duration_seconds/histogram bot.local": "[3 0 0] in 1m0s",
		}},
		{body: routerMetrics(20, 5, 3), want: map[string]string{
			"http_requests_total/counter ": "0 in 2m0s", "http_requests_total/counter bot.local": "10 in 2m0s",
			"http_request_duration_seconds/histogram bot.local": "[3 2 0] in 2m0s",
		}},
		{body: routerMetrics(4, 1, 1), want: map[string]string{ // the router restarted
			"http_requests_total/counter ": "0 in 3m0s", "http_requests_total/counter bot.local": "4 in 1ms",
			"http_request_duration_seconds/histogram bot.local": "[1 1 0] in 1ms",
		}},
	} {
		body = row.body
		samples, err := tel.scrapeRouter(t.Context(), began().Add(time.Duration(i)*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, describeSamples(samples)); diff != "" {
			t.Errorf("scrape %d (-want +got):\n%s", i, diff)
		}
		if err := server.Feed("p", samples...); err != nil {
			t.Error(err)
		}
		for _, s := range samples {
			if got := s.ResourceLabels["namespace"]; got != "agent-gateway" {
				t.Errorf("namespace of %s = %q, want the router's", s.Metric, got)
			}
		}
	}
	if got := tel.counters.requests["agent-bot.local"]; got != 4 {
		t.Errorf("requests to the agent = %d, want 4", got)
	}
}
