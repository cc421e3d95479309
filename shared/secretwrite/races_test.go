package secretwrite_test

import (
	"context"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
	"agents.example/controlplane/shared/simulationtest"
)

// raced are agents of which something else changes the record right before the first change of a request.
type raced struct {
	simulationtest.Agents
	before func()
}

func (r *raced) Change(ctx context.Context, id string, apply func(*agent.Agent) error) (agent.Agent, error) {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return r.Agents.Change(ctx, id, apply)
}

// raceFixture is a new agent and what requests write to.
type raceFixture struct {
	admin  context.Context //nolint:containedctx // of an admin
	id     string
	agents *raced
	store  simulationtest.SecretClient
	ahead  time.Duration
}

func newRaceFixture(t *testing.T) *raceFixture {
	t.Helper()
	f := &raceFixture{admin: call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user", OrganizationID: "org", Role: identity.RoleAdmin,
	})}
	o, d := &simulationtest.Direct{}, simulationtest.NewDatabase()
	d.SetPlan("org", plan.Pro)
	f.agents = &raced{Agents: simulationtest.Agents{Database: d, Process: o}}
	f.store = simulationtest.SecretClient{Store: simulationtest.NewSecretStore(f.now), Process: o}
	a, err := f.agents.Create(f.admin, agent.New(agenttest.ID(), "cell-1",
		agent.Draft{Name: "a", Plan: plan.Hobby}, f.now()))
	if err != nil {
		t.Fatal(err)
	}
	f.id = a.ID
	return f
}

func (f *raceFixture) now() time.Time { return time.Now().Add(f.ahead) }

func (f *raceFixture) put(add map[string]func() error, key string) ([]secret.Operation, error) {
	value := "value"
	service := secretwrite.Service{Agents: f.agents, Secrets: failing{f.store, add}, Now: f.now}
	_, operations, err := service.Put(f.admin, f.id, secretwrite.Changes{Values: map[string]*string{key: &value}})
	return operations, err
}

// Two clients set different keys. The second one must not have to repeat its request.
func TestPut_TriesAgainAfterALostRace(t *testing.T) {
	t.Parallel()
	f := newRaceFixture(t)
	f.agents.before = func() {
		if _, err := f.put(nil, "OTHER"); err != nil {
			t.Error(err)
		}
	}
	operations, err := f.put(nil, "OWN")
	if err != nil || len(operations) != 1 || operations[0].Version != 1 {
		t.Errorf("Put = %+v, %v, want version 1", operations, err)
	}
}

// One of the two versions is another request's, and the record does not say which.
func TestReconcile_AdoptsNoneOfTwoVersions(t *testing.T) {
	t.Parallel()
	f := newRaceFixture(t)
	lost := func() error { return fault.New(fault.Unavailable, "secret_store_unavailable", "The answer was lost.") }
	if _, err := f.put(map[string]func() error{"TOKEN": lost}, "TOKEN"); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("Put = %v, want Unavailable", err)
	}
	a, err := f.agents.Get(f.admin, f.id)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.ahead += time.Second
		if _, err := f.store.Put(t.Context(), f.id, "TOKEN", []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	f.ahead += secret.StoringTime
	service := secretwrite.Service{Agents: f.agents, Secrets: f.store, Now: f.now}
	o, err := service.Reconcile(f.admin, f.id, a.Operations[0].ID)
	if fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("Reconcile = %+v, %v, want secret_value_unavailable", o, err)
	}
}
