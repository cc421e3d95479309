package agenttest

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// TestStore holds an agent.Store to its promises. open makes an empty world.
func TestStore(t *testing.T, open func(*testing.T) World) {
	tests := map[string]func(*testing.T, World){
		"create":                        create,
		"create for a new organization": createForNewcomer,
		"create twice":                  createTwice,
		"every field is kept":           everyField,
		"tenancy":                       tenancy,
		"change":                        change,
		"change nothing":                changeNothing,
		"change refused":                changeRefused,
		"change what must stay":         changeIdentity,
		"audit of a change":             auditOfChange,
		"nudge":                         nudge,
		"capacity":                      capacity,
		"size":                          size,
		"capacity of a stopped agent":   capacityOfStopped,
		"race for the last slot":        lastSlot,
		"many creators":                 manyCreators,
		"many changes":                  manyChanges,
		"usage after random operations": randomOperations,
		"list":                          list,
		"list while others create":      listWhileOthersCreate,
		"filters":                       filters,
		"bad cursors":                   badCursors,
	}
	maps.Copy(tests, idempotencyTests())
	maps.Copy(tests, awaitTests())
	maps.Copy(tests, trailTests())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func create(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	draft := Draft(plan.Starter)
	created, err := w.Store.Create(org.Ctx, draft)
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Get(org.Ctx, draft.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, created) {
		t.Errorf("Get differs from what Create returned:\n got %+v\nwant %+v", got, created)
	}
	want := draft
	want.OrganizationID, want.CreatedBy, want.ChangeID, want.Version = org.ID, got.CreatedBy, got.ChangeID, got.Version
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the agent differs from its draft:\n got %+v\nwant %+v", got, want)
	}
	if got.Version == "" || got.ChangeID == "" || !strings.HasPrefix(got.CreatedBy, "user_") {
		t.Errorf("version %q, change id %q, created by %q: none may be missing", got.Version, got.ChangeID,
			got.CreatedBy)
	}
	if got, want := org.Usage(), sum(t, created); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if n := w.Nudges.Count(draft.ID); n != 1 {
		t.Errorf("%d nudges, want 1", n)
	}
	entries := org.Entries()
	if len(entries) != 1 {
		t.Fatalf("%d audit entries, want 1", len(entries))
	}
	e := entries[0]
	if e.Action != "TestAgent" || e.Outcome != audit.Succeeded ||
		e.Target != (audit.Target{Type: "agent", ID: draft.ID, Name: draft.Name}) {
		t.Errorf("the entry says %s %s of %+v", e.Action, e.Outcome, e.Target)
	}
	if want := audit.From(org.Ctx); e.Actor.ID != got.CreatedBy || e.Request != want {
		t.Errorf("the entry is of %+v in %+v, want %+v", e.Actor, e.Request, want)
	}
	if kept := e.ExpiresAt.Sub(e.CreatedAt); kept != 30*24*time.Hour {
		t.Errorf("the entry is kept for %v, want 30 days", kept)
	}
}

func createForNewcomer(t *testing.T, w World) {
	org := w.newcomer(t, "org_"+ID())
	a := org.Create(plan.Hobby)
	if got, want := org.Usage(), sum(t, a); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	o, err := w.Organization(org.Ctx, org.ID)
	if err != nil || o.Plan != plan.Hobby || o.CreatedAt.IsZero() {
		t.Errorf("the organization's record is %+v (%v), want one on the hobby plan", o, err)
	}
}

func createTwice(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	if _, err := w.Store.Create(org.Ctx, a); !fault.Is(err, fault.Conflict) {
		t.Errorf("creating an agent whose id is taken: %v, want a conflict", err)
	}
	if got, want := org.Usage(), sum(t, a); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

// everyField fails when a field is added to the record and forgotten by a store.
func everyField(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	at := Now()
	full := agent.Agent{
		Name: "n", Slug: "s", Plan: plan.Pro, Cloud: "c", Region: "r", Cell: "l", Config: json.RawMessage(`{"k":"v"}`),
		Env: []agent.EnvVar{{Key: "A", Value: "1"}, {Key: "B", SecretVersion: 2, Bytes: 3, SetAt: at}}, Sandbox: true,
		LastReadyIsolation: agent.Sandboxed, Status: agent.Paused,
		StatusReason: agent.Billing, Stages: []agent.Stage{{
			Name: agent.StageReady, Status: agent.StageFailed, Attempt: 3, StartedAt: at, FinishedAt: at.Add(1),
			ErrorCode: "e", Message: "m",
		}},
		Failure:      &agent.Failure{Code: "f", Stage: agent.StageReady, Message: "m", Retryable: true},
		RevertReason: &agent.Failure{Code: "u", Stage: agent.StageRuntime, Message: "n", Retryable: true},
		Warming:      true, RotationPending: true, Routed: true, CredentialVersion: 4,
		RevealedAt: at.Add(6 * time.Second), Rollout: 5, Generation: 6, ObservedGeneration: 7,
		Attempts: 8, Lease: agent.Lease{Holder: "h", Until: at.Add(time.Second)}, WorkDueAt: at.Add(2 * time.Second),
		Deadline: at.Add(3 * time.Second), CreatedAt: at.Add(4 * time.Second), UpdatedAt: at.Add(5 * time.Second),
		CreatedBy:        "b",
		FormerCredential: 3, SecretsRevision: 9, StoringUntil: at.Add(7 * time.Second),
		Live: []agent.LiveVersion{{Key: "B", Version: 1}},
	}
	full.Operations = []secret.Operation{{
		ID: ID(), AgentID: a.ID, OrganizationID: org.ID, Key: "B", Action: secret.Rotate, Stage: secret.Store,
		Status: secret.Failed, ErrorCode: "e",
		Attempts: 2, LatestBefore: 3, Version: 4, Bytes: 5, Batch: "x", StoringUntil: at, CreatedAt: at,
		UpdatedAt: at.Add(time.Second),
	}}
	for v, i := reflect.ValueOf(full.Operations[0]), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("this test doesn't set the operation's field %s", v.Type().Field(i).Name)
		}
	}
	full.Stages[0].FinishedAt = at.Add(time.Microsecond)
	changed := org.change(a.ID, func(a *agent.Agent) error {
		full.ID, full.OrganizationID = a.ID, a.OrganizationID
		*a = full
		return nil
	})
	got := org.load(a.ID)
	if !reflect.DeepEqual(got, changed) {
		t.Errorf("Load differs from what Change returned:\n got %+v\nwant %+v", got, changed)
	}
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the field %s was not kept, or this test doesn't set it", v.Type().Field(i).Name)
		}
	}
	full.ChangeID, full.Version = got.ChangeID, got.Version
	if !reflect.DeepEqual(got, full) {
		t.Errorf("the record was not kept:\n got %+v\nwant %+v", got, full)
	}
	empty := org.change(a.ID, func(a *agent.Agent) error {
		*a = agent.Agent{ID: a.ID, OrganizationID: a.OrganizationID, Plan: plan.Hobby}
		return nil
	})
	if got := org.load(a.ID); !reflect.DeepEqual(got, empty) || len(got.Env) != 0 || got.Failure != nil ||
		got.RevertReason != nil || !got.WorkDueAt.IsZero() {
		t.Errorf("zero values were not kept: %+v", got)
	}
}

func tenancy(t *testing.T, w World) {
	owner, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	nobody := w.newcomer(t, "")
	a := owner.Create(plan.Hobby)
	for _, id := range []string{a.ID, ID(), "", ".", "..", "__x__", "a/b", "a/b/c", strings.Repeat("x", 2000), "\xff"} {
		_, got := w.Store.Get(other.Ctx, id)
		if want := agent.NotFound(); !reflect.DeepEqual(fault.From(got), want) {
			t.Errorf("Get of another's %q: %v, want %v", id, got, want)
		}
		_, got = w.Store.Change(other.Ctx, id, func(*agent.Agent) error {
			t.Errorf("the closure of another organization saw %q", id)
			return errors.New("refused")
		})
		if want := agent.NotFound(); !reflect.DeepEqual(fault.From(got), want) {
			t.Errorf("Change of another's %q: %v, want %v", id, got, want)
		}
	}
	if _, err := w.Store.Get(nobody.Ctx, a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get without an organization: %v, want not found", err)
	}
	if _, err := w.Store.Change(nobody.Ctx, a.ID, act(agent.Delete)); err == nil {
		t.Error("Change without an organization succeeded")
	}
	if got := listAll(t, w.Store, other.Ctx, agent.Filter{}, 10); len(got) != 0 {
		t.Errorf("another organization lists %d agents", len(got))
	}
	if len(other.Entries()) != 0 {
		t.Error("another organization has audit entries")
	}
}
