package terraform_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/terraform/cell"
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
		"run_googleapis_com:container_network_sent_bytes_count": {
			resource: "cloud_run_revision", labels: "service_name kind",
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
			resource: "k8s_pod", labels: "cluster_name namespace_name pod_name volume_name",
		},
		"logging_googleapis_com:billing_bytes_ingested": {resource: "global", labels: "resource_type"},
		// Managed Prometheus has one resource, which need not be named.
		"up":                              {labels: "cluster namespace job instance"},
		"http_requests_total":             {labels: "cluster namespace host code"},
		"gate_value_reads_total":          {labels: "cluster namespace result"},
		"gate_report_failures_total":      {labels: "cluster namespace"},
		"kube_pod_status_unschedulable":   {labels: "cluster namespace pod uid"},
		"kube_pod_container_status_ready": {labels: "cluster namespace pod container uid"},

		"logging_googleapis_com:user_prod_calls": {
			resource: "cloud_run_revision", labels: "function status",
		},
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
	alerted := map[string]bool{"agent_started": false, "drift_repaired": false, "release_step": false} // harmless
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
	maps.Copy(cases, serviceAlertCases())
	maps.Copy(cases, costAlertCases())
	for name := range m.local(t, "silent_alerts").AsValueMap() {
		cases[name] = silentAlertCase(text(t, m.local(t, "silent_alerts"), name+".query"))
	}
	for name := range m.local(t, "scheduled").AsValueMap() {
		if !m.local(t, "silent_alerts").Type().HasAttribute("silent " + name) {
			t.Errorf("no alert says that %s does not run", name)
		}
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
		daily := slices.Contains(texts(t, m.local(t, "daily")), strings.TrimPrefix(name, "silent "))
		want := name == "router" || name == "gate" || name == "notifier" || strings.HasPrefix(name, "silent ") && !daily
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

// TestMetricAlerts_NameEachCellAndWorker holds that what is true of one does not hide what is true of another.
func TestMetricAlerts_NameEachCellAndWorker(t *testing.T) {
	t.Parallel()
	alerts := alertModule(t).local(t, "metric_alerts")
	const oldest = `pubsub_googleapis_com:subscription_oldest_unacked_message_age{monitored_resource="pubsub_subscription",` +
		`subscription_id="prod-%d"} 1860x20`
	for name, row := range map[string]struct{ given, want []string }{
		"router":   {want: []string{`{cell="a1"}`, `{cell="b1"}`}},
		"gate":     {want: []string{`{cell="a1"}`, `{cell="b1"}`}},
		"notifier": {want: []string{`{cell="a1"}`, `{cell="b1"}`}},
		"oldest":   {given: each(2, oldest), want: []string{`{subscription_id="prod-1"}`, `{subscription_id="prod-2"}`}},
	} {
		got := firing(t, text(t, alerts, name+".query"), time.Minute, row.given)
		if !slices.Equal(got, row.want) {
			t.Errorf("the alert %s is true of %v, want %v", name, got, row.want)
		}
	}
}

// fires reports whether a query has a result at every minute of a duration that ends with the series.
func fires(t *testing.T, query string, lasts time.Duration, descriptions []string) bool {
	t.Helper()
	return len(firing(t, query, lasts, descriptions)) > 0
}

// firing returns the labels of a query's results at the end of the series, or none if there was no result at a minute
// of a duration before.
func firing(t *testing.T, query string, lasts time.Duration, descriptions []string) (found []string) {
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
		found = nil
		for _, sample := range vector {
			found = append(found, sample.Metric.String())
		}
		q.Close()
		if len(found) == 0 {
			return nil
		}
	}
	slices.Sort(found)
	return found
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

// uptimePath is what the uptime checks request.
const uptimePath = "/health/ready"

// TestUptimeChecks_AskForTheAPIAndForEachCell compares what is asked from outside with a literal table.
func TestUptimeChecks_AskForTheAPIAndForEachCell(t *testing.T) {
	t.Parallel()
	for domain, api := range map[string]string{
		"": "prod-routes-123456789012.us-central1.run.app", "api.example.com": "api.example.com",
	} {
		m := load(t, map[string]cty.Value{"domain": cty.StringVal(domain), "cells": cells("a1", "b1")})
		got := map[string]string{}
		for address, check := range m.resources(t, "google_monitoring_uptime_check_config") {
			resource := check.GetAttr("monitored_resource").Index(cty.NumberIntVal(0))
			if typ := resource.GetAttr("type").AsString(); typ != "uptime_url" {
				t.Errorf("%s asks for a %s, want an uptime_url", address, typ)
			}
			got[address] = resource.GetAttr("labels").GetAttr("host").AsString()
			checkRequest(t, address, check)
		}
		want := map[string]string{
			`this["api"]`:     api,
			`this["cell-a1"]`: cell.CanaryLabel + ".a1.agents.example.net",
			`this["cell-b1"]`: cell.CanaryLabel + ".b1.agents.example.net",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("hosts with the domain %q (-want +got):\n%s", domain, diff)
		}
	}
}

// checkRequest holds how often a check asks, and for what.
func checkRequest(t *testing.T, address string, check cty.Value) {
	t.Helper()
	request := check.GetAttr("http_check").Index(cty.NumberIntVal(0))
	for field, want := range map[string]cty.Value{
		"path": cty.StringVal(uptimePath), "port": cty.NumberIntVal(443), "request_method": cty.StringVal("GET"),
		"use_ssl": cty.True, "validate_ssl": cty.True,
	} {
		if got := request.GetAttr(field); !got.RawEquals(want) {
			t.Errorf("%s: http_check.%s = %#v, want %#v", address, field, got, want)
		}
	}
	for field, want := range map[string]string{"period": "60s", "timeout": "10s"} {
		if got := check.GetAttr(field).AsString(); got != want {
			t.Errorf("%s: %s = %s, want %s", address, field, got, want)
		}
	}
	if n := check.GetAttr("selected_regions").LengthInt(); n != 3 {
		t.Errorf("%s asks from %d locations, want 3: fewer are refused, and more cost more", address, n)
	}
}

// TestUptimeChecks_FindWhatTheAPIAnswers asks the real route, which is public.
func TestUptimeChecks_FindWhatTheAPIAnswers(t *testing.T) {
	t.Parallel()
	content := text(t, load(t, nil).local(t, "uptime_checks"), "api.content")
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Path == uptimePath && r.Access != function.Public {
			t.Errorf("%s asks for a credential, which uptime checks do not have", uptimePath)
		}
	}
	for _, r := range system.Ready(nil) {
		if r.Path != uptimePath {
			continue
		}
		w := httptest.NewRecorder()
		r.Handler(function.Guard{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, uptimePath, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), content) {
			t.Errorf("%s answers %d %s, want 200 with %s", uptimePath, w.Code, w.Body, content)
		}
		return
	}
	t.Errorf("no route has the path %s", uptimePath)
}

// TestNext_NamesSettingsThatWatch holds what a deployment without recipients and without a budget is told.
func TestNext_NamesSettingsThatWatch(t *testing.T) {
	t.Parallel()
	const emails, billing = "Set alert_emails: alerts have no recipient yet.",
		"Set billing_account: no budget tells you yet what the deployment costs."
	unwatched := func(given map[string]cty.Value) []string {
		var all []string
		for _, step := range load(t, given).local(t, "unwatched").AsValueSlice() {
			all = append(all, step.AsString())
		}
		return all
	}
	if diff := cmp.Diff([]string{emails, billing}, unwatched(nil)); diff != "" {
		t.Errorf("steps without settings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", ""}, unwatched(everything())); diff != "" {
		t.Errorf("steps with all settings (-want +got):\n%s", diff)
	}
}

// TestBudget_NotifiesFiveAddresses: a budget with more channels fails the apply.
func TestBudget_NotifiesFiveAddresses(t *testing.T) {
	t.Parallel()
	given := everything()
	given["alert_emails"] = cty.TupleVal([]cty.Value{
		cty.StringVal("f@example.com"), cty.StringVal("a@example.com"), cty.StringVal("b@example.com"),
		cty.StringVal("c@example.com"), cty.StringVal("d@example.com"), cty.StringVal("e@example.com"),
	})
	for address, budget := range load(t, given).resources(t, "google_billing_budget") {
		channels := texts(t, find(t, budget, "all_updates_rule.0.monitoring_notification_channels"))
		if len(channels) != 5 || strings.Contains(channels[4], "f@example.com") {
			t.Errorf("%s notifies %v, want the first five addresses", address, channels)
		}
	}
}

// TestBudget_OnlyNotifies holds that a budget exists once there is a billing account, and what it notifies of.
func TestBudget_OnlyNotifies(t *testing.T) {
	t.Parallel()
	if found := load(t, nil).resources(t, "google_billing_budget"); len(found) != 0 {
		t.Errorf("%d budgets without a billing account", len(found))
	}
	budget := load(t, everything()).resources(t, "google_billing_budget")[`project["012345-6789AB-CDEF01"]`]
	want := map[string]string{
		"billing_account": "012345-6789AB-CDEF01", "budget_filter.0.projects.0": "projects/123456789012",
		"amount.0.specified_amount.0.units": "500", "threshold_rules.0.threshold_percent": "0.5",
		"threshold_rules.1.threshold_percent": "0.9", "threshold_rules.2.threshold_percent": "1",
		"threshold_rules.3.spend_basis": "FORECASTED_SPEND",
		"all_updates_rule.0.monitoring_notification_channels.0": `google_monitoring_notification_channel.email[` +
			`"operator@example.com"].id`,
	}
	if diff := cmp.Diff(want, arguments(t, budget, want)); diff != "" {
		t.Errorf("budget (-want +got):\n%s", diff)
	}
}
