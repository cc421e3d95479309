package functions_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/mcp"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// errReached is the answer of every port below: the request was valid.
var errReached = fault.New(fault.Conflict, "reached", "The request was valid.")

// reachedAgents is a store of agents that shows that a request was valid.
type reachedAgents struct{}

func (reachedAgents) Get(context.Context, string) (agent.Agent, error) {
	return agent.Agent{}, errReached
}

func (reachedAgents) Await(context.Context, string, func(agent.Agent) bool) (*agent.Agent, error) {
	return nil, errReached
}

func (reachedAgents) List(context.Context, agent.Filter, page.Request) (page.Page[agent.Agent], error) {
	return page.Page[agent.Agent]{}, errReached
}

func (reachedAgents) Create(_ context.Context, a agent.Agent) (agent.Agent, error) {
	if _, err := json.Marshal(a.Show(identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin},
		agent.Addresses{Domain: "d"})); err != nil {
		return a, err // an agent that was accepted must have an answer
	}
	return a, errReached
}

// Change runs the change on an agent in every status: a valid request must not break it.
func (reachedAgents) Change(_ context.Context, _ string, change func(*agent.Agent) error) (agent.Agent, error) {
	for _, status := range agent.Status("").Values() {
		a := agent.Agent{
			ID: "3fa85f64-5717-4562-b3fc-2c963f66afa6", Plan: "pro", Status: agent.Status(status),
			Stages: agent.NewStages(),
			Config: []byte(`{"a":{"b":[1]}}`),
			Env:    []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B_TOKEN", SecretVersion: 1}},
		}
		err := change(&a)
		if fault.From(err) != nil && fault.From(err).Kind == fault.Internal {
			return a, err
		}
		if !json.Valid(a.Config) {
			return a, fault.New(fault.Internal, "config", "The config is not JSON.")
		}
	}
	return agent.Agent{}, errReached
}

// The other ports that a valid request reaches first.
type (
	reachedKeys     struct{ apikey.Store }
	reachedAccounts struct{ billing.Store }
	reachedPayments struct{ billing.Payments }
	reachedMembers  struct{ member.Provider }
	reachedWebhooks struct{ webhook.Store }
	reachedSecrets  struct{}
	reachedSettings struct{}
	// noSecrets is never reached: the record of the agent comes first.
	noSecrets struct{ credential.SecretWriter }
)

func (reachedKeys) Create(context.Context, apikey.Key) (apikey.Key, error) {
	return apikey.Key{}, errReached
}

func (reachedAccounts) Account(context.Context, string) (billing.Account, error) {
	return billing.Account{}, errReached
}

func (reachedPayments) Event([]byte, string) (billing.Event, error) {
	return billing.Event{}, errReached
}

func (reachedMembers) People(context.Context, []string) ([]member.Person, error) {
	return nil, errReached
}

func (reachedSettings) Choose(context.Context, string, func(*organization.Choices) error) error {
	return errReached
}

func (reachedSecrets) Of(webhook.Webhook) (webhook.Secret, error) { return nil, errReached }

func (reachedSecrets) Signing(webhook.Webhook, time.Time) ([]webhook.Secret, error) {
	return nil, errReached
}

func (reachedWebhooks) Change(context.Context, string, func(*webhook.Webhook) (*webhook.Delivery, error)) (
	webhook.Webhook, error,
) {
	return webhook.Webhook{}, errReached
}

// acceptingAPI accepts every token. A message of the Model Context Protocol reaches it before it is read.
type acceptingAPI struct{}

// RoundTrip implements http.RoundTripper.
func (acceptingAPI) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// bodyTest sends bodies to every route that takes one.
type bodyTest struct {
	handler http.Handler
	routes  []function.Route
	// paths are the paths of the routes with values for their parameters.
	paths []string
}

func newBodyTest(f *testing.F) bodyTest {
	f.Helper()
	d := functions.Dependencies{
		Agents: reachedAgents{}, Keys: reachedKeys{}, SecretWriter: noSecrets{}, Accounts: reachedAccounts{},
		Payments: reachedPayments{}, Members: reachedMembers{}, Webhooks: reachedWebhooks{},
		WebhookSecrets: reachedSecrets{}, Organizations: reachedSettings{},
		Settings: functions.Settings{
			Cells: agent.Cells{{Name: "a", Region: agent.DefaultRegion}},
			API:   mcproute.API{BaseURL: "https://api.test", Transport: acceptingAPI{}, Open: mcp.New},
		},
	}
	b := bodyTest{handler: handlerOf(f, d)}
	parameters := strings.NewReplacer("{agent_id}", unknownID, "{user_id}", userID, "{webhook_id}", unknownID)
	for _, r := range functions.Routes(d) {
		takes, err := functiontest.TakesBody(r)
		if err != nil {
			f.Fatal(err)
		}
		if takes && !r.Streams() { // which takes everything
			b.routes, b.paths = append(b.routes, r), append(b.paths, parameters.Replace(r.Path))
		}
	}
	return b
}

// send sends a body to every route. The answer must be that the request was valid, or a clear refusal.
func (b bodyTest) send(t *testing.T, body []byte) {
	t.Helper()
	for i, r := range b.routes {
		res := functiontest.Send(t, b.handler, r.Method, b.paths[i], functiontest.AsAdmin(org),
			functiontest.RawBody(string(body)))
		if r.Access == function.Bearer && (res.Status == 200 || res.Status == 202 || res.Status == 400) {
			continue // the protocol answers with its refusals in a success
		}
		if r.Name == "IntrospectHandoff" && res.Status == 200 {
			continue // every token gets an answer
		}
		if (res.Status != 409 && res.Status != 413 && res.Status != 422) || !json.Valid(res.Body) {
			t.Errorf("%s with the body %q: answer %d %s, want 409, 413 or 422", r.Name, body, res.Status, res.Body)
		}
	}
}

// FuzzBodies sends any body to every route that takes one. It begins with the examples of the routes.
func FuzzBodies(f *testing.F) {
	b := newBodyTest(f)
	for _, r := range b.routes {
		example, err := functiontest.Example(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(example.Body))
		f.Add([]byte(strings.Replace(example.Body, "{", `{"name": 1, "name": 2, `, 1)))
	}
	for _, body := range []string{
		"", "{}", "[]", "null", "\xff", strings.Repeat("[", 20_000),
		`{"name": "\ud800", "resource_plan": "pro"}`,
		`{"name": null, "env_vars": {"A": null, "B_TOKEN": "gsm"}, "config": {"a": null, "c": 1e400}}`,
		`{"name": "a", "resource_plan": "pro", "config": {"": {"": ""}}, "env_vars": {"": ""}}`,
		`{"name": "a", "resource_plan": "pro", "config": {"a": [[[[[[[[[1]]]]]]]]]}}`,
		`{"at": "2026-12-31t23:59:60z"}`,
		`{"maintenance_window": {"days": ["monday"], "start": "02:30", "hours": 99999999999999999999, "timezone": "UTC"}}`,
		`{"secrets": {"A_TOKEN": "v"}, "inject": {"A_TOKEN": {"hosts": ["a.example.com"], "Hosts": 1}}}`,
		`{"enabled": "yes"}`, `{"plan": "pro", "interval": "year"}`, `{"secrets": {"A_TOKEN": "value", "OLD": null}}`,
	} {
		f.Add([]byte(body))
	}
	for _, body := range foundBodies(f) {
		f.Add([]byte(body))
	}
	f.Fuzz(b.send)
}

// foundBodies are bodies that fuzzing found to take new paths through the code, one Go string a line.
func foundBodies(f *testing.F) (bodies []string) {
	f.Helper()
	text, err := os.ReadFile("testdata/bodies.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		body, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			f.Fatalf("testdata/bodies.txt: %v in %s", err, line)
		}
		bodies = append(bodies, body)
	}
	return bodies
}
