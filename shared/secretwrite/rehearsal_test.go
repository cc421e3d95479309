package secretwrite_test

import (
	"context"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// TestPut_RehearsedCallsNoSecretStore also checks that a rehearsal ends where the real request ends: with all values
// stored.
// rehearsing is the context of a rehearsed call.
func (s *scene) rehearsing() context.Context {
	return call.Derive(s.ctx, func(c *call.Call) { c.Rehearsal = &rehearsal.Rehearsal{} })
}

func TestPut_RehearsedCallsNoSecretStore(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := s.put("OLD"); err != nil {
		t.Fatal(err)
	}
	s.spent()
	ctx := s.rehearsing()
	value := "value"
	changes := secretwrite.Changes{Values: map[string]*string{"NEW": &value, "OLD": &value}}
	after, operations, err := s.service.Put(ctx, s.id, changes)
	if err != nil {
		t.Fatal(err)
	}
	if _, calls := s.spent(); calls != 0 {
		t.Errorf("%d calls of the secret store, want none", calls)
	}
	for i, want := range []struct {
		key     string
		version int64
	}{{"NEW", 1}, {"OLD", 2}} {
		if o := operations[i]; o.Key != want.key || o.Stage != secret.Bind || o.Version != want.version {
			t.Errorf("operation %d of %s is at %s with version %d, want %s at bind with %d", i, o.Key, o.Stage,
				o.Version, want.key, want.version)
		}
	}
	stored, err := s.agents.Get(s.ctx, s.id)
	if err != nil {
		t.Fatal(err)
	}
	if !after.HasSecret("NEW") || stored.HasSecret("NEW") {
		t.Errorf("the rehearsed agent has the secret: %t, the stored one: %t; want only the first",
			after.HasSecret("NEW"), stored.HasSecret("NEW"))
	}
}

func TestCreate_RehearsedCallsNoSecretStore(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ctx := s.rehearsing()
	a, err := s.service.Create(ctx,
		agent.New(agenttest.ID(), "cell-1", agent.Draft{Name: "b", Plan: plan.Hobby}, s.service.Now()),
		map[string]string{"TOKEN": "value"})
	if err != nil {
		t.Fatal(err)
	}
	if _, calls := s.spent(); calls != 0 {
		t.Errorf("%d calls of the secret store, want none", calls)
	}
	if len(a.Operations) != 1 || a.Operations[0].Stage != secret.Bind {
		t.Errorf("the operations are %+v, want one at bind", a.Operations)
	}
	if _, err := s.agents.Get(s.ctx, a.ID); err == nil {
		t.Error("the rehearsed agent has a record")
	}
}
