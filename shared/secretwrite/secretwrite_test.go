package secretwrite_test

import (
	"context"
	"testing"

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

// failing is a secret store in which adding a value of some keys fails.
type failing struct {
	simulationtest.SecretClient
	add map[string]func() error
}

func (f failing) PutFirst(ctx context.Context, id, key string, value []byte) (int64, error) {
	return f.Put(ctx, id, key, value)
}

func (f failing) Put(ctx context.Context, id, key string, value []byte) (int64, error) {
	if add := f.add[key]; add != nil {
		return 0, add()
	}
	return f.SecretClient.Put(ctx, id, key, value)
}

// putTwo sets FIRST and SECOND of a new agent.
func putTwo(t *testing.T, add map[string]func() error) ([]secret.Operation, error) {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{
		Type: identity.Session, ID: "user", OrganizationID: "org", Role: identity.RoleAdmin,
	})
	o, d := &simulationtest.Direct{}, simulationtest.NewDatabase()
	d.SetPlan("org", plan.Pro)
	agents := simulationtest.Agents{Database: d, Process: o}
	a, err := agents.Create(ctx, agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "a", Plan: plan.Hobby}, o.Now()))
	if err != nil {
		t.Fatal(err)
	}
	store := simulationtest.SecretClient{Store: simulationtest.NewSecretStore(o.Now), Process: o}
	service := secretwrite.Service{Agents: agents, Secrets: failing{store, add}, Now: o.Now}
	value := "value"
	changes := secretwrite.Changes{Values: map[string]*string{"FIRST": &value, "SECOND": &value}}
	_, operations, err := service.Put(ctx, a.ID, changes)
	return operations, err
}

// The second value fails before the first one.
func TestPut_ReportsTheErrorOfTheFirstKey(t *testing.T) {
	t.Parallel()
	second := make(chan struct{})
	_, err := putTwo(t, map[string]func() error{
		"FIRST": func() error {
			<-second
			return fault.New(fault.Unavailable, "secret_store_denied", "It is not allowed.")
		},
		"SECOND": func() error {
			defer close(second)
			return fault.New(fault.Unavailable, "secret_quota_exceeded", "There are too many.")
		},
	})
	if fault.Code(err) != "secret_store_denied" {
		t.Errorf("Put = %v, want secret_store_denied, the error of the first key", err)
	}
}

func TestPut_StoresTheOtherValuesIfOnePanics(t *testing.T) {
	t.Parallel()
	operations, err := putTwo(t, map[string]func() error{"FIRST": func() error { panic("a defect") }})
	if err != nil || len(operations) != 2 {
		t.Fatalf("Put = %+v, %v, want two operations", operations, err)
	}
	first, other := operations[0], operations[1]
	if first.Stage != secret.Store || !first.Open() {
		t.Errorf("the operation of the value that panicked is %+v, want it open at the store stage", first)
	}
	if other.Version != 1 || other.Stage == secret.Store {
		t.Errorf("the other operation is %+v, want it stored in version 1", other)
	}
}
