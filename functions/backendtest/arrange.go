package backendtest

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// CallNamed calls a route of the catalogue with all dependencies.
func (b *Backend) CallNamed(t testing.TB, name string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	for _, r := range functions.Routes(b.Dependencies) {
		if r.Name == name {
			return b.Call(t, r, options...)
		}
	}
	t.Fatalf("the catalogue has no route %q", name)
	return functiontest.Response{}
}

// SetPlan puts an organization on a plan. The organization may be new.
func (b *Backend) SetPlan(t testing.TB, organizationID string, p plan.ID) {
	t.Helper()
	directory := b.records.Directory()
	_, err := directory.Ensure(t.Context(), organizationID, organization.User{
		ID: uuid.NewString(), Subject: "operator",
		CreatedAt: time.Now(),
	})
	if err == nil {
		err = directory.SetPlan(t.Context(), organizationID, p)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// CreateKey creates an API key of an organization and returns its id and its secret.
func (b *Backend) CreateKey(t testing.TB, organizationID string) (id, secret string) {
	t.Helper()
	return b.createKey(t, organizationID, identity.RoleAdmin)
}

// CreateMemberKey creates an API key that may only read.
func (b *Backend) CreateMemberKey(t testing.TB, organizationID string) (id, secret string) {
	t.Helper()
	return b.createKey(t, organizationID, identity.RoleMember)
}

func (b *Backend) createKey(t testing.TB, organizationID string, r identity.Role) (id, secret string) {
	t.Helper()
	created := b.CallNamed(t, "CreateAPIKey", functiontest.AsAdmin(organizationID),
		functiontest.Body(map[string]string{"name": "test", "role": string(r)})).
		Want(t, http.StatusCreated, "")
	return created.Text("id"), created.Text("secret")
}

// RunningAgent creates an agent as an admin of an organization and reconciles it until it runs.
func (b *Backend) RunningAgent(t testing.TB, organizationID string, env map[string]string) agent.Agent {
	t.Helper()
	body := map[string]any{"name": "test", "resource_plan": plan.Hobby}
	if env != nil {
		body["env_vars"] = env
	}
	id := b.CallNamed(t, "CreateAgent", functiontest.AsAdmin(organizationID), functiontest.Body(body)).
		Want(t, http.StatusCreated, "").Text("id")
	b.Reconcile(t, id)
	a := b.Agent(t, id)
	if a.Status != agent.Running {
		t.Fatalf("the agent is %s, want running: %+v", a.Status, a.Failure)
	}
	return a
}

// Reconcile delivers a nudge about an agent to the worker.
func (b *Backend) Reconcile(t testing.TB, agentID string) {
	t.Helper()
	for _, w := range functions.Workers(b.Dependencies) {
		if w.Topic != function.AgentNudges {
			continue
		}
		if err := w.Handle(t.Context(), Nudge(t, agentID)); err != nil {
			t.Fatalf("%s: %v", w.Name, err)
		}
	}
}

// Nudge is the message that names an agent.
func Nudge(t testing.TB, agentID string) function.Message {
	t.Helper()
	return Message(t, function.AgentNudge{AgentID: agentID})
}

// Message is a message with a body.
func Message(t testing.TB, body any) function.Message {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return function.Message{ID: "1", Data: data}
}

// Agent reads the record of an agent of any organization.
func (b *Backend) Agent(t testing.TB, id string) agent.Agent {
	t.Helper()
	a, err := b.WorkerStore.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// UpdateAgent changes the record of an agent as a worker does, which starts again if a client was faster.
func (b *Backend) UpdateAgent(t testing.TB, id string, change func(*agent.Agent)) agent.Agent {
	t.Helper()
	for {
		a, err := b.WorkerStore.Update(t.Context(), b.Agent(t, id), change)
		switch {
		case err == nil:
			return a
		case !errors.Is(err, agent.ErrSuperseded):
			t.Fatal(err)
		}
	}
}

// Documents returns all documents in the Firestore that the backend started, by their names. It skips the test on
// another one, which has no call for that.
func (b *Backend) Documents(t testing.TB) map[string]string {
	t.Helper()
	if b.firestore == nil {
		t.Skip("lists the documents of the embedded Firestore")
	}
	documents, err := b.firestore.Documents(b.ProjectID, "(default)")
	if err != nil {
		t.Fatal(err)
	}
	return documents
}
