package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/shared/dataplane/notifier"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
)

// entry is a log entry as Cloud Logging stores a line: fields by their path.
type entry map[string]string

// fromFunction is an entry of a line that a Cloud Run service wrote.
func fromFunction(t *testing.T, service string, line []byte) entry {
	t.Helper()
	e := entry{"resource.type": "cloud_run_revision", "resource.labels.service_name": service}
	return e.with(t, line)
}

// fromPod is an entry of a line that a container wrote.
func fromPod(t *testing.T, cluster, namespace string, line []byte) entry {
	t.Helper()
	e := entry{
		"resource.type": "k8s_container", "resource.labels.cluster_name": cluster,
		"resource.labels.namespace_name": namespace,
	}
	return e.with(t, line)
}

func (e entry) with(t *testing.T, line []byte) entry {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	for name, v := range fields {
		if s, ok := v.(string); ok {
			e["jsonPayload."+name] = s
		}
	}
	return e
}

// matches evaluates a filter of Cloud Logging's query language. It knows what the files use: comparisons with =, !=, =~
// and <, a list of values, :* for a field that exists, AND, OR and parentheses.
func (e entry) matches(t *testing.T, filter string) bool {
	t.Helper()
	token := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[()]|=~|!=|=|<|:\*|[\w.]+`)
	f := &filterReader{t: t, entry: e, tokens: token.FindAllString(filter, -1)}
	if rest := token.ReplaceAllString(filter, ""); strings.TrimSpace(rest) != "" {
		t.Fatalf("the filter has what this test does not know: %q in %s", rest, filter)
	}
	result := f.any()
	if len(f.tokens) > 0 {
		t.Fatalf("the filter ends before %q: %s", f.tokens, filter)
	}
	return result
}

type filterReader struct {
	t      *testing.T
	entry  entry
	tokens []string
}

func (f *filterReader) next() string {
	if len(f.tokens) == 0 {
		f.t.Fatal("the filter is incomplete")
	}
	token := f.tokens[0]
	f.tokens = f.tokens[1:]
	return token
}

func (f *filterReader) accept(token string) bool {
	if len(f.tokens) == 0 || f.tokens[0] != token {
		return false
	}
	f.tokens = f.tokens[1:]
	return true
}

func (f *filterReader) any() bool {
	result := f.all()
	for f.accept("OR") {
		result = f.all() || result
	}
	return result
}

func (f *filterReader) all() bool {
	result := f.term()
	for f.accept("AND") {
		result = f.term() && result
	}
	return result
}

func (f *filterReader) term() bool {
	if f.accept("(") {
		result := f.any()
		f.close()
		return result
	}
	value, there := f.entry[f.next()]
	if f.accept(":*") {
		return there
	}
	operator := f.next()
	if !f.accept("(") {
		return f.compare(value, operator, f.next())
	}
	result := f.compare(value, operator, f.next())
	for f.accept("OR") {
		result = f.compare(value, operator, f.next()) || result
	}
	f.close()
	return result
}

func (f *filterReader) close() {
	if !f.accept(")") {
		f.t.Fatalf("the filter lacks a parenthesis before %q", f.tokens)
	}
}

func (f *filterReader) compare(value, operator, quoted string) bool {
	if operator == "<" {
		a, err := strconv.Atoi(value)
		return err == nil && int64(a) < number(f.t, quoted)
	}
	var want string
	if err := json.Unmarshal([]byte(quoted), &want); err != nil {
		f.t.Fatalf("%s is not a text in quotation marks", quoted)
	}
	switch operator {
	case "=":
		return value == want
	case "!=":
		return value != want
	case "=~":
		return regexp.MustCompile(want).MatchString(value)
	default:
		f.t.Fatalf("the operator %s is unknown", operator)
		return false
	}
}

// line is a line that the functions, the router and the notifier write about an event.
func line(event logevent.Name, attributes ...any) []byte {
	var out bytes.Buffer
	function.NewLogger(&out, slog.LevelInfo, "my-project").Error("what happened",
		append([]any{logevent.Key, event}, attributes...)...)
	return out.Bytes()
}

// TestLogAlerts_MatchTheLinesOfTheirEventsOnly evaluates the filter of every alert about single lines, with lines of
// every event.
func TestLogAlerts_MatchTheLinesOfTheirEventsOnly(t *testing.T) {
	t.Parallel()
	m := alertModule(t)
	raisedBy := map[string][]string{
		"agents_expired": {"agents_expired"}, "nudge_dead_lettered": {"nudge_dead_lettered"},
		"usage_drift_repaired": {"usage_drift_repaired"},
		"cleanup_refused":      {"missing_pod_limit_exceeded", "orphan_limit_exceeded", "orphan_unproven"},
		"plan_unknown":         {"plan_unknown"}, "rare_run_failed": nil,
		"several_subscriptions": {"several_subscriptions"},
		"drift_limit_exceeded":  {"drift_limit_exceeded"}, "agent_data_lost": {"agent_data_lost"},
		"snapshot_failed": {"snapshot_failed"}, "records_not_backed_up": {"records_not_backed_up"},
		"record_unreadable": {"record_unreadable"}, "audit_entry_missing": {"audit_entry_missing"},
		"secret_budget_exhausted":  {"secret_budget_exhausted"},
		"free_agents_near_maximum": {"free_agents_near_maximum"},
		"release_stopped":          {"release_stopped"},
		"backup_failed":            nil, // see TestBackups_RaiseAnAlertWhenTheyFail
	}
	for name, filter := range m.logFilters(t) {
		want, ok := raisedBy[name]
		if !ok {
			t.Errorf("add the events of the alert %s to this test", name)
		}
		var got []string
		for _, event := range slices.Sorted(maps.Keys(m.local(t, "events").AsValueMap())) {
			written := line(logevent.Name(event))
			if fromFunction(t, "prod-reconcile-agent", written).matches(t, filter) {
				got = append(got, event)
			}
			if fromFunction(t, "staging-reconcile-agent", written).matches(t, filter) {
				t.Errorf("%s is raised by the event %s of another environment", name, event)
			}
			if fromPod(t, "prod-a1", "agent-3fa85f64-5717-4562-b3fc-2c963f66afa6", written).matches(t, filter) {
				t.Errorf("%s is raised by an agent that writes the event %s", name, event)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is raised by the events %q, want %q", name, got, want)
		}
	}
}

// logFilters are the filters of the policies about single lines, which have no other condition and limit their
// notifications.
func (m *module) logFilters(t *testing.T) map[string]string {
	t.Helper()
	filters := map[string]string{}
	for address, policy := range m.resources(t, "google_monitoring_alert_policy") {
		name, ok := strings.CutPrefix(address, `log["`)
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, `"]`)
		filters[name] = text(t, policy, "conditions.0.condition_matched_log.0.filter")
		if n := policy.GetAttr("conditions").LengthInt(); n != 1 {
			t.Errorf("%s has %d conditions, and one about log lines must be the only one", name, n)
		}
		if got := text(t, policy, "alert_strategy.0.notification_rate_limit.0.period"); got != "3600s" {
			t.Errorf("%s notifies once in %s, want 3600s: a policy about log lines needs a limit", name, got)
		}
	}
	if len(filters) != m.local(t, "log_alerts").LengthInt() {
		t.Errorf("found the policies %v of %d alerts", filters, m.local(t, "log_alerts").LengthInt())
	}
	return filters
}

// TestLogMetrics_CountTheirLinesOnly evaluates the filters of the log-based metrics.
func TestLogMetrics_CountTheirLinesOnly(t *testing.T) {
	t.Parallel()
	metrics := alertModule(t).resources(t, "google_logging_metric")
	call := line("", "function", "GetAgent")
	lines := map[string][]byte{"calls": call, "start": line(logevent.AgentStarted)}
	for address := range metrics {
		if event, ok := strings.CutPrefix(address, `event["`); ok {
			lines[address] = line(logevent.Name(strings.TrimSuffix(event, `"]`)))
		}
	}
	for address, metric := range metrics {
		filter := text(t, metric, "filter")
		for other, written := range lines {
			want := other == address || address == "start" && other == `event["agent_started"]` ||
				other == "start" && address == `event["agent_started"]`
			if got := fromFunction(t, "prod-worker", written).matches(t, filter); got != want {
				t.Errorf("%s counts the line of %s: %t, want %t", address, other, got, want)
			}
			if fromPod(t, "prod-a1", "agent-3fa85f64-5717-4562-b3fc-2c963f66afa6", written).matches(t, filter) {
				t.Errorf("%s counts the line of %s when an agent writes it", address, other)
			}
			event := strings.HasPrefix(address, "event[")
			if got := fromPod(t, "prod-a1", "agent-gateway", written).matches(t, filter); got != (want && event) {
				t.Errorf("%s counts the line of %s that a notifier writes: %t, want %t", address, other, got, !got)
			}
		}
	}
}

// acceptAnyPush implements function.PushVerifier.
type acceptAnyPush struct{}

// Verify accepts every token.
func (acceptAnyPush) Verify(context.Context, string) error { return nil }

func failingRun(context.Context, function.Message) error { return errors.New("the run failed") }

// TestRareRuns_RaiseAnAlertAndFrequentOnesDoNot evaluates the filter with lines that workers write when a run fails. It
// is not parallel, because a process has one log.
func TestRareRuns_RaiseAnAlertAndFrequentOnesDoNot(t *testing.T) { //nolint:paralleltest // see above
	filter := alertModule(t).logFilters(t)["rare_run_failed"]
	for worker, want := range map[string]bool{
		"RecountUsage": true, "SealAuditLogs": true, "CollectOrphans": true, "CheckBackups": true,
		"CheckDrift": false, "SweepAgents": false,
		"EnforceAccounts": false,
	} {
		written := failedRunOf(t, worker)
		if got := fromFunction(t, "prod-worker", written).matches(t, filter); got != want {
			t.Errorf("a failed run of %s raises the alert: %t, want %t\n%s", worker, got, want, written)
		}
	}
}

// failedRunOf returns the line of a worker whose run fails.
func failedRunOf(t *testing.T, name string) []byte {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(function.NewLogger(&out, slog.LevelInfo, "my-project"))
	defer slog.SetDefault(before)
	worker := function.Worker{Name: name, Schedule: "17 * * * *", Handle: failingRun}
	body := strings.NewReader(`{"message": {"data": "e30=", "messageId": "1"}}`)
	push := httptest.NewRequest(http.MethodPost, worker.Path(), body)
	push.Header.Set("Authorization", "Bearer token")
	worker.Handler(acceptAnyPush{}).ServeHTTP(httptest.NewRecorder(), push)
	for written := range bytes.Lines(out.Bytes()) {
		if bytes.Contains(written, []byte(logevent.ScheduledRunFailed)) {
			return written
		}
	}
	t.Fatalf("%s wrote no line about its failed run: %s", name, out.Bytes())
	return nil
}

// deadTopic implements notifier.Nudger. It takes no nudge. It answers that of the agent "last" when the process ends.
type deadTopic struct{}

func (deadTopic) Nudge(ctx context.Context, agentID string) error {
	if agentID == "last" {
		<-ctx.Done()
	}
	return errors.New("the topic is not reachable")
}

func (d deadTopic) Wake(ctx context.Context, agentID string) error { return d.Nudge(ctx, agentID) }

// TestNotifiers_CountNudgesThatTheyCannotPublish evaluates the filter of the metric of an alert with the line that a
// notifier writes. It is not parallel, because a process has one log.
func TestNotifiers_CountNudgesThatTheyCannotPublish(t *testing.T) { //nolint:paralleltest // see above
	filter := text(t, alertModule(t).resources(t, "google_logging_metric")[`event["nudge_not_published"]`], "filter")
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(function.NewLogger(&out, slog.LevelInfo, "my-project"))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		n := notifier.New(deadTopic{})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { n.Run(ctx) })
		n.Gone("first")
		n.Gone("last")
		synctest.Wait()
		stop()
		running.Wait()
	})
	counted := 0
	for written := range bytes.Lines(out.Bytes()) {
		if fromPod(t, "prod-a1", "agent-gateway", written).matches(t, filter) {
			counted++
		}
	}
	if counted != 1 {
		t.Errorf("%d lines of a nudge that was not published are counted, want 1: %s", counted, out.Bytes())
	}
}

// TestAlerts_AreExplained holds that the README has a section for each alert and for nothing else, with a query to
// paste that is about the same.
func TestAlerts_AreExplained(t *testing.T) {
	t.Parallel()
	b := read(t, "README.md")
	_, chapter, _ := strings.Cut(b, "\n## Alerts\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(chapter, "\n### ") {
		title, content, _ := strings.Cut(section, "\n")
		sections[title] = content
	}
	m := alertModule(t)
	explained := map[string]bool{"The budget": true}
	alerts := maps.Clone(m.local(t, "metric_alerts").AsValueMap())
	maps.Copy(alerts, m.local(t, "log_alerts").AsValueMap())
	for name, alert := range alerts {
		title := text(t, alert, "title")
		if strings.HasPrefix(name, "silent ") {
			title = "A worker does not run"
		}
		explained[title] = true
		section, ok := sections[title]
		if !ok {
			t.Errorf("terraform/README.md has no section %q for the alert %s", title, name)
		}
		checkPasted(t, title, section, text(t, alert, "query"))
		for _, event := range m.eventsOf(t, alert) {
			if !strings.Contains(section, `"`+event+`"`) {
				t.Errorf("the section %q of terraform/README.md has no log query for the event %q", title, event)
			}
		}
	}
	for title := range sections {
		if strings.TrimSpace(title) != "" && !explained[title] && !strings.HasPrefix(title, "Paste ") {
			t.Errorf("terraform/README.md explains %q, and no alert has that title", title)
		}
	}
}

// checkPasted holds that a section has a query to paste, and that one for Metrics Explorer is about the metrics of the
// alert.
func checkPasted(t *testing.T, title, section, query string) {
	t.Helper()
	pasted := regexp.MustCompile("(?s)\n```(\\w*)\n(.*?)\n```\n").FindStringSubmatch(section)
	switch {
	case pasted == nil:
		t.Errorf("the section %q of terraform/README.md has no query to paste", title)
	case pasted[1] == "" && !strings.HasPrefix(pasted[2], "resource.type="):
		t.Errorf("the query of %q begins with no resource.type: %s", title, pasted[2])
	case pasted[1] == "promql":
		for _, s := range selectors(t, pasted[2]) {
			if !strings.Contains(query, s.Name+"{") {
				t.Errorf("the query of %q selects %s, and its alert does not", title, s.Name)
			}
		}
	}
}

// eventsOf are the events of the log that an alert is about.
func (m *module) eventsOf(t *testing.T, alert cty.Value) []string {
	t.Helper()
	about := text(t, alert, "query") + text(t, alert, "lines") // it has one of the two
	var found []string
	for event := range m.local(t, "events").AsValueMap() {
		if regexp.MustCompile(`(user_prod_|")` + event + `\b`).MatchString(about) {
			found = append(found, event)
		}
	}
	return found
}
