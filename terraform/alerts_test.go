package terraform_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/zclconf/go-cty/cty"
)

// A source is where a metric comes from: the only monitored resource of its series that is meant, and the labels of the
// two, as Google documents them.
type source struct{ resource, labels string }

// sources are the metrics that queries may use, without the suffixes of histograms. A name that Google does not know
// is no error there: its alert stays quiet.
func sources() map[string]source {
	return map[string]source{
		"monitoring_googleapis_com:uptime_check_check_passed": {
			resource: "uptime_url", labels: "host checker_location check_id",
		},
		"monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires": {
			resource: "uptime_url", labels: "host checker_location check_id",
		},
		"run_googleapis_com:request_count": {
			resource: "cloud_run_revision", labels: "service_name response_code_class",
		},
		"run_googleapis_com:request_latencies":           {resource: "cloud_run_revision", labels: "service_name"},
		"run_googleapis_com:container_instance_count":    {resource: "cloud_run_revision", labels: "service_name"},
		"run_googleapis_com:container_startup_latencies": {resource: "cloud_run_revision", labels: "service_name"},
		"pubsub_googleapis_com:subscription_oldest_unacked_message_age": {
			resource: "pubsub_subscription", labels: "subscription_id",
		},
		"pubsub_googleapis_com:subscription_num_undelivered_messages": {
			resource: "pubsub_subscription", labels: "subscription_id",
		},
		"pubsub_googleapis_com:subscription_push_request_count": {
			resource: "pubsub_subscription", labels: "subscription_id response_class response_code",
		},
		"firestore_googleapis_com:document_read_ops_count": {
			resource: "firestore.googleapis.com/Database", labels: "database_id",
		},
		"firestore_googleapis_com:document_write_ops_count": {
			resource: "firestore.googleapis.com/Database", labels: "database_id",
		},
		"serviceruntime_googleapis_com:quota_allocation_usage": {
			resource: "consumer_quota", labels: "quota_metric location service",
		},
		"serviceruntime_googleapis_com:quota_limit": {
			resource: "consumer_quota", labels: "quota_metric limit_name location service",
		},
		"serviceruntime_googleapis_com:quota_rate_net_usage": {
			resource: "consumer_quota", labels: "quota_metric method location service",
		},
		"serviceruntime_googleapis_com:api_request_count": {
			resource: "consumed_api", labels: "service method response_code response_code_class",
		},
		"router_googleapis_com:nat_dropped_sent_packets_count": {
			resource: "nat_gateway", labels: "gateway_name reason ip_protocol",
		},
		"kubernetes_io:pod_network_sent_bytes_count": {
			resource: "k8s_pod", labels: "cluster_name namespace_name pod_name interface",
		},
		"kubernetes_io:pod_volume_utilization": {
			resource: "k8s_pod", labels: "cluster_name namespace_name pod_name persistentvolumeclaim_name",
		},
		// Managed Prometheus has one resource, which need not be named.
		"up":                                     {labels: "cluster namespace job instance"},
		"http_requests_total":                    {labels: "cluster namespace host code"},
		"kube_pod_status_unschedulable":          {labels: "cluster namespace pod uid"},
		"logging_googleapis_com:user_prod_calls": {resource: "cloud_run_revision", labels: "function status"},
		"logging_googleapis_com:user_prod_agent_start_seconds": {resource: "cloud_run_revision"},
	}
}

// TestQueries_SelectDocumentedMetrics holds every query of alerts and of the dashboard to the table of sources. A
// metric may have several monitored resources, and a query must name one then.
func TestQueries_SelectDocumentedMetrics(t *testing.T) {
	t.Parallel()
	m := alertModule(t)
	known := sources()
	for _, event := range slices.Collect(maps.Keys(m.local(t, "events").AsValueMap())) {
		known["logging_googleapis_com:user_prod_"+event] = source{
			resource: "cloud_run_revision k8s_container", labels: "worker",
		}
	}
	for name, query := range m.queries(t) {
		for _, selector := range selectors(t, query) {
			metric := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(selector.Name, "")
			from, ok := known[selector.Name]
			if !ok {
				from, ok = known[metric]
			}
			if !ok {
				t.Errorf("%s selects %s: look the metric up and add it to the table", name, selector.Name)
			}
			resource := ""
			has := append(strings.Fields(from.labels), model.MetricNameLabel)
			for _, matcher := range selector.LabelMatchers {
				switch {
				case matcher.Name == "monitored_resource" && matcher.Type == labels.MatchEqual:
					resource = matcher.Value
				case !slices.Contains(has, matcher.Name):
					t.Errorf("%s selects %s by the label %s, which it does not have", name, selector.Name, matcher.Name)
				}
			}
			if from.resource != "" && !slices.Contains(strings.Fields(from.resource), resource) {
				t.Errorf("%s selects %s of the resource %q, want %s", name, selector.Name, resource, from.resource)
			}
		}
	}
}

// queries are those of the alerts and of the dashboard, by a name.
func (m *module) queries(t *testing.T) map[string]string {
	t.Helper()
	queries := map[string]string{}
	for name, alert := range m.local(t, "metric_alerts").AsValueMap() {
		queries["the alert "+name] = text(t, alert, "query")
	}
	for _, chart := range m.local(t, "charts").AsValueSlice() {
		queries["the chart "+text(t, chart, "title")] = text(t, chart, "query")
	}
	return queries
}

// selectors are the selectors of series in a query.
func selectors(t *testing.T, query string) []*parser.VectorSelector {
	t.Helper()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var found []*parser.VectorSelector
	parser.Inspect(expression, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			found = append(found, s)
		}
		return nil
	})
	return found
}

// TestQueries_AddNoSeriesThatMayBeAbsent holds that no query adds vectors. A sum with an absent operand is absent, so
// an alert with it stays quiet until all of them exist.
func TestQueries_AddNoSeriesThatMayBeAbsent(t *testing.T) {
	t.Parallel()
	for name, query := range alertModule(t).queries(t) {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		parser.Inspect(expression, func(n parser.Node, _ []parser.Node) error {
			if b, ok := n.(*parser.BinaryExpr); ok && (b.Op == parser.ADD || b.Op == parser.SUB) {
				t.Errorf("%s adds or subtracts: join conditions with or\n%s", name, query)
			}
			return nil
		})
	}
}

// TestEvents_RaiseAlertsOrAreHarmless holds that every event of the log is in an alert, or among those that need none.
func TestEvents_RaiseAlertsOrAreHarmless(t *testing.T) {
	t.Parallel()
	m := alertModule(t)
	alerted := map[string]bool{"agent_started": false, "drift_repaired": false} // harmless
	for _, alert := range m.local(t, "log_alerts").AsValueMap() {
		for _, event := range regexp.MustCompile(`\w+`).FindAllString(text(t, alert, "lines"), -1) {
			alerted[event] = true
		}
	}
	for _, alert := range m.local(t, "metric_alerts").AsValueMap() {
		for _, event := range regexp.MustCompile(`user_prod_(\w+)`).FindAllStringSubmatch(text(t, alert, "query"), -1) {
			alerted[event[1]] = true
		}
	}
	for event := range m.local(t, "events").AsValueMap() {
		if _, ok := alerted[event]; !ok {
			t.Errorf("no alert is about the event %s: add one, or add it to the harmless ones", event)
		}
	}
}

// evaluated is how often a query is evaluated, and how often it may be: one with a series for each agent, or for each
// quota of all services, costs most.
func evaluated(t *testing.T, policy cty.Value) (got, want string) {
	t.Helper()
	const condition = "conditions.0.condition_prometheus_query_language.0."
	query := text(t, policy, condition+"query")
	if query == "(none)" {
		return "", ""
	}
	ofOneService := strings.Contains(query, `service="`)
	if regexp.MustCompile(`by \([^)]*(namespace_name|quota_metric)`).MatchString(query) && !ofOneService {
		return text(t, policy, condition+"evaluation_interval"), "600s"
	}
	return text(t, policy, condition+"evaluation_interval"), "60s"
}

// TestAlerts_TellWhatToDoAndWhoReads holds the policies to what their alerts say.
func TestAlerts_TellWhatToDoAndWhoReads(t *testing.T) {
	t.Parallel()
	m := load(t, map[string]cty.Value{"alert_emails": cty.ListVal([]cty.Value{cty.StringVal("operator@example.com")})})
	policies, titles := m.resources(t, "google_monitoring_alert_policy"), map[string]bool{}
	for address, policy := range policies {
		title := text(t, policy, "display_name")
		if titles[title] {
			t.Errorf("two policies have the name %q", title)
		}
		titles[title] = true
		if n := len(text(t, policy, "documentation.0.content")); n < 40 || n > 8192 {
			t.Errorf("%s: the text has %d characters, want 40 to 8,192", address, n)
		}
		if got, want := evaluated(t, policy); got != want {
			t.Errorf("%s is evaluated every %s, want %s", address, got, want)
		}
		if n := policy.GetAttr("notification_channels").LengthInt(); n != 1 {
			t.Errorf("%s has %d recipients, want 1", address, n)
		}
		if !slices.Contains([]string{"CRITICAL", "ERROR", "WARNING"}, text(t, policy, "severity")) {
			t.Errorf("%s has the severity %s", address, text(t, policy, "severity"))
		}
	}
	if want := m.local(t, "metric_alerts").LengthInt() + m.local(t, "log_alerts").LengthInt(); len(policies) != want {
		t.Errorf("%d policies, want one for each of %d alerts", len(policies), want)
	}
}
