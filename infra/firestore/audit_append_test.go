package firestore

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// The two retentions of plans, in days. The long one is 18 months.
const (
	keptShort = 30
	keptLong  = 548
)

// TestAppend_StoresEveryField fails if a new field of audit.Entry is not stored.
func TestAppend_StoresEveryField(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	e := audit.Entry{
		ID: agenttest.ID(), OrganizationID: org.ID, CreatedAt: entryTime.Add(-time.Second),
		Actor: identity.Caller{
			Type: identity.APIKey, ID: "k", Email: "ada@example.com", OrganizationID: org.ID, Role: identity.RoleMember,
			KeyPrefix: "so_12345678",
		},
		Action: "UpdateAgent", Target: audit.Target{Type: "agent", ID: "a", Name: "Bot"}, Outcome: "agent_deleting",
		Replayed: true,
		Request:  audit.Request{Action: "UpdateAgent", RequestID: "r", IP: "192.0.2.1", UserAgent: "suite \uFFFD"},
		Changes:  []audit.Change{{Field: "name", Old: "Bat", New: "Bot"}, {Field: "config", New: "changed"}},
	}
	org.append(e)
	for id, want := range map[string]string{e.ID: e.Outcome, agenttest.ID(): ""} {
		if got, err := org.log.Outcome(t.Context(), id); err != nil || got != want {
			t.Errorf("the outcome of %s is %q, %v, want %q", id, got, err, want)
		}
	}
	got := org.list(org.log, audit.Filter{}, 10)
	if len(got) != 1 {
		t.Fatalf("%d entries listed, want 1", len(got))
	}
	v := reflect.ValueOf(got[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("field %s was not stored, or this test does not set it", v.Type().Field(i).Name)
		}
	}
	e.ExpiresAt = got[0].ExpiresAt
	if !reflect.DeepEqual(got[0], e) {
		t.Errorf("listed entry = %+v\nwant %+v", got[0], e)
	}
	if stored := org.Entries(); !reflect.DeepEqual(stored, got) {
		t.Errorf("listed entries = %+v\nstored %+v", got, stored)
	}
}

func TestAppend_SetsMissingTimes(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	e := org.entry(0)
	e.CreatedAt, e.ExpiresAt = time.Time{}, entryTime.AddDate(100, 0, 0)
	org.append(e)
	got := org.Entries()
	if len(got) != 1 {
		t.Fatalf("%d entries stored, want 1", len(got))
	}
	if !got[0].CreatedAt.Equal(entryTime) {
		t.Errorf("CreatedAt = %v, want the time of the append, %v", got[0].CreatedAt, entryTime)
	}
	if want := entryTime.AddDate(0, 0, 30); !got[0].ExpiresAt.Equal(want) {
		t.Errorf("ExpiresAt = %v, want %v", got[0].ExpiresAt, want)
	}
}

func TestAppend_KeepsAnExistingEntry(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	first := org.entry(1)
	second := org.entry(2)
	second.ID, second.Outcome = first.ID, "agent_deleting"
	for _, e := range []audit.Entry{first, second, second} {
		if err := org.log.Append(t.Context(), e); err != nil {
			t.Errorf("append with an id that may exist: %v, want success", err)
		}
	}
	if got := org.Entries(); len(got) != 1 || got[0].Outcome != first.Outcome ||
		!got[0].CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("stored %+v, want only the first entry, %+v", got, first)
	}
}

func TestAppend_ReplacesTheOutcomeOfABegunEntry(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	begun, end := org.entry(1), org.entry(2)
	begun.Outcome, end.ID, end.Outcome = audit.Begun, begun.ID, "store_unavailable"
	for _, e := range []audit.Entry{begun, end, begun} {
		if err := org.log.Append(t.Context(), e); err != nil {
			t.Errorf("append with an id that may exist: %v, want success", err)
		}
	}
	if got := org.Entries(); len(got) != 1 || got[0].Outcome != end.Outcome ||
		!got[0].CreatedAt.Equal(begun.CreatedAt) {
		t.Errorf("stored %+v, want only the first entry, with the outcome %s", got, end.Outcome)
	}
}

func TestFinish_ReplacesTheOutcome(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	e := org.entry(1)
	e.Outcome = audit.Begun
	org.append(e)
	before := org.Entries()
	must(t, org.log.Finish(t.Context(), e.ID, audit.Succeeded))
	before[0].Outcome = audit.Succeeded
	if got := org.Entries(); !reflect.DeepEqual(got, before) {
		t.Errorf("stored %+v, want %+v", got, before)
	}
	if err := org.log.Finish(t.Context(), agenttest.ID(), audit.Succeeded); err == nil {
		t.Error("finish of an entry that does not exist succeeds")
	}
}

func TestAppend_WritesOneEntryConcurrently(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	e := org.entry(1)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = org.log.Append(t.Context(), e) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("concurrent appends of one entry: %v", err)
	}
	if got := len(org.Entries()); got != 1 {
		t.Errorf("%d entries stored, want 1", got)
	}
}

func TestAppend_RefusesInvalidIDs(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	for _, id := range []string{"", ".", "a/b", "__x__", "\xff"} {
		e := org.entry(1)
		e.ID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("append accepted the entry id %q", id)
		}
		e = org.entry(1)
		e.OrganizationID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("append accepted the organization id %q", id)
		}
	}
	if got := org.Entries(); len(got) != 0 {
		t.Errorf("stored %v, want no entries", entryIDs(got))
	}
}

func TestAppend_KeepsAnEntryAsLongAsThePlanSays(t *testing.T) {
	t.Parallel()
	days := map[plan.ID]int{"": keptShort} // an organization without a record
	for _, p := range plan.All() {
		days[p.ID] = keptShort
	}
	days[plan.Enterprise] = keptLong
	days["of a later release"] = keptLong
	c := openAt(t, "", entryTime)
	for p, want := range days {
		org := newAuditTenant(t, c, p)
		e := org.appendAged(60)[0]
		if got := org.Entries(); len(got) != 1 || !got[0].ExpiresAt.Equal(e.CreatedAt.AddDate(0, 0, want)) {
			t.Errorf("plan %q: stored %+v, want one entry that expires after %d days", p, got, want)
		}
	}
}
