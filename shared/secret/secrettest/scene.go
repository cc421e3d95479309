package secrettest

import (
	"reflect"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// scene is an agent of an organization, on which a test runs operations.
type scene struct {
	Fixture
	t   *testing.T
	org agenttest.Tenant
	id  string
}

func (w Fixture) scene(t *testing.T) scene {
	t.Helper()
	org := w.Tenant(t, plan.Enterprise)
	return scene{w, t, org, org.Create(plan.Hobby).ID}
}

// begin starts to set a key, and returns the id of the operation.
func (s scene) begin(key string) string {
	s.t.Helper()
	o := secret.Operation{ID: agenttest.ID(), AgentID: s.id, Key: key, Action: secret.Set, Bytes: 5, Batch: "batch"}
	s.change(func(a *agent.Agent) error {
		_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{o}, agenttest.Now())
		return err
	})
	return o.ID
}

func (s scene) stored(id string, version int64) agent.Agent {
	s.t.Helper()
	return s.change(func(a *agent.Agent) error {
		return a.RecordStored([]agent.Outcome{{OperationID: id, Version: version}}, agenttest.Now())
	})
}

func (s scene) change(apply func(*agent.Agent) error) agent.Agent {
	s.t.Helper()
	a, err := s.Store.Change(s.org.Ctx, s.id, apply)
	if err != nil {
		s.t.Fatalf("change the agent: %v", err)
	}
	return a
}

// work is a worker's update.
func (s scene) work(apply func(*agent.Agent)) agent.Agent {
	s.t.Helper()
	a, err := s.Records.Load(s.t.Context(), s.id)
	if err == nil {
		a, err = s.Records.Update(s.t.Context(), a, apply)
	}
	if err != nil {
		s.t.Fatalf("update the agent: %v", err)
	}
	return a
}

// must wants a stage and a status of an operation, the same in the history and in the agent's record.
func (s scene) must(id string, stage secret.Stage, status secret.Status) secret.Operation {
	s.t.Helper()
	o, err := s.Operations.Get(s.org.Ctx, s.id, id)
	if err != nil || o.Stage != stage || o.Status != status {
		s.t.Fatalf("the operation is %s at %s, %v; want %s at %s", o.Status, o.Stage, err, status, stage)
	}
	a, err := s.Store.Get(s.org.Ctx, s.id)
	if err != nil {
		s.t.Fatal(err)
	}
	switch on := a.Operation(id); {
	case on == nil && o.Open(), on != nil && !o.Open():
		s.t.Errorf("a %s operation is in the agent's record: %t", o.Status, on != nil)
	case on != nil && !reflect.DeepEqual(*on, o):
		s.t.Errorf("the agent and the history differ:\n%+v\n%+v", *on, o)
	}
	return o
}
