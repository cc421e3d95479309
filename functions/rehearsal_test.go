package functions_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"agents.example/controlplane/emulators/secretmanageremu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// TestRehearsals_CoverEveryChangeOfAnAgent finds the route of an agent that someone adds without a rehearsal.
func TestRehearsals_CoverEveryChangeOfAnAgent(t *testing.T) {
	t.Parallel()
	exempt := map[string]string{
		"ExecInAgent":       "what a command would do is known when it has done it",
		"PutAgentFiles":     "files are in the container, and in no record",
		"DeleteAgentFiles":  "files are in the container, and in no record",
		"RevealCredentials": "it changes nothing but the audit log, which has to show who has seen the credentials",
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		ofAgent := r.Mutates() && strings.HasPrefix(r.Path, "/api/v1/agents")
		_, isExempt := exempt[r.Name]
		switch want := ofAgent && !isExempt; {
		case want && r.Rehearsal == nil:
			t.Errorf("%s changes an agent and cannot be rehearsed: add to the route\n"+
				"Rehearsal: function.Rehearse(rehearsal.Of(d)),", r.Name)
		case !want && r.Rehearsal != nil:
			t.Errorf("%s can be rehearsed, and changes no agent", r.Name)
		}
	}
	if got, want := len(rehearsedRoutes()), 18; got < want {
		t.Errorf("%d routes can be rehearsed, want at least %d", got, want)
	}
}

// TestRoutes_RefuseWhatTheyMayOverlookOfDryRun sends each change with spellings of dry_run that are none, and those
// that have no rehearsal with dry_run itself. The routes have no stores, so a call of a handler would panic.
func TestRoutes_RefuseWhatTheyMayOverlookOfDryRun(t *testing.T) {
	t.Parallel()
	spellings := []string{
		"DRY_RUN=true", "Dry_Run=1", "dry-run=true", "dryrun=true", "dryRun=true", "dry%20run=true", "dry.run",
		"dry_run[]=true", "dry_run%5B%5D=true", "%20dry_run=true", "dry_run=true&dry_run=true", "a=b;dry_run=true",
		"dry_run=true&dryRun=false", "dry_run=maybe", "dry_run", "dry_run=", "--dry-run", "%64ry_ru%6E=",
		"dry_run%3Dtrue", "dry%255Frun=true", "a=b?dry_run=true", "?dry_run=true", "dry_run:true", "dry_run[0]=true",
		"dry_run=%zz", "dry_run%zz=true", "%zz&DRY_RUN=1", "dry_run=true%26dry_run=false",
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if !r.Mutates() {
			continue
		}
		example, err := functiontest.Example(r)
		must(t, err)
		tried := spellings
		if r.Rehearsal == nil {
			tried = append([]string{"dry_run=true", "dry_run=false"}, spellings...)
		}
		for _, query := range tried {
			options := []functiontest.Option{
				functiontest.AsAdmin(org), functiontest.RawQuery(query + "&" + example.Query.Encode()),
			}
			if example.Body != "" {
				options = append(options, functiontest.RawBody(example.Body))
			}
			for _, parameter := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(r.Path, -1) {
				options = append(options, functiontest.Path(parameter[1], uuid.NewString()))
			}
			if res := functiontest.Call(t, r, options...); res.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s?%s: status %d %s, want 422", r.Name, query, res.Status, res.Body)
			}
		}
	}
}

// TestRoutes_RefuseDryRunInTheirBody sends each change with the flag where other APIs take it, also those that have no
// body. The bodies of MCP and of the payment provider have other names.
func TestRoutes_RefuseDryRunInTheirBody(t *testing.T) {
	t.Parallel()
	h := handlerWithoutStores(t)
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if !r.Mutates() || r.Name == "CallMCP" || r.Name == "ReceiveStripeEvent" || r.Streams() {
			continue
		}
		example, err := functiontest.Example(r)
		must(t, err)
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(r.Path, uuid.NewString())
		for _, flag := range []string{`"dry_run": true`, `"dryRun": ["All"]`, `"DRY-RUN": false`} {
			body := "{" + flag + "}"
			if rest, ok := strings.CutPrefix(example.Body, "{"); ok {
				body = "{" + flag + ", " + rest
			}
			res := send(t, h, r.Method, path+"?"+example.Query.Encode(), body).
				Want(t, http.StatusUnprocessableEntity, "validation_error")
			if !strings.Contains(string(res.Body), `["body","dry_run"]`) {
				t.Errorf("%s with %s: %s, want a violation at body.dry_run", r.Name, body, res.Body)
			}
		}
	}
	nested := `{"name": "a", "resource_plan": "hobby", "env_vars": {"DRY_RUN": "1"}, "config": {"dry_run": true}}`
	if res := send(t, h, http.MethodPost, "/api/v1/agents", nested); res.Status == http.StatusUnprocessableEntity {
		t.Errorf("a variable of the agent: status %d %s, want it accepted", res.Status, res.Body)
	}
}

// rehearsedRoutes are the routes that can be rehearsed, by name.
func rehearsedRoutes() map[string]function.Route {
	routes := map[string]function.Route{}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Rehearsal != nil {
			routes[r.Name] = r
		}
	}
	return routes
}

// rehearsalCase is one agent, in one organization, and one request about it.
type rehearsalCase struct {
	organization string
	agent        string
	snapshot     string
	route        string
	options      []functiontest.Option
	// atRest is true if the agent runs and no worker has work on it.
	atRest bool
}

// TestRehearsals_TellWhatTheRealCallDoes rehearses random requests in random states and then makes them.
func TestRehearsals_TellWhatTheRealCallDoes(t *testing.T) {
	t.Parallel()
	// The cases take seconds, in which they make more calls of the secret store than a project may make in a minute.
	const unlimited = 1_000_000
	b := backendtest.NewWith(t, backendtest.Options{SecretQuotas: secretmanageremu.Quotas{
		Reads: unlimited, Writes: unlimited, Accesses: unlimited,
	}})
	var refused, accepted int
	rapid.Check(t, func(r *rapid.T) {
		c := drawCase(t, r, b)
		before, record := b.Documents(t), b.Agent(t, c.agent)
		b.ForgetUses()
		rehearsal := b.CallNamed(t, c.route, append(slices.Clip(c.options),
			functiontest.Query(url.Values{"dry_run": {"true"}}))...)
		after := b.Documents(t)
		if rehearsal.Status == http.StatusForbidden { // its audit entry is the only document
			maps.DeleteFunc(after, func(name, _ string) bool {
				return before[name] == "" && strings.Contains(name, "/audit_log/")
			})
		}
		if diff := cmp.Diff(before, after); diff != "" {
			r.Fatalf("%s wrote documents (-before +after):\n%s", c.route, diff)
		}
		// The reconciliation of an operation reads the secret store, to find out whether the value is there.
		forbidden := []string{"Nudger", "SecretWriter"}
		if c.route == "ReconcileSecretOperation" {
			forbidden = forbidden[:1]
		}
		used := b.Uses()
		if slices.ContainsFunc(used, func(name string) bool { return slices.Contains(forbidden, name) }) {
			r.Fatalf("the rehearsal of %s used %v, want none of %v", c.route, used, forbidden)
		}
		usage := usageOf(t, b, c.organization)
		real := b.CallNamed(t, c.route, c.options...)
		if real.Status >= http.StatusBadRequest {
			refused++
			wantSameRefusal(r, c, rehearsal, real)
			return
		}
		accepted++
		would, _ := rehearsal.JSON["would"].(map[string]any)
		if rehearsal.Status != http.StatusOK || would == nil {
			r.Fatalf("%s: the rehearsal answers %d %s, the real call %d", c.route, rehearsal.Status, rehearsal.Body,
				real.Status)
		}
		shown := agentAfter(t, b, c, real)
		if diff := cmp.Diff(comparable(shown, c), comparable(rehearsal.JSON["agent"], c)); diff != "" {
			r.Fatalf("%s: the agent after the real call and the rehearsal (-real +rehearsal):\n%s", c.route, diff)
		}
		want := map[string]any{
			"status": shown["status"], "usage_before": usage, "usage_after": usageOf(t, b, c.organization),
		}
		for field, value := range want {
			if !reflect.DeepEqual(would[field], value) {
				r.Fatalf("%s: would.%s = %v, want %v", c.route, field, would[field], value)
			}
		}
		if c.atRest && c.route != "CreateAgent" {
			if replaced := podReplaced(t, b, record); would["restarts"] != replaced {
				r.Fatalf("%s: would.restarts = %v, but the pod was replaced: %t", c.route, would["restarts"], replaced)
			}
		}
	})
	t.Logf("%d requests refused, %d accepted", refused, accepted)
	if !testing.Short() && (refused == 0 || accepted == 0) { // a short run draws too few
		t.Errorf("%d requests refused, %d accepted: want some of each", refused, accepted)
	}
}

// wantSameRefusal compares two errors apart from their request ids.
func wantSameRefusal(r *rapid.T, c rehearsalCase, rehearsal, real functiontest.Response) {
	delete(rehearsal.JSON, "request_id")
	delete(real.JSON, "request_id")
	if rehearsal.Status != real.Status || !reflect.DeepEqual(rehearsal.JSON, real.JSON) {
		r.Fatalf("%s: the rehearsal answers %d %v, the real call %d %v", c.route, rehearsal.Status, rehearsal.JSON,
			real.Status, real.JSON)
	}
}

// usageOf reads the usage of an organization as its members see it.
func usageOf(t *testing.T, b *backendtest.Backend, organization string) any {
	return b.CallNamed(t, "GetCurrentOrganization", functiontest.AsMember(organization)).
		Want(t, http.StatusOK, "").JSON["usage"]
}

// agentAfter returns the agent as the answer to a change shows it, or as it is read afterwards.
func agentAfter(t *testing.T, b *backendtest.Backend, c rehearsalCase, real functiontest.Response) map[string]any {
	if real.Text("namespace") != "" {
		return real.JSON
	}
	return b.CallNamed(t, "GetAgent", functiontest.AsAdmin(c.organization), functiontest.Path("agent_id", c.agent)).
		Want(t, http.StatusOK, "").JSON
}

// comparable returns a shown agent without its times and without what differs between two readings. A new agent has
// another id.
func comparable(shown any, c rehearsalCase) map[string]any {
	a, _ := shown.(map[string]any)
	delete(a, "updated_at")
	delete(a, "dashboard_handoff_url")
	if c.route == "CreateAgent" {
		delete(a, "id")
		delete(a, "namespace")
		delete(a, "created_at")
	}
	return a
}

// podReplaced lets a worker apply the change, and reports whether the agent has another pod.
func podReplaced(t *testing.T, b *backendtest.Backend, before agent.Agent) bool {
	after := b.Agent(t, before.ID)
	switch {
	case !after.WantsPod():
		return false
	case after.StoppedFor != "":
		return true
	}
	b.Reconcile(t, before.ID)
	after = b.Agent(t, before.ID)
	type pod struct {
		env                 []agent.EnvVar
		rollout, credential int64
		sandbox             bool
		size                plan.ID
		config              string
		files               []agent.File
		public              []string
	}
	of := func(a agent.Agent) pod {
		env := slices.Clone(a.Env)
		for i := range env {
			env[i].SetAt = time.Time{}
		}
		return pod{
			env: env, rollout: a.Rollout, credential: a.CredentialVersion, sandbox: a.Sandbox, size: a.Plan,
			config: string(a.Config), files: a.Files, public: a.PublicPaths,
		}
	}
	return !reflect.DeepEqual(of(before), of(after))
}

// drawCase makes an organization in a random state with an agent in a random state, and draws a request.
func drawCase(t *testing.T, r *rapid.T, b *backendtest.Backend) rehearsalCase {
	c := rehearsalCase{organization: "org-" + uuid.NewString()}
	roomy := rapid.Bool().Draw(r, "roomy")
	if roomy {
		b.SetPlan(t, c.organization, plan.Startup)
	}
	c.agent = b.RunningAgent(t, c.organization, map[string]string{"LEVEL": "info", "API_TOKEN": "value"}).ID
	c.snapshot = drawSnapshot(t, r, b, c.agent)
	c.atRest = true
	if roomy {
		drawAccount(t, r, b, c.organization)
	}
	if rapid.Bool().Draw(r, "moved") {
		c.atRest = false
		drawRecord(t, r, b, c.agent)
	}
	drawRequest(t, r, b, &c)
	return c
}

// drawSnapshot gives an agent a snapshot in a random state, and returns its id.
func drawSnapshot(t *testing.T, r *rapid.T, b *backendtest.Backend, agentID string) string {
	now := time.Now().UTC().Truncate(time.Microsecond)
	status := rapid.SampledFrom(agent.SnapshotStatus("").Values()).Draw(r, "snapshot")
	a := b.UpdateAgent(t, agentID, func(a *agent.Agent) {
		s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, now)
		if err != nil {
			r.Fatal(err)
		}
		a.RecordSnapshot(s.ID, agent.SnapshotState{CutAt: now, Handle: "h", Ready: true, SizeBytes: 1 << 30}, now)
		a.Snapshots[0].Status = agent.SnapshotStatus(status)
	})
	return a.Snapshots[0].ID
}

// drawAccount brings an organization into a random billing state.
func drawAccount(t *testing.T, r *rapid.T, b *backendtest.Backend, organization string) {
	switch rapid.SampledFrom([]string{"paid", "paid", "past due", "shrunk"}).Draw(r, "account") {
	case "past due":
		b.Stripe.Subscriptions["sub_"+organization] = billing.State{
			OrganizationID: organization, Subscription: billing.Subscription{
				Provider: billing.Stripe, ID: "sub_" + organization, CustomerID: "cus_" + organization,
				Status: billing.PastDue, Plan: plan.Startup, Interval: billing.Month, StartedAt: time.Now(),
			},
		}
		b.CallNamed(t, "ReceiveStripeEvent", functiontest.Body(map[string]any{
			"id": "evt_" + organization, "data": map[string]any{"object": map[string]any{"id": "sub_" + organization}},
		})).Want(t, http.StatusOK, "")
	case "shrunk":
		b.RunningAgent(t, organization, nil)
		b.SetPlan(t, organization, plan.Hobby)
	}
}

// drawRecord brings an agent into a random state.
func drawRecord(t *testing.T, r *rapid.T, b *backendtest.Backend, id string) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	status := rapid.SampledFrom(agent.Status("").Values()).Draw(r, "status")
	warming, ahead := rapid.Bool().Draw(r, "warming"), rapid.Bool().Draw(r, "ahead")
	failed := rapid.Bool().Draw(r, "failed")
	var operation *secret.Operation
	if rapid.Bool().Draw(r, "operation") {
		o := secret.New(secret.Operation{
			ID: uuid.NewString(), AgentID: id,
			Key:    rapid.SampledFrom([]string{"OPEN_TOKEN", "API_TOKEN"}).Draw(r, "key"),
			Action: secret.Set, Bytes: 5, LatestBefore: 1, Version: 2,
		}, now)
		o.Stage = rapid.SampledFrom([]secret.Stage{
			secret.Store, secret.Bind, secret.Sync, secret.Rollout, secret.Complete,
		}).Draw(r, "stage")
		o.Status = rapid.SampledFrom([]secret.Status{secret.Pending, secret.Failed}).Draw(r, "operation status")
		o.StoringUntil = now.Add(-time.Minute)
		operation = &o
	}
	b.UpdateAgent(t, id, func(a *agent.Agent) {
		a.Status, a.Warming = agent.Status(status), warming
		if ahead {
			a.Generation++
		}
		if failed {
			a.Failure = &agent.Failure{Code: "crash_loop", Message: "The container ends.", Retryable: true}
		}
		if operation != nil {
			a.Operations = append(a.Operations, *operation)
		}
	})
}

// drawRequest draws a request about the case's agent.
func drawRequest(t *testing.T, r *rapid.T, b *backendtest.Backend, c *rehearsalCase) {
	routes := rehearsedRoutes()
	c.route = rapid.SampledFrom(slices.Sorted(maps.Keys(routes))).Draw(r, "route")
	example, err := functiontest.Example(routes[c.route])
	if err != nil {
		r.Fatal(err)
	}
	as := functiontest.AsAdmin(c.organization)
	switch caller := rapid.IntRange(0, 19).Draw(r, "caller"); {
	case caller == 0:
		as = functiontest.AsMember(c.organization)
	case caller == 1 && c.route != "CreateAgent":
		as = functiontest.AsAdmin("org-other")
	}
	b.CallNamed(t, "GetCurrentOrganization", as) // the first call of a user records the user
	c.options = []functiontest.Option{as}
	for name, value := range example.Path {
		c.options = append(c.options, functiontest.Path(name, value))
	}
	if c.route != "CreateAgent" {
		c.options = append(c.options, functiontest.Path("agent_id", c.agent))
	}
	switch rapid.IntRange(0, 5).Draw(r, "condition") {
	case 0:
		c.options = append(c.options, functiontest.Header("If-Match", `"another"`))
	case 1:
		c.options = append(c.options, functiontest.Header("If-Match", b.Agent(t, c.agent).EntityTag()))
	}
	c.options = append(c.options, functiontest.Header("Idempotency-Key", uuid.NewString()))
	if body := drawBody(r, c.route, example); body != nil {
		c.options = append(c.options, functiontest.Body(body))
	}
	switch c.route {
	case "DeleteSnapshot":
		c.options = append(c.options, functiontest.Path("snapshot_id", c.snapshot))
	case "RestoreAgent":
		c.options = append(c.options, functiontest.Body(map[string]string{"snapshot_id": c.snapshot}))
	case "DeleteSecret":
		key := rapid.SampledFrom([]string{"API_TOKEN", "OPEN_TOKEN", "NONE"}).Draw(r, "deleted")
		c.options = append(c.options, functiontest.Path("key", key))
	case "ReconcileSecretOperation":
		id := uuid.NewString()
		if open := b.Agent(t, c.agent).Operations; len(open) > 0 {
			id = open[0].ID
		}
		c.options = append(c.options, functiontest.Path("operation_id", id))
	}
}

// drawBody draws the body of a request, or takes the example of a route that it does not know; nil for a route without
// one.
func drawBody(r *rapid.T, route string, example functiontest.Sample) any {
	pick := func(bodies ...string) any {
		return rapid.Map(rapid.SampledFrom(bodies), func(text string) rawJSON { return rawJSON(text) }).Draw(r, "body")
	}
	switch route {
	case "CreateAgent":
		return pick(`{"name":"new","resource_plan":"hobby"}`, `{"name":"new","resource_plan":"startup"}`,
			`{"name":"new","resource_plan":"enterprise"}`, `{"name":"","resource_plan":"hobby"}`,
			`{"name":"new","resource_plan":"hobby","env_vars":{"NEW_TOKEN":"value"}}`)
	case "TakeSnapshot":
		return pick(`{}`, `{"consistency":"crash"}`, `{"consistency":"stop","name":"by hand"}`, `{"consistency":"hook"}`)
	case "RestoreAgent":
		return nil // it names a snapshot of the agent
	case "UpdateAgent":
		return pick(`{"name":"renamed"}`, `{"env_vars":{"LEVEL":"debug"}}`, `{"env_vars":{"LEVEL":"info"}}`,
			`{"env_vars":{"API_TOKEN":"x"}}`, `{"config":{"team":"a"}}`, `{"config":null}`,
			`{"resource_plan":"startup"}`, `{"resource_plan":"hobby"}`, `{"resource_plan":"enterprise"}`)
	case "MigrateAgentSandbox":
		return pick(`{"enabled":true}`, `{"enabled":false}`, `{"enabled":null}`)
	case "PutSecrets":
		return pick(`{"secrets":{"API_TOKEN":"other"}}`, `{"secrets":{"NEW_TOKEN":"value","API_TOKEN":null}}`,
			`{"secrets":{"NONE":null}}`, `{"secrets":{"OPEN_TOKEN":"value"}}`,
			fmt.Sprintf(`{"secrets":{"LARGE":%q}}`, strings.Repeat("x", 65537)))
	default:
		if example.Body == "" {
			return nil
		}
		return rawJSON(example.Body)
	}
}

// rawJSON is a body that is written as it is.
type rawJSON string

// MarshalJSON implements json.Marshaler.
func (j rawJSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }
