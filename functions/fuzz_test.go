package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/page"
)

// errReached is what every store answers: the request was valid.
var errReached = fault.New(fault.Conflict, "reached", "The request was valid.")

// nothing is a store in which nothing is possible.
type nothing struct{}

func (nothing) Get(context.Context, string) (agent.Agent, error) { return agent.Agent{}, errReached }

func (nothing) Await(context.Context, string, func(agent.Agent) bool) (agent.Agent, error) {
	return agent.Agent{}, errReached
}

func (nothing) List(context.Context, agent.Filter, page.Request) (page.Page[agent.Agent], error) {
	return page.Page[agent.Agent]{}, errReached
}

func (nothing) Create(_ context.Context, a agent.Agent) (agent.Agent, error) {
	if _, err := json.Marshal(a.Show(identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin},
		agent.Addresses{Domain: "d"})); err != nil {
		return a, err // what was accepted must be shown, too
	}
	return a, errReached
}

// Change runs the change on agents in different states: a valid request never breaks one.
func (nothing) Change(_ context.Context, _ string, change func(*agent.Agent) error) (agent.Agent, error) {
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
			return a, fault.New(fault.Internal, "config", "The config is no JSON any more.")
		}
	}
	return agent.Agent{}, errReached
}

// noDepositary is a secret store in which nothing is, and to which nothing gets.
type noDepositary struct{ credential.SecretWriter }

// noKeys is a store of API keys in which nothing is possible.
type noKeys struct{ apikey.Store }

func (noKeys) Create(context.Context, apikey.Key) (apikey.Key, error) {
	return apikey.Key{}, errReached
}

// noAccounts, noPayments and noMembers are where the requests of accounts end.
type (
	noAccounts struct{ billing.Store }
	noPayments struct{ billing.Payments }
	noMembers  struct{ member.Provider }
)

func (noAccounts) Account(context.Context, string) (billing.Account, error) {
	return billing.Account{}, errReached
}

func (noPayments) Event([]byte, string) (billing.Event, error) { return billing.Event{}, errReached }

func (noMembers) People(context.Context, []string) ([]member.Person, error) { return nil, errReached }

// one is the path of an agent.
const one = "/agents/3fa85f64-5717-4562-b3fc-2c963f66afa6"

// bodies lists what each route that takes a body is fuzzed with, beside what is kept in testdata/fuzz. A route that is
// missing here fails TestEveryBodyIsFuzzed.
func bodies() map[string]string {
	return map[string]string{
		"CreateAgent":         `{"name": "a", "resource_plan": "pro", "env_vars": {"A": "1", "A_TOKEN": "2"}, "config": {"a": [1]}}`,
		"UpdateAgent":         `{"name": null, "env_vars": {"A": null, "B_TOKEN": "gsm"}, "config": {"a": null, "c": 1e400}}`,
		"MigrateAgentSandbox": `{"enabled": "yes"}`,
		"PutSecrets":          `{"secrets": {"A_TOKEN": "value", "OLD": null}}`,
		"CreateAPIKey":        `{"name": "a", "purpose": "ci", "expires_in_days": 30}`,

		"CreateCheckoutSession": `{"plan": "pro", "interval": "year"}`,
		"ReceiveStripeEvent":    `{"id": "evt_1", "type": "invoice.paid", "data": {"object": {"subscription": "sub_1"}}}`,
		"SetMember":             `{"role": "admin"}`,
	}
}

func FuzzCreateAgent(f *testing.F) { fuzz(f, "CreateAgent", http.MethodPost, "/agents") }
func FuzzUpdateAgent(f *testing.F) { fuzz(f, "UpdateAgent", http.MethodPatch, one) }
func FuzzMigrateAgentSandbox(f *testing.F) {
	fuzz(f, "MigrateAgentSandbox", http.MethodPost, one+"/migrate-sandbox")
}
func FuzzPutSecrets(f *testing.F)   { fuzz(f, "PutSecrets", http.MethodPut, one+"/secrets") }
func FuzzCreateAPIKey(f *testing.F) { fuzz(f, "CreateAPIKey", http.MethodPost, "/api/v1/api-keys") }

func FuzzCreateCheckoutSession(f *testing.F) {
	fuzz(f, "CreateCheckoutSession", http.MethodPost, "/api/v1/billing/checkout-session")
}

func FuzzReceiveStripeEvent(f *testing.F) {
	fuzz(f, "ReceiveStripeEvent", http.MethodPost, "/api/v1/billing/webhooks/stripe")
}

func FuzzSetMember(f *testing.F) {
	fuzz(f, "SetMember", http.MethodPut, "/api/v1/organizations/current/members/ada")
}

// TestEveryBodyIsFuzzed fails when a route takes a body that nothing above sends.
func TestEveryBodyIsFuzzed(t *testing.T) {
	t.Parallel()
	for _, r := range functions.Routes(functions.Dependencies{}) {
		s, err := function.Schema(r.Handle.Input)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := bodies()[r.Name]; !ok && s.Properties["body"] != nil {
			t.Errorf("%s takes a body: add a fuzz target and a good body for it", r.Name)
		}
	}
}

// fuzz sends any body to a route. The answer is a clear 4xx, whatever the body is.
func fuzz(f *testing.F, name, method, path string) {
	open := func([]function.Need) (functions.Dependencies, error) {
		return functions.Dependencies{
			Agents: nothing{}, Keys: noKeys{}, SecretWriter: noDepositary{}, Accounts: noAccounts{},
			Payments: noPayments{}, Members: noMembers{},
			Settings: functions.Settings{Cells: agent.Cells{{Name: "a", Region: "us-central1"}}},
		}, nil
	}
	h, err := functions.Handler(functions.Selection{Target: name}, open,
		functions.Guards{Guard: function.Guard{Authenticator: letIn{}}})
	if err != nil {
		f.Fatal(err)
	}
	good := bodies()[name]
	for _, body := range []string{
		good, "", "{}", "[]", "null", `{"name": "\ud800", "resource_plan": "pro"}`,
		strings.Replace(good, "{", `{"name": 1, "name": 2, `, 1),
		`{"config": {"a": [[[[[[[[[1]]]]]]]]]}}`,
		`{"name": "a", "resource_plan": "pro", "config": {"": {"": ""}}, "env_vars": {"": ""}}`,
		"\xff", strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req := httptest.NewRequest(method, path, strings.NewReader(string(body)))
		req.Header.Set("Authorization", "Bearer token")
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if (w.Code != 409 && w.Code != 413 && w.Code != 422) || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s with %q: %d %s", method, path, body, w.Code, w.Body)
		}
	})
}
