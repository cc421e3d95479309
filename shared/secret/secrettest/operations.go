// Package secrettest tests that an adapter keeps the promises of secret.Operations: the history and the agents' records
// always agree. It does not depend on the adapter.
package secrettest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// Fixture is an empty store of agents and its history of operations.
type Fixture struct {
	agenttest.Fixture
	Operations secret.Operations
}

// TestOperations tests a secret.Operations. open makes an empty Fixture.
func TestOperations(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"history follows every transition":   followsTransitions,
		"agent is created with operations":   createWithOperations,
		"deletion of the agent cancels":      cancelOnDelete,
		"newer value supersedes":             supersede,
		"tenancy":                            tenancy,
		"list in pages":                      listInPages,
		"worker is nudged once it can begin": nudgeOnceStored,
		"audit log names keys":               auditKeys,
		"repeat gets the last answer":        repeatGetsLastAnswer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func followsTransitions(t *testing.T, w Fixture) {
	s := w.scene(t)
	id := s.begin("TOKEN")
	s.must(id, secret.Store, secret.Pending)
	s.stored(id, 7)
	if o := s.must(id, secret.Bind, secret.Pending); o.Version != 7 || o.Key != "TOKEN" ||
		o.OrganizationID != s.org.ID {
		t.Errorf("the operation is %+v", o)
	}
	s.work(func(a *agent.Agent) { a.BindSecrets(agenttest.Now()) })
	s.must(id, secret.Sync, secret.Running)
	s.work(func(a *agent.Agent) {
		a.Retry(agent.Failure{Code: "cluster_unavailable", Stage: agent.StageSecrets}, agenttest.Now())
	})
	if o := s.must(id, secret.Sync, secret.Pending); o.ErrorCode != "cluster_unreachable" {
		t.Errorf("error code %q", o.ErrorCode)
	}
	s.work(func(a *agent.Agent) { a.MarkSecretsSynced(agenttest.Now()); a.BecameReady(agenttest.Now()) })
	s.must(id, secret.Complete, secret.Running)
	s.work(func(a *agent.Agent) { a.FinishOperations([]string{id}, agenttest.Now()) })
	if o := s.must(id, secret.Complete, secret.Succeeded); o.ErrorCode != "" {
		t.Errorf("error code %q", o.ErrorCode)
	}
}

func createWithOperations(t *testing.T, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a := agenttest.Draft(plan.Hobby)
	begun, err := a.BeginOperations(0, []secret.Operation{{
		ID: agenttest.ID(), AgentID: a.ID, Key: "NEW", Action: secret.Set, RequiredToStart: true,
	}}, a.CreatedAt)
	if err != nil || len(begun) != 1 {
		t.Fatalf("%v, %v", begun, err)
	}
	made, err := w.Store.Create(org.Ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	s := scene{w, t, org, a.ID}
	s.must(begun[0].ID, secret.Store, secret.Pending)
	if made.AwaitedSecret() != "NEW" || w.Nudges.Count(a.ID) != 0 {
		t.Errorf("AwaitedSecret = %q after %d nudges, want NEW after none", made.AwaitedSecret(), w.Nudges.Count(a.ID))
	}
	s.stored(begun[0].ID, 1)
	if a := s.work(func(a *agent.Agent) { a.BindSecrets(agenttest.Now()) }); a.AwaitedSecret() != "" ||
		w.Nudges.Count(a.ID) != 1 {
		t.Errorf("AwaitedSecret = %q after %d nudges, want none after 1", a.AwaitedSecret(), w.Nudges.Count(a.ID))
	}
}

func cancelOnDelete(t *testing.T, w Fixture) {
	s := w.scene(t)
	one, two := s.begin("ONE"), s.begin("TWO")
	s.stored(one, 1)
	a := s.change(func(a *agent.Agent) error { return a.Act(agent.Delete, agent.Manual, agenttest.Now()) })
	s.must(one, secret.Bind, secret.Canceled)
	s.must(two, secret.Store, secret.Canceled)
	if a.StoringUntil.Before(agenttest.Now()) {
		t.Errorf("StoringUntil = %v, want the time until which the request may still add a value", a.StoringUntil)
	}
}

func supersede(t *testing.T, w Fixture) {
	s := w.scene(t)
	one := s.begin("TOKEN")
	s.stored(one, 1)
	two := s.begin("TOKEN")
	s.must(one, secret.Bind, secret.Pending)
	s.stored(two, 2)
	s.must(one, secret.Bind, secret.Superseded)
	s.must(two, secret.Bind, secret.Pending)
}

func tenancy(t *testing.T, w Fixture) {
	s, other := w.scene(t), w.scene(t)
	id := s.begin("TOKEN")
	sibling := s.org.Create(plan.Hobby).ID
	for name, get := range map[string]func() (secret.Operation, error){
		"another organization": func() (secret.Operation, error) { return w.Operations.Get(other.org.Ctx, s.id, id) },
		"another agent":        func() (secret.Operation, error) { return w.Operations.Get(s.org.Ctx, sibling, id) },
		"no caller":            func() (secret.Operation, error) { return w.Operations.Get(t.Context(), s.id, id) },
		"an unknown one": func() (secret.Operation,
			error,
		) {
			return w.Operations.Get(s.org.Ctx, s.id, agenttest.ID())
		},
		"no id": func() (secret.Operation, error) { return w.Operations.Get(s.org.Ctx, s.id, "a/b") },
	} {
		if o, err := get(); !reflect.DeepEqual(fault.From(err), secret.NotFound()) || o.ID != "" {
			t.Errorf("Get by %s = %+v, %v, want NotFound", name, o, err)
		}
	}
	for name, ctx := range map[string]agenttest.Tenant{"another organization": other.org} {
		if p, err := w.Operations.List(ctx.Ctx, s.id, page.Request{}); err != nil || len(p.Items) != 0 {
			t.Errorf("List by %s = %d operations, error %v, want none", name, len(p.Items), err)
		}
	}
}

func listInPages(t *testing.T, w Fixture) {
	s := w.scene(t)
	var want []string
	for _, key := range []string{"A", "B", "C", "D", "E"} {
		want = append([]string{s.begin(key)}, want...)
	}
	var got []string
	for p := (page.Request{Limit: 2}); ; {
		found, err := w.Operations.List(s.org.Ctx, s.id, p)
		if err != nil || len(found.Items) > 2 {
			t.Fatalf("%d operations, %v", len(found.Items), err)
		}
		for _, o := range found.Items {
			got = append(got, o.ID)
		}
		if p.Cursor = found.Next; p.Cursor == "" {
			break
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if _, err := w.Operations.List(s.org.Ctx, s.id,
		page.Request{Cursor: "nonsense"}); fault.Code(err) != "invalid_cursor" {
		t.Errorf("List with a bad cursor = %v, want invalid_cursor", err)
	}
}

func nudgeOnceStored(t *testing.T, w Fixture) {
	s := w.scene(t)
	s.work(func(a *agent.Agent) { a.BecameReady(agenttest.Now()) })
	before := w.Nudges.Count(s.id)
	id := s.begin("TOKEN")
	if got := w.Nudges.Count(s.id) - before; got != 0 {
		t.Errorf("nudges before the value is stored = %d, want 0", got)
	}
	a := s.stored(id, 1)
	if got := w.Nudges.Count(s.id) - before; got != 1 || a.WorkDueAt.IsZero() || !a.Warming {
		t.Errorf("after the value is stored: %d nudges, due at %v, warming %t; want 1, a time, true", got, a.WorkDueAt,
			a.Warming)
	}
	due, err := w.Records.ListDue(t.Context(), agenttest.Now().Add(time.Hour), 10)
	if err != nil || len(due) != 1 {
		t.Errorf("ListDue = %d agents, error %v, want 1", len(due), err)
	}
}

func auditKeys(t *testing.T, w Fixture) {
	s := w.scene(t)
	s.stored(s.begin("TOKEN"), 1)
	changes := ""
	for _, e := range s.org.Entries() {
		for _, c := range e.Changes {
			changes += c.Field + "=" + c.New + " "
		}
	}
	if want := "secrets.TOKEN=set"; !strings.Contains(changes, want) {
		t.Errorf("changes in the audit log = %q, want %q among them", changes, want)
	}
}

// repeatGetsLastAnswer repeats a request with two changes: its stored answer is that of the second change.
func repeatGetsLastAnswer(t *testing.T, w Fixture) {
	s := w.scene(t)
	ctx, first := s.org.Attempt("k", "put")
	call.From(ctx).Attempt.Amend()
	inner := s
	inner.org.Ctx = ctx
	id := inner.begin("TOKEN")
	early, attempt := s.org.Attempt("k", "put")
	a, err := s.Store.Change(early, s.id, func(*agent.Agent) error { return nil })
	if err != nil || !attempt.Replayed() || a.Operation(id) == nil || !a.Operation(id).Storing(agenttest.Now()) {
		t.Errorf("a repeat in between: replayed %t, %v", attempt.Replayed(), err)
	}
	inner.stored(id, 4)
	late, attempt := s.org.Attempt("k", "put")
	a, err = s.Store.Change(late, s.id, func(*agent.Agent) error { return nil })
	if err != nil || !attempt.Replayed() || first.Replayed() || a.Operation(id) == nil || a.Operation(id).Version != 4 {
		t.Errorf("a repeat afterwards: replayed %t, %+v, %v", attempt.Replayed(), a.Operation(id), err)
	}
}
