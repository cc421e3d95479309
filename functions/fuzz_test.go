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
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
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
	if _, err := json.Marshal(a.Show(identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin}, agent.Addresses{Domain: "d"})); err != nil {
		return a, err // what was accepted must be shown, too
	}
	return a, errReached
}

// Change runs the change on agents in different states: a valid request never breaks one.
func (nothing) Change(_ context.Context, _ string, change func(*agent.Agent) error) (agent.Agent, error) {
	for _, status := range agent.Status("").Values() {
		a := agent.Agent{
			ID: "3fa85f64-5717-4562-b3fc-2c963f66afa6", Plan: "pro", Status: agent.Status(status), Stages: agent.NewStages(),
			Config: []byte(`{"a":{"b":[1]}}`), Env: []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B_TOKEN", SecretVersion: 1}},
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
type noDepositary struct{ credential.Depositary }

// FuzzBodies sends any body to every route that takes one. The answer is a clear 4xx, whatever the body is.
func FuzzBodies(f *testing.F) {
	open := func([]function.Need) (functions.Dependencies, error) {
		return functions.Dependencies{Agents: nothing{}, Depositary: noDepositary{}, Settings: functions.Settings{
			Cells: agent.Cells{{Name: "a", Region: "us-central1"}},
		}}, nil
	}
	h, err := functions.Handler(functions.Selection{Roles: []function.Role{function.RoleAPI}}, open,
		functions.Guards{Guard: function.Guard{Authenticator: letIn{}}})
	if err != nil {
		f.Fatal(err)
	}
	const one = "/agents/3fa85f64-5717-4562-b3fc-2c963f66afa6"
	targets := []struct{ method, path string }{
		{http.MethodPost, "/agents"}, {http.MethodPatch, one}, {http.MethodPost, one + "/migrate-sandbox"},
		{http.MethodPut, one + "/secrets"},
	}
	for _, body := range []string{
		"", "{}", "[]", "null", `{"name": "a", "resource_plan": "pro"}`, `{"name": "a", "resource_plan": "pro", "env_vars": {"A": "1", "A_TOKEN": "2"}}`,
		`{"name": null, "env_vars": {"A": null, "B_TOKEN": "gsm"}, "config": {"a": null, "c": 1e400}}`, `{"enabled": "yes"}`,
		`{"name": "\ud800", "resource_plan": "pro"}`, `{"name": "a", "name": "b"}`, `{"config": {"a": [[[[[[[[[1]]]]]]]]]}}`,
		`{"name": "a", "resource_plan": "pro", "config": {"": {"": ""}}, "env_vars": {"": ""}}`, "\xff", strings.Repeat("[", 20_000),
		`{"secrets": {"A_TOKEN": "1", "B": null}}`, `{"secrets": {"": "", "PATH": "x", "A": 1, "B": ["x"], "C": "\u0000"}}`, `{"secrets": null}`, `{"secrets": []}`,
	} {
		for target := range targets {
			f.Add(uint8(target), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, target uint8, body []byte) {
		to := targets[int(target)%len(targets)]
		req := httptest.NewRequest(to.method, to.path, strings.NewReader(string(body)))
		req.Header.Set("Authorization", "Bearer token")
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if (w.Code != 409 && w.Code != 413 && w.Code != 422) || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s with %q: %d %s", to.method, to.path, body, w.Code, w.Body)
		}
	})
}
