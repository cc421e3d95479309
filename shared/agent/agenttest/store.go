package agenttest

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// TestStore tests an agent.Store. open makes an empty Fixture.
func TestStore(t *testing.T, open func(*testing.T) Fixture) {
	tests := map[string]func(testing.TB, Fixture){
		"create": create,
		"create for an organization without record": createForNewOrganization,
		"create with a taken id":                    createTwice,
		"every field is kept":                       everyField,
		"tenancy":                                   tenancy,
		"change is kept":                            changeIsKept,
		"empty change writes nothing":               emptyChange,
		"refused change writes nothing":             refusedChange,
		"change can't move an agent":                changeOfIdentity,
		"audit entry of a change":                   auditOfChange,
		"nudge on a new generation":                 nudgeOnNewGeneration,
		"create beyond the plan":                    createBeyondPlan,
		"agent larger than the plan":                agentLargerThanPlan,
		"start of an agent larger than the plan":    startLargerThanPlan,
		"stopped agent frees compute":               stoppedFreesCompute,
		"race for the last slot":                    raceForLastSlot,
		"concurrent creations":                      concurrentCreations,
		"concurrent changes":                        concurrentChanges,
		"usage after random operations":             randomOperations,
		"list in pages":                             listInPages,
		"list while others create":                  listWhileOthersCreate,
		"list with filters":                         listWithFilters,
		"bad cursors":                               badCursors,
	}
	maps.Copy(tests, idempotencyTests())
	maps.Copy(tests, awaitTests())
	maps.Copy(tests, callEntryTests())
	maps.Copy(tests, creationTests())
	maps.Copy(tests, rehearsalTests())
	runEach(t, tests, open)
}

func create(t testing.TB, w Fixture) {
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
	sameRecord(t, "Get after Create", got, created)
	want := draft
	want.OrganizationID, want.CreatedBy, want.ChangeID, want.Version = org.ID, got.CreatedBy, got.ChangeID, got.Version
	sameRecord(t, "the agent created from a draft", got, want)
	equal(t, "Version is set", got.Version != "", true)
	equal(t, "ChangeID is set", got.ChangeID != "", true)
	equal(t, "CreatedBy names a user", strings.HasPrefix(got.CreatedBy, "user_"), true)
	equal(t, "usage", org.Usage(), sum(created))
	equal(t, "number of nudges", w.Nudges.Count(draft.ID), 1)
	entries := org.Entries()
	if len(entries) != 1 {
		t.Fatalf("%d audit entries, want 1", len(entries))
	}
	e := entries[0]
	equal(t, "the entry's action", e.Action, "TestAgent")
	equal(t, "the entry's outcome", e.Outcome, audit.Succeeded)
	equal(t, "the entry's target", e.Target, audit.Target{Type: "agent", ID: draft.ID, Name: draft.Name})
	equal(t, "the entry's actor", e.Actor.ID, got.CreatedBy)
	equal(t, "the entry's request", e.Request, call.From(org.Ctx).Request)
	equal(t, "time that the entry is kept", e.ExpiresAt.Sub(e.CreatedAt), 30*24*time.Hour)
}

func createForNewOrganization(t testing.TB, w Fixture) {
	org := w.TenantWithoutRecord(t, "org_"+ID())
	a := org.Create(plan.Hobby)
	equal(t, "usage", org.Usage(), sum(a))
	o, err := w.Organization(org.Ctx, org.ID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "plan of the new organization", o.Plan, plan.Hobby)
	equal(t, "CreatedAt of the new organization is zero", o.CreatedAt.IsZero(), false)
}

func createTwice(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	if _, err := w.Store.Create(org.Ctx, a); !fault.Is(err, fault.Conflict) {
		t.Errorf("Create with a taken id: %v, want Conflict", err)
	}
	equal(t, "usage", org.Usage(), sum(a))
}

// everyField fails for a field of the record that the store does not keep.
func everyField(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	full := FullAgent(Now())
	ofStore := []string{"ChangeID", "Version", "Rest", "ImageWish", "EgressWish"}
	for _, field := range zeroFields(full) {
		if !slices.Contains(ofStore, field) {
			t.Errorf("FullAgent does not set Agent.%s: add it there", field)
		}
	}
	for _, field := range zeroFields(full.Operations[0]) {
		t.Errorf("FullAgent does not set secret.Operation.%s: add it there", field)
	}
	changed := org.change(a.ID, func(a *agent.Agent) error {
		full.ID, full.OrganizationID = a.ID, a.OrganizationID
		full.Operations[0].AgentID, full.Operations[0].OrganizationID = a.ID, a.OrganizationID
		*a = full
		return nil
	})
	got := org.load(a.ID)
	sameRecord(t, "Load after Change", got, changed)
	lost := slices.DeleteFunc(
		zeroFields(got),
		// What is due is derived: this agent cannot be called.
		func(field string) bool {
			return slices.Contains([]string{"Rest", "ImageWish", "EgressWish", "CallsDueAt"}, field)
		},
	)
	for _, field := range lost {
		t.Errorf("the store did not keep Agent.%s: add it to the store's list of fields", field)
	}
	// The change sets these.
	full.ChangeID, full.Version, full.Held, full.CallsDueAt = got.ChangeID, got.Version, got.Held, got.CallsDueAt
	full.Awake = got.Awake
	if len(lost) == 0 {
		sameRecord(t, "the record with every field set", got, full)
	}
	empty := org.change(a.ID, func(a *agent.Agent) error {
		*a = agent.Agent{ID: a.ID, OrganizationID: a.OrganizationID, Plan: plan.Hobby}
		return nil
	})
	got = org.load(a.ID)
	sameRecord(t, "the record with zero values", got, empty)
	equal(t, "number of variables of the record with zero values", len(got.Env), 0)
	equal(t, "Failure of the record with zero values", got.Failure, nil)
	equal(t, "RevertReason of the record with zero values", got.RevertReason, nil)
	equal(t, "WorkDueAt of the record with zero values", got.WorkDueAt, time.Time{})
}

func tenancy(t testing.TB, w Fixture) {
	owner, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	homeless := w.TenantWithoutRecord(t, "") // a caller without an organization
	a := owner.Create(plan.Hobby)
	for _, id := range []string{a.ID, ID(), "", ".", "..", "__x__", "a/b", "a/b/c", strings.Repeat("x", 2000), "\xff"} {
		_, got := w.Store.Get(other.Ctx, id)
		if want := agent.NotFound(); !reflect.DeepEqual(fault.From(got), want) {
			t.Errorf("Get of %q by another organization = %v, want %v", id, got, want)
		}
		_, got = w.Store.Change(other.Ctx, id, func(*agent.Agent) error {
			t.Errorf("Change of %q showed the agent to another organization's closure", id)
			return errors.New("refused")
		})
		if want := agent.NotFound(); !reflect.DeepEqual(fault.From(got), want) {
			t.Errorf("Change of %q by another organization = %v, want %v", id, got, want)
		}
	}
	if _, err := w.Store.Get(homeless.Ctx, a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get without an organization = %v, want NotFound", err)
	}
	if _, err := w.Store.Change(homeless.Ctx, a.ID, act(agent.Delete)); err == nil {
		t.Error("Change without an organization succeeded, want an error")
	}
	equal(t, "number of agents that another organization lists",
		len(listAll(t, w.Store, other.Ctx, agent.Filter{}, 10)), 0)
	equal(t, "number of audit entries of another organization", len(other.Entries()), 0)
}
