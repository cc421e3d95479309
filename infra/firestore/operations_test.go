package firestore

import (
	"context"
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

// operationScene is an agent of an organization, on which a test runs operations.
type operationScene struct {
	agenttest.Fixture
	t          *testing.T
	operations *Operations
	org        agenttest.Tenant
	// id is the agent's.
	id string
}

func newOperationScene(t *testing.T, c *Client) operationScene {
	t.Helper()
	w := agentFixture(c)
	org := w.Tenant(t, plan.Enterprise)
	return operationScene{w, t, c.Operations(), org, org.Create(plan.Hobby).ID}
}

// begin starts to set a key, and returns the id of the operation.
func (s operationScene) begin(key string) string {
	s.t.Helper()
	o := secret.Operation{ID: agenttest.ID(), AgentID: s.id, Key: key, Action: secret.Set, Bytes: 5, Batch: "batch"}
	s.change(func(a *agent.Agent) error {
		_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{o}, agenttest.Now())
		return err
	})
	return o.ID
}

// stored records the version in which the request stored an operation's value.
func (s operationScene) stored(id string, version int64) agent.Agent {
	s.t.Helper()
	return s.change(func(a *agent.Agent) error {
		return a.RecordStored([]agent.Outcome{{OperationID: id, Version: version}}, agenttest.Now())
	})
}

func (s operationScene) change(apply func(*agent.Agent) error) agent.Agent {
	s.t.Helper()
	a, err := s.Store.Change(s.org.Ctx, s.id, apply)
	must(s.t, err)
	return a
}

// work is a worker's update.
func (s operationScene) work(apply func(*agent.Agent)) agent.Agent {
	s.t.Helper()
	a, err := s.Records.Load(s.t.Context(), s.id)
	must(s.t, err)
	a, err = s.Records.Update(s.t.Context(), a, apply)
	must(s.t, err)
	return a
}

// want wants a stage and a status of an operation, the same in the history and in the agent's record.
func (s operationScene) want(id string, stage secret.Stage, status secret.Status) secret.Operation {
	s.t.Helper()
	o, err := s.operations.Get(s.org.Ctx, s.id, id)
	if err != nil || o.Stage != stage || o.Status != status {
		s.t.Fatalf("the operation is %s at %s, %v; want %s at %s", o.Status, o.Stage, err, status, stage)
	}
	a, err := s.Store.Get(s.org.Ctx, s.id)
	must(s.t, err)
	switch on := a.Operation(id); {
	case on == nil && o.Open(), on != nil && !o.Open():
		s.t.Errorf("a %s operation is in the agent's record: %t", o.Status, on != nil)
	case on != nil && !reflect.DeepEqual(*on, o):
		s.t.Errorf("the agent and the history differ:\n%+v\n%+v", *on, o)
	}
	return o
}

func TestSecretOperations_HistoryFollowsEachTransition(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	id := s.begin("TOKEN")
	s.want(id, secret.Store, secret.Pending)
	s.stored(id, 7)
	if o := s.want(id, secret.Bind, secret.Pending); o.Version != 7 || o.Key != "TOKEN" ||
		o.OrganizationID != s.org.ID {
		t.Errorf("the operation is %+v", o)
	}
	s.work(func(a *agent.Agent) { a.BindSecrets(agenttest.Now()) })
	s.want(id, secret.Sync, secret.Running)
	s.work(func(a *agent.Agent) {
		a.Retry(agent.Failure{Code: "cluster_unavailable", Stage: agent.StageSecrets}, agenttest.Now())
	})
	if o := s.want(id, secret.Sync, secret.Pending); o.ErrorCode != "cluster_unreachable" {
		t.Errorf("error code %q", o.ErrorCode)
	}
	s.work(func(a *agent.Agent) { a.MarkSecretsSynced(agenttest.Now()); a.BecameReady(agenttest.Now()) })
	s.want(id, secret.Complete, secret.Running)
	s.work(func(a *agent.Agent) { a.FinishOperations([]string{id}, agenttest.Now()) })
	if o := s.want(id, secret.Complete, secret.Succeeded); o.ErrorCode != "" {
		t.Errorf("error code %q", o.ErrorCode)
	}
}

func TestSecretOperations_BeginWithTheAgentsCreation(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentFixture(c)
	org, a := w.Tenant(t, plan.Enterprise), agenttest.Draft(plan.Hobby)
	begun, err := a.BeginOperations(0, []secret.Operation{{
		ID: agenttest.ID(), AgentID: a.ID, Key: "NEW", Action: secret.Set, RequiredToStart: true,
	}}, a.CreatedAt)
	if err != nil || len(begun) != 1 {
		t.Fatalf("%v, %v", begun, err)
	}
	made, err := w.Store.Create(org.Ctx, a)
	must(t, err)
	s := operationScene{w, t, c.Operations(), org, a.ID}
	s.want(begun[0].ID, secret.Store, secret.Pending)
	if made.AwaitedSecret() != "NEW" || s.Nudges.Count(a.ID) != 0 {
		t.Errorf("AwaitedSecret = %q after %d nudges, want NEW after none", made.AwaitedSecret(), s.Nudges.Count(a.ID))
	}
	s.stored(begun[0].ID, 1)
	if a := s.work(func(a *agent.Agent) { a.BindSecrets(agenttest.Now()) }); a.AwaitedSecret() != "" ||
		s.Nudges.Count(a.ID) != 1 {
		t.Errorf("AwaitedSecret = %q after %d nudges, want none after 1", a.AwaitedSecret(), s.Nudges.Count(a.ID))
	}
}

func TestSecretOperations_AreCanceledByTheAgentsDeletion(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	one, two := s.begin("ONE"), s.begin("TWO")
	s.stored(one, 1)
	a := s.change(func(a *agent.Agent) error { return a.Act(agent.Delete, agent.Manual, agenttest.Now()) })
	s.want(one, secret.Bind, secret.Canceled)
	s.want(two, secret.Store, secret.Canceled)
	if a.StoringUntil.Before(agenttest.Now()) {
		t.Errorf("StoringUntil = %v, want the time until which the request may still add a value", a.StoringUntil)
	}
}

func TestSecretOperations_NewerValueSupersedes(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	one := s.begin("TOKEN")
	s.stored(one, 1)
	two := s.begin("TOKEN")
	s.want(one, secret.Bind, secret.Pending)
	s.stored(two, 2)
	s.want(one, secret.Bind, secret.Superseded)
	s.want(two, secret.Bind, secret.Pending)
}

func TestSecretOperations_HideThoseOfOthers(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	s, other := newOperationScene(t, c), newOperationScene(t, c)
	id := s.begin("TOKEN")
	sibling := s.org.Create(plan.Hobby).ID
	for name, row := range map[string]struct {
		ctx         context.Context
		agentID, id string
	}{
		"another organization": {ctx: other.org.Ctx, agentID: s.id, id: id},
		"another agent":        {ctx: s.org.Ctx, agentID: sibling, id: id},
		"no caller":            {ctx: t.Context(), agentID: s.id, id: id},
		"an unknown one":       {ctx: s.org.Ctx, agentID: s.id, id: agenttest.ID()},
		"no id":                {ctx: s.org.Ctx, agentID: s.id, id: "a/b"},
	} {
		o, err := s.operations.Get(row.ctx, row.agentID, row.id)
		if !reflect.DeepEqual(fault.From(err), secret.NotFound()) || o.ID != "" {
			t.Errorf("Get by %s = %+v, %v, want NotFound", name, o, err)
		}
	}
	if p, err := s.operations.List(other.org.Ctx, s.id, page.Request{}); err != nil || len(p.Items) != 0 {
		t.Errorf("List by another organization = %d operations, error %v, want none", len(p.Items), err)
	}
}

func TestSecretOperations_ListInPages(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	var want []string
	for _, key := range []string{"A", "B", "C", "D", "E"} {
		want = append([]string{s.begin(key)}, want...)
	}
	var got []string
	for p := (page.Request{Limit: 2}); ; {
		found, err := s.operations.List(s.org.Ctx, s.id, p)
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
	if _, err := s.operations.List(s.org.Ctx, s.id,
		page.Request{Cursor: "nonsense"}); fault.Code(err) != "invalid_cursor" {
		t.Errorf("List with a bad cursor = %v, want invalid_cursor", err)
	}
}

func TestSecretOperations_WorkerIsNudgedOnceItCanBegin(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	s.work(func(a *agent.Agent) { a.BecameReady(agenttest.Now()) })
	before := s.Nudges.Count(s.id)
	id := s.begin("TOKEN")
	if got := s.Nudges.Count(s.id) - before; got != 0 {
		t.Errorf("nudges before the value is stored = %d, want 0", got)
	}
	a := s.stored(id, 1)
	if got := s.Nudges.Count(s.id) - before; got != 1 || a.WorkDueAt.IsZero() || !a.Warming {
		t.Errorf("after the value is stored: %d nudges, due at %v, warming %t; want 1, a time, true", got, a.WorkDueAt,
			a.Warming)
	}
	due, err := s.Records.ListDue(t.Context(), agenttest.Now().Add(time.Hour), 10)
	if err != nil || len(due) != 1 {
		t.Errorf("ListDue = %d agents, error %v, want 1", len(due), err)
	}
}

func TestSecretOperations_AuditLogNamesKeys(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
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

// TestSecretOperations_RepeatGetsTheLastAnswer repeats a request with two changes: its stored answer is that of the
// second.
func TestSecretOperations_RepeatGetsTheLastAnswer(t *testing.T) {
	t.Parallel()
	s := newOperationScene(t, open(t, "", Options{}))
	ctx, first := s.org.Attempt("k", "put")
	call.From(ctx).Attempt.Amend()
	inner := s
	inner.org.Ctx = ctx
	id := inner.begin("TOKEN")
	early, attempt := s.org.Attempt("k", "put")
	a, err := s.Store.Change(early, s.id, changeNothing)
	if err != nil || !attempt.Replayed() || a.Operation(id) == nil || !a.Operation(id).Storing(agenttest.Now()) {
		t.Errorf("a repeat in between: replayed %t, %v", attempt.Replayed(), err)
	}
	inner.stored(id, 4)
	late, attempt := s.org.Attempt("k", "put")
	a, err = s.Store.Change(late, s.id, changeNothing)
	if err != nil || !attempt.Replayed() || first.Replayed() || a.Operation(id) == nil || a.Operation(id).Version != 4 {
		t.Errorf("a repeat afterwards: replayed %t, %+v, %v", attempt.Replayed(), a.Operation(id), err)
	}
}
