package functions_test

import (
	"bytes"
	"net/http"
	"regexp"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// runsAgain has the routes whose answer is not kept, because it is secret. A repeat runs again.
var runsAgain = map[string]bool{
	"RevealCredentials": true, "CreateCheckoutSession": true, "CreatePortalSession": true,
}

// mutatingRoutes are the routes that an Idempotency-Key applies to.
func mutatingRoutes() []function.Route {
	var routes []function.Route
	for _, r := range functions.Routes(functions.Dependencies{}) {
		inRecords := r.Name != "DeleteAgentFiles" && !r.Streams() // a file is written or deleted again
		if r.Mutates() && r.Access.Authenticates() && inRecords {
			routes = append(routes, r)
		}
	}
	return routes
}

// keyedCall is a call of a route with an Idempotency-Key.
type keyedCall struct {
	*samples
	name    string
	options []functiontest.Option
}

func newKeyedCall(t *testing.T, s *samples, r function.Route) keyedCall {
	t.Helper()
	if prepare := routeCases()[r.Name]; prepare != nil {
		prepare(t, s)
	}
	return keyedCall{s, r.Name, s.request(t, r)}
}

func (c keyedCall) send(t *testing.T, key string, more ...functiontest.Option) functiontest.Response {
	t.Helper()
	options := append([]functiontest.Option{
		functiontest.AsAdmin(org), functiontest.Header(idempotency.Header, key),
	}, c.options...)
	return c.CallNamed(t, c.name, append(options, more...)...)
}

// wantReplay checks that an answer is the first one again. The secret of a key is shown once.
func (c keyedCall) wantReplay(t *testing.T, when string, first, got functiontest.Response) {
	t.Helper()
	want := first.Body
	if secret := first.Text("secret"); secret != "" {
		want = bytes.Replace(want, []byte(`"`+secret+`"`), []byte("null"), 1)
	}
	if c.name == "ExecInAgent" { // outputs are not kept
		want = regexp.MustCompile(`"(stdout|stderr)":"[^"]*"`).ReplaceAll(want, []byte(`"$1":null`))
	}
	if got.Status != first.Status || !bytes.Equal(got.Body, want) {
		t.Errorf("%s: the repeat %s answers %d %s, want the first answer, %d %s", c.name, when, got.Status, got.Body,
			first.Status, want)
	}
	if replayed := got.Header.Get(idempotency.ReplayedHeader); (replayed == "true") == runsAgain[c.name] &&
		c.name != "RevealCredentials" {
		t.Errorf("%s: the repeat %s has %s %q", c.name, when, idempotency.ReplayedHeader, replayed)
	}
}

// TestRoutes_HonorIdempotencyKeys fails for a mutating route that ignores its key. Such a route either commits its
// change through a store that keeps the answer, or sets KeepAnswer.
func TestRoutes_HonorIdempotencyKeys(t *testing.T) {
	t.Parallel()
	for _, r := range mutatingRoutes() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			c := newKeyedCall(t, newSamples(t), r)
			first := c.send(t, "key-1")
			if first.Status != r.Status {
				t.Fatalf("%s answers %d, want %d: %s", r.Name, first.Status, r.Status, first.Body)
			}
			c.wantReplay(t, "soon after", first, c.send(t, "key-1"))
			example, err := functiontest.Example(r)
			must(t, err)
			c.send(t, "key-1", functiontest.RawBody(example.Body+" ")).
				Want(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
			if r.Name == "RevealCredentials" {
				return // it runs again, and fails without its agent
			}
			c.removeEverything(t)
			c.wantReplay(t, "after its objects are gone", first, c.send(t, "key-1"))
			if _, aboutAgent := example.Path["agent_id"]; aboutAgent {
				c.send(t, "key-2").Want(t, http.StatusNotFound, "agent_not_found")
				c.send(t, "key-1", functiontest.RawBody(example.Body+" ")).
					Want(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
			}
		})
	}
}

// removeEverything removes the agent, the member and the secret store of the samples.
func (s *samples) removeEverything(t *testing.T) {
	t.Helper()
	must(t, s.WorkerStore.Remove(t.Context(), s.Agent(t, s.agentID), agent.Deletion{}))
	delete(s.Firebase.Persons, userID)
}
