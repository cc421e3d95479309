package terraform_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// TestServices_ThatCreateAgentsKeepAnInstance follows the creation of an agent: the service that takes the call, and
// the one that brings the agent up.
func TestServices_ThatCreateAgentsKeepAnInstance(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		serviceOf := m.local(t, "service_of").AsValueMap()
		want := []string{serviceOf["ReconcileAgent"].AsString()}
		if m.variable(t, "domain").AsString() == "" {
			want = append(want, "routes")
		} else {
			want = append(want, serviceOf["CreateAgent"].AsString())
		}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			kept, _ := instances(t, s)
			wanted := int64(0)
			if slices.ContainsFunc(want, func(service string) bool { return address == `this["`+service+`"]` }) {
				wanted = 1
			}
			if kept != wanted {
				t.Errorf("%s keeps %d instances, want one in %q only", address, kept, want)
			}
		}
	})
}

// TestScaling_IsTheOperatorsFirst overrides both limits of a service that would keep an instance.
func TestScaling_IsTheOperatorsFirst(t *testing.T) {
	t.Parallel()
	scaling := cty.MapVal(map[string]cty.Value{"worker": cty.ObjectVal(map[string]cty.Value{
		"min_instances": cty.NumberIntVal(0), "max_instances": cty.NumberIntVal(7),
	})})
	got := load(t, map[string]cty.Value{"scaling": scaling}).local(t, "scaling").GetAttr("worker")
	least, _ := got.GetAttr("min_instances").AsBigFloat().Int64()
	most, _ := got.GetAttr("max_instances").AsBigFloat().Int64()
	if least != 0 || most != 7 {
		t.Errorf("the service scales from %d to %d instances, want from 0 to 7", least, most)
	}
}

// TestPushes_EndBeforeTheirDeadlines compares the deadline of each subscription with what its worker needs, and with
// the timeout of the service that runs it.
func TestPushes_EndBeforeTheirDeadlines(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		deadlines, timeouts := m.local(t, "ack_deadlines").AsValueMap(), m.local(t, "timeouts").AsValueMap()
		for _, w := range functions.Workers(functions.Dependencies{}) {
			deadline, _ := deadlines[w.Name].AsBigFloat().Int64()
			longest := int64(10)
			if w.Schedule != "" {
				longest = 60
			}
			if deadline < longest || w.Topic == function.AgentNudges && deadline > 60 {
				t.Errorf("a push to %s is repeated after %d s, want at least %d and at most 60 for nudges", w.Name,
					deadline, longest)
			}
			timeout := timeouts[m.local(t, "service_of").GetAttr(w.Name).AsString()].AsString()
			if timeout != "30s" && timeout != "600s" || timeout == "30s" && deadline > 30 {
				t.Errorf("the service of %s ends a push after %s, and Pub/Sub repeats it after %d s", w.Name, timeout,
					deadline)
			}
		}
	})
}

// TestCells_HaveRecordsOfTheirHostnames compares the names of a cell's DNS record and certificate with the hostnames
// that the control plane gives to its agents.
func TestCells_HaveRecordsOfTheirHostnames(t *testing.T) {
	t.Parallel()
	addresses := agent.Addresses{Domain: "agents.example.net", Scheme: "https"}
	for name, domain := range load(t, nil).local(t, "cell_domains").AsValueMap() {
		a := agent.Agent{ID: uuid.NewString(), Slug: "one", Cell: name}
		hostname := a.Hostname(addresses)
		if id, ok := agent.IDFromHostname(hostname, domain.AsString()); !ok || id != a.ID {
			t.Errorf("the hostname %s of an agent in %s is not below %s", hostname, name, domain.AsString())
		}
	}
}

// TestTopology_IsGroupByDefault holds the default to what README.md says.
func TestTopology_IsGroupByDefault(t *testing.T) {
	t.Parallel()
	if got := load(t, nil).variable(t, "topology").AsString(); got != "group" {
		t.Errorf("the default topology is %s, want group", got)
	}
}

// TestScaling_IsWithinWhatServicesCanUse holds the sizes of services. A service that keeps an instance by default is in
// TestServices_ThatCreateAgentsKeepAnInstance.
func TestScaling_IsWithinWhatServicesCanUse(t *testing.T) {
	t.Parallel()
	rare := map[string]int64{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		switch {
		case w.Schedule != "":
			rare[w.Name] = 2
		case w.Topic == function.AgentNudgesDead:
			rare[w.Name] = 3
		}
	}
	everyTopology(t, func(t *testing.T, m *module) {
		want := map[string]int64{"routes": 10}
		for name, service := range m.local(t, "service_of").AsValueMap() {
			n, isRare := rare[name]
			if !isRare {
				n = 10
			}
			want[service.AsString()] = max(want[service.AsString()], n)
		}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			service := strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)
			if least, got := instances(t, s); got != want[service] || least > got {
				t.Errorf("%s has %d to %d instances, want at most %d", service, least, got, want[service])
			}
		}
	})
}

// target is where a service sends a share of its traffic.
type target struct{ Type, Revision, Percent, Tag string }

// TestServices_DeclareTheirTraffic holds that the newest revision gets the traffic of a service which serves nothing
// yet, that the present one keeps it otherwise, and that the newest one is reached by its tag in both cases. Without a
// declaration, the provider keeps traffic where an operator directed it.
func TestServices_DeclareTheirTraffic(t *testing.T) {
	t.Parallel()
	const former = "prod-routes-20260101-030405-1"
	settings := map[string]cty.Value{
		"release": cty.StringVal("20260102-030405-2"),
		"serving": cty.MapVal(map[string]cty.Value{"prod-routes": cty.StringVal(former)}),
	}
	everyTopologyWith(t, settings, func(t *testing.T, m *module) {
		names := m.local(t, "names")
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			newest := target{"TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", "(none)", "100", "candidate"}
			want := []target{newest}
			if address == `this["routes"]` {
				newest.Percent = "0"
				want = []target{{
					Type: "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION", Revision: former, Percent: "100", Tag: "(none)",
				}, newest}
			}
			var got []target
			for i := range find(t, s, "traffic").LengthInt() {
				at := "traffic." + itoa(i) + "."
				got = append(got, target{
					text(t, s, at+"type"), text(t, s, at+"revision"), text(t, s, at+"percent"), text(t, s, at+"tag"),
				})
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s sends its traffic to %v, want %v", address, got, want)
			}
			revision := text(t, s, "template.0.revision")
			if name := text(t, s, "name"); revision != name+"-20260102-030405-2" || len(revision) > 63-len("prod") {
				t.Errorf("the revision of %s is %s", name, revision)
			}
		}
		revisions, err := m.Output("revisions")
		if err != nil || strings.Count(revisions.AsString(), "-20260102-030405-2") != names.LengthInt() {
			t.Errorf("the output revisions is %#v (%v), want one of each service", revisions, err)
		}
	})
}

// TestCandidate_IsReachedByAHeader holds how the test of a deployment reaches a revision that has no traffic.
func TestCandidate_IsReachedByAHeader(t *testing.T) {
	t.Parallel()
	for domain, want := range map[string]string{
		"": "https://candidate---prod-routes-123456789012.us-central1.run.app", "api.example.com": "https://api.example.com",
	} {
		m := load(t, map[string]cty.Value{"domain": cty.StringVal(domain)})
		if url, err := m.Output("candidate_url"); err != nil || url.AsString() != want {
			t.Errorf("domain %q: the URL is %#v (%v), want %s", domain, url, err, want)
		}
		for _, urls := range m.resources(t, "google_compute_url_map") {
			const rule = "path_matcher.0.route_rules.0."
			want := map[string]string{
				"priority": "0", "service": `google_compute_backend_service.service["candidate"].id`,
				"match_rules.0.prefix_match": "/", "match_rules.0.header_matches.0.header_name": "Release-Candidate",
				"match_rules.0.header_matches.0.exact_match": "true",
			}
			if diff := cmp.Diff(want, arguments(t, find(t, urls, strings.TrimSuffix(rule, ".")), want)); diff != "" {
				t.Errorf("first rule of the load balancer (-want +got):\n%s", diff)
			}
		}
		for _, group := range m.resources(t, "google_compute_region_network_endpoint_group") {
			want := "(none)"
			if text(t, group, "name") == "prod-candidate" {
				want = "candidate"
			}
			if got := text(t, group, "cloud_run.0.tag"); got != want {
				t.Errorf("%s is of the tag %s, want %s", text(t, group, "name"), got, want)
			}
		}
	}
}

// TestServices_WaitForWhatTheyUse holds that a revision serves when its rights are granted and the indexes of its
// queries are built.
func TestServices_WaitForWhatTheyUse(t *testing.T) {
	t.Parallel()
	blocks := load(t, nil).Blocks()
	waits := references(blocks["google_cloud_run_v2_service.this"].Body.Attributes["depends_on"])
	for address, b := range blocks {
		typ, _, _ := strings.Cut(address, ".")
		uses := typ == "google_firestore_index" || typ == "google_firestore_field" ||
			strings.HasSuffix(typ, "_iam_member") &&
				slices.Contains(references(b.Body.Attributes["member"]), "google_service_account.service")
		if uses && !slices.Contains(waits, address) {
			t.Errorf("services do not depend on %s: a revision would serve before it is there", address)
		}
	}
}

// references are the addresses of the resources that an attribute names.
func references(a *hclsyntax.Attribute) []string {
	var addresses []string
	for _, reference := range a.Expr.Variables() {
		addresses = append(addresses, reference.RootName()+"."+attribute(reference[1]))
	}
	return addresses
}

// instances are the limits of a service.
func instances(t *testing.T, service cty.Value) (least, most int64) {
	t.Helper()
	for path, n := range map[string]*int64{"min_instance_count": &least, "max_instance_count": &most} {
		var err error
		if *n, err = strconv.ParseInt(text(t, service, "template.0.scaling.0."+path), 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return least, most
}

func longer(t *testing.T, timeout, other string) bool {
	t.Helper()
	a, err := time.ParseDuration(timeout)
	b, otherErr := time.ParseDuration(other)
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	return a > b
}

// container is what Cloud Run runs for a service.
type container struct{ Image, Command, Target, CPU, Memory, Idle, Boost, Concurrency, Timeout string }

// TestServices_RunTheBinaryOfTheirRole holds the container of every service. A log and events are followed for ten
// minutes, the audit log is exported and verified for as long, a push about one agent ends within 30 seconds, and a
// tick may take ten minutes.
func TestServices_RunTheBinaryOfTheirRole(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		topology := m.variable(t, "topology").AsString()
		image := "image@sha256:" + strings.Repeat("0", 64)
		row := func(binary, target, timeout string) container {
			c := container{
				Image: image, Command: "/ko-app/" + binary, Target: target, CPU: "1", Memory: "512Mi", Idle: "true",
				Boost: "true", Concurrency: "250", Timeout: timeout,
			}
			if binary == "worker" {
				c.Concurrency = "40"
			}
			if binary == "exec" {
				c.Memory = "2048Mi"
			}
			if topology != "route" {
				c.Target = "(none)"
			}
			return c
		}
		want := map[string]container{}
		service := func(name string) string { return m.local(t, "service_of").GetAttr(name).AsString() }
		for _, r := range functions.Routes(functions.Dependencies{}) {
			binary, timeout := string(r.Role), "60s"
			switch r.Name {
			case "GetAgentLogs", "StreamEvents", "ExportAuditLog", "ExportAuditSeals", "VerifyAuditLog":
				timeout = "660s"
			case "CallMCP":
				timeout = "130s"
			case "ExecInAgent", "GetClientFile":
				timeout = "360s"
			case "ExportSnapshot":
				timeout = "3360s"
			case "OpenAgentTerminal":
				timeout = "3600s"
			case "GetAgentFiles", "PutAgentFiles", "DeleteAgentFiles":
				timeout = "660s"
			}
			if c, ok := want[service(r.Name)]; !ok || longer(t, timeout, c.Timeout) {
				want[service(r.Name)] = row(binary, r.Name, timeout)
			}
		}
		want["routes"] = row("accounts", "(none)", "660s")
		for _, w := range functions.Workers(functions.Dependencies{}) {
			timeout := "30s"
			if w.Schedule != "" {
				timeout = "600s"
			}
			if c, ok := want[service(w.Name)]; !ok || c.Timeout == "30s" {
				want[service(w.Name)] = row("worker", w.Name, timeout)
			}
		}
		got := map[string]container{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			got[strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)] = containerOf(t, s)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("containers (-want +got):\n%s", diff)
		}
	})
}

func containerOf(t *testing.T, service cty.Value) container {
	t.Helper()
	const first, resources = "template.0.containers.0.", "template.0.containers.0.resources.0."
	target, ok := variables(t, service)["FUNCTION_TARGET"]
	if !ok {
		target = "(none)"
	}
	return container{
		Image: text(t, service, first+"image"), Command: text(t, service, first+"command.0"), Target: target,
		CPU: text(t, service, resources+"limits.cpu"), Memory: text(t, service, resources+"limits.memory"),
		Idle: text(t, service, resources+"cpu_idle"), Boost: text(t, service, resources+"startup_cpu_boost"),
		Concurrency: text(t, service, "template.0.max_instance_request_concurrency"),
		Timeout:     text(t, service, "template.0.timeout"),
	}
}

// reach says who can call a service: the networks that lead to it, whether Cloud Run lets every caller through, and
// the secret by which the service knows the load balancer.
type reach struct{ Ingress, Unchecked, Edge string }

// TestServices_AreReachedByTheirCallersOnly holds that the internet reaches routes in one way: through the load
// balancer or, without a domain, at the service of all routes. Pub/Sub reaches workers, and Cloud Run checks its token.
func TestServices_AreReachedByTheirCallersOnly(t *testing.T) {
	t.Parallel()
	const notSet, secret = "", "secret prod-edge-secrets at (unknown)"
	everyTopology(t, func(t *testing.T, m *module) {
		const balanced = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
		direct := m.variable(t, "domain").AsString() == ""
		want := map[string]reach{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(r.Name).AsString()
			want[service] = reach{Ingress: balanced, Unchecked: "true", Edge: secret}
			if direct {
				want[service] = reach{Ingress: balanced, Unchecked: "true", Edge: notSet}
			}
		}
		want["routes"] = reach{Ingress: balanced, Unchecked: "true", Edge: secret}
		if direct {
			want["routes"] = reach{Ingress: "INGRESS_TRAFFIC_ALL", Unchecked: "true", Edge: notSet}
		}
		for _, w := range functions.Workers(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(w.Name).AsString()
			want[service] = reach{Ingress: "INGRESS_TRAFFIC_INTERNAL_ONLY", Unchecked: "false", Edge: notSet}
		}
		got := map[string]reach{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			got[strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)] = reach{
				Ingress: text(t, s, "ingress"), Unchecked: text(t, s, "invoker_iam_disabled"),
				Edge: variables(t, s)["EDGE_SECRETS"],
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("who reaches each service (-want +got):\n%s", diff)
		}
	})
}

// TestServices_HaveSeparateAccounts holds that no two services share an account.
func TestServices_HaveSeparateAccounts(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		accounts := map[string]string{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			account := text(t, s, "template.0.service_account")
			if other, taken := accounts[account]; taken {
				t.Errorf("%s and %s run as %s", address, other, account)
			}
			accounts[account] = address
		}
	})
}

// subscription is what a subscription does with messages that a worker does not answer.
type subscription struct{ Deadline, Retention, Expires, DeadLetters, Attempts, Least, Most string }

// TestSubscriptions_KeepNudgesAndDropOldTicks holds that nudges are kept for a week and moved away after 20 attempts,
// that ticks are kept for an hour, that no subscription expires, and that repeats slow down to one in ten minutes.
func TestSubscriptions_KeepNudgesAndDropOldTicks(t *testing.T) {
	t.Parallel()
	const week, hour, never, none = "604800s", "3600s", "", "(none)"
	want := map[string]subscription{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		row := subscription{
			Deadline: "30", Retention: week, Expires: never, DeadLetters: none, Attempts: none,
			Least: "10s", Most: "600s",
		}
		if w.Schedule != "" {
			row.Deadline, row.Retention = "600", hour
		}
		if w.Topic == function.AgentNudges {
			row.DeadLetters, row.Attempts = `google_pubsub_topic.this["agent-nudges-dead"].id`, "20"
		}
		want[`worker["`+w.Name+`"]`] = row
	}
	got := map[string]subscription{}
	for address, s := range load(t, nil).resources(t, "google_pubsub_subscription") {
		got[address] = subscription{
			Deadline: text(t, s, "ack_deadline_seconds"), Retention: text(t, s, "message_retention_duration"),
			Expires:     text(t, s, "expiration_policy.0.ttl"),
			DeadLetters: text(t, s, "dead_letter_policy.0.dead_letter_topic"),
			Attempts:    text(t, s, "dead_letter_policy.0.max_delivery_attempts"),
			Least:       text(t, s, "retry_policy.0.minimum_backoff"),
			Most:        text(t, s, "retry_policy.0.maximum_backoff"),
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}
}

// TestSchedules_TickTheirWorkers holds that each scheduled worker has a job that publishes to the worker's topic.
func TestSchedules_TickTheirWorkers(t *testing.T) {
	t.Parallel()
	type job struct{ Schedule, Zone, Topic, Data string }
	want, got := map[string]job{}, map[string]job{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		if w.Schedule != "" {
			want[`tick["`+w.Name+`"]`] = job{
				Schedule: w.Schedule, Zone: "Etc/UTC", Topic: `google_pubsub_topic.this["` + string(w.Topic) + `"].id`,
				Data: "e30=", // {}
			}
		}
	}
	for address, j := range load(t, nil).resources(t, "google_cloud_scheduler_job") {
		got[address] = job{
			Schedule: text(t, j, "schedule"), Zone: text(t, j, "time_zone"),
			Topic: text(t, j, "pubsub_target.0.topic_name"), Data: text(t, j, "pubsub_target.0.data"),
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

// rule is one rule of the load balancer, with the paths of its pattern.
type rule struct {
	method, pattern, service string
	paths                    *regexp.Regexp
}

func (r rule) matches(method, path string) bool {
	return r.method == method && r.paths.MatchString(path)
}

// pathsOf returns the paths that a pattern matches.
func pathsOf(pattern string) *regexp.Regexp {
	expression := regexp.MustCompile(`\\\{[^}]*=\\\*\\\*\\\}`).ReplaceAllString(regexp.QuoteMeta(pattern), `.+`)
	expression = regexp.MustCompile(`\\\{[^}]*=\\\*\\\}`).ReplaceAllString(expression, `[^/]+`)
	return regexp.MustCompile("^" + expression + "$")
}

func (m *module) rules(t *testing.T) []rule {
	t.Helper()
	var rules []rule
	for _, r := range m.local(t, "rules_of_others").AsValueSlice() {
		pattern := r.GetAttr("literal").AsString() + r.GetAttr("template").AsString()
		rules = append(rules, rule{
			method: r.GetAttr("method").AsString(), pattern: pattern, service: r.GetAttr("service").AsString(),
			paths: pathsOf(pattern),
		})
	}
	return rules
}

// TestRules_LeadToTheServiceOfEachRoute matches the path of every route against the rules in their order. The first
// match must lead to the route's service, so no template may hide a literal path.
func TestRules_LeadToTheServiceOfEachRoute(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		rules, service := m.rules(t), m.local(t, "service_of").AsValueMap()
		for _, r := range functions.Routes(functions.Dependencies{}) {
			own, deployed := service[r.Name]
			if !deployed {
				t.Errorf("functions.json lacks %s: run go generate ./functions", r.Name)
				continue
			}
			paths := []string{regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(r.Path,
				"3fa85f64-5717-4562-b3fc-2c963f66afa6")}
			if short := strings.TrimPrefix(paths[0], function.Prefix); strings.HasPrefix(short, "/agents") {
				paths = append(paths, short)
			}
			for _, path := range paths {
				got := "routes"
				for _, rule := range rules {
					if rule.matches(r.Method, path) {
						got = rule.service
						break
					}
				}
				if want := own.AsString(); got != want {
					t.Errorf("%s %s goes to %s, want %s of %s", r.Method, path, got, want, r.Name)
				}
			}
		}
	})
}

// TestRulesAreWithinLimits checks the limits of a URL map: 200 rules, and five operators in a template.
func TestRulesAreWithinLimits(t *testing.T) {
	t.Parallel()
	rules := load(t, nil).rules(t)
	if len(rules) == 0 || len(rules) > 200 {
		t.Errorf("%d rules: a path matcher takes 200", len(rules))
	}
	for _, r := range rules {
		if strings.Count(r.pattern, "*") > 5 {
			t.Errorf("%s: a template takes five operators", r.pattern)
		}
	}
}
