package agents_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/plan"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

// newRoomyBackend has org-1 on a plan with room for many agents, and with all features.
func newRoomyBackend(t *testing.T) *backendtest.Backend {
	t.Helper()
	b := backendtest.New(t)
	b.SetPlan(t, org, plan.Enterprise)
	return b
}

// callAgent calls a route about an agent as an admin of org-1, unless an option names another caller.
func callAgent(
	t *testing.T, b *backendtest.Backend, id, route string, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	all := []functiontest.Option{functiontest.AsAdmin(org), functiontest.Path("agent_id", id)}
	return b.CallNamed(t, route, append(all, options...)...)
}

// patchAgent changes an agent of org-1.
func patchAgent(
	t *testing.T, b *backendtest.Backend, id, body string, options ...functiontest.Option,
) functiontest.Response {
	t.Helper()
	return callAgent(t, b, id, "UpdateAgent", append(options, functiontest.RawBody(body))...)
}

// createAgent creates an agent of org-1. more are further members of the body.
func createAgent(t *testing.T, b *backendtest.Backend, more string) functiontest.Response {
	t.Helper()
	return b.CallNamed(t, "CreateAgent", functiontest.AsAdmin(org),
		functiontest.RawBody(`{"name":"a","resource_plan":"hobby"`+more+`}`))
}

// fieldOf decodes a field that an answer must have.
func fieldOf[T any](t *testing.T, res functiontest.Response, name string) (value T) {
	t.Helper()
	var all map[string]json.RawMessage
	res.Decode(t, &all)
	if text := all[name]; text == nil || string(text) == "null" {
		t.Fatalf("answer %s, want %s", res.Body, name)
	}
	must(t, json.Unmarshal(all[name], &value))
	return value
}

// dryRun makes a call a rehearsal.
func dryRun() functiontest.Option { return functiontest.Query(url.Values{"dry_run": {"true"}}) }

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf drops the result of a call that also returns an error.
func errorOf[T any](_ T, err error) error { return err }
