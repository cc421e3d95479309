package audittest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// TestLog tests that an audit.Log keeps its contract. open makes an empty fixture.
func TestLog(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"append stores every field":                    appendStoresEveryField,
		"append sets missing times":                    appendSetsTimes,
		"append keeps an existing entry":               appendKeepsExistingEntry,
		"append replaces the outcome of a begun entry": appendFinishesBegunEntry,
		"finish replaces the outcome":                  finishReplacesOutcome,
		"concurrent appends write one entry":           concurrentAppends,
		"append refuses invalid ids":                   appendRefusesInvalidIDs,
		"the plan decides how long an entry is kept":   planDecidesRetention,
		"expired entries are not shown":                expiredEntriesAreHidden,
		"pages skip expired entries":                   pagesSkipExpiredEntries,
		"pages list every entry once, newest first":    pagesListEveryEntry,
		"pages stay consistent while others append":    pagesWhileOthersAppend,
		"filters and their combinations":               filters,
		"from is inclusive and to is exclusive":        timeBounds,
		"pages of a filtered list are full":            filteredPages,
		"invalid cursors are refused":                  invalidCursors,
		"another organization's entries are invisible": otherOrganizationsSeeNothing,
		"each visits all entries":                      eachVisitsAllEntries,
		"each stops at the first error":                eachStopsAtError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// appendStoresEveryField fails if a new field of audit.Entry is not stored.
func appendStoresEveryField(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	e := audit.Entry{
		ID: random(), OrganizationID: org.id, CreatedAt: now.Add(-time.Second),
		Actor: identity.Caller{
			Type: identity.APIKey, ID: "k", Email: "ada@example.com", OrganizationID: org.id, Role: identity.RoleMember,
			KeyPrefix: "so_12345678",
		},
		Action: "UpdateAgent", Target: audit.Target{Type: "agent", ID: "a", Name: "Bot"}, Outcome: "agent_deleting",
		Replayed: true,
		Request:  audit.Request{Action: "UpdateAgent", RequestID: "r", IP: "192.0.2.1", UserAgent: "suite \uFFFD"},
		Changes:  []audit.Change{{Field: "name", Old: "Bat", New: "Bot"}, {Field: "config", New: "changed"}},
	}
	org.append(e)
	got := org.list(org.log, audit.Filter{}, 10)
	if len(got) != 1 {
		t.Fatalf("audittest: %d entries listed, want 1", len(got))
	}
	v := reflect.ValueOf(got[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("audittest: field %s was not stored, or this test does not set it", v.Type().Field(i).Name)
		}
	}
	e.ExpiresAt = got[0].ExpiresAt
	if !reflect.DeepEqual(got[0], e) {
		t.Errorf("audittest: listed entry = %+v\nwant %+v", got[0], e)
	}
	if stored := org.stored(); !reflect.DeepEqual(stored, got) {
		t.Errorf("audittest: listed entries = %+v\nstored %+v", got, stored)
	}
}

func appendSetsTimes(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	e := org.entry(0)
	e.CreatedAt, e.ExpiresAt = time.Time{}, now.AddDate(100, 0, 0)
	org.append(e)
	got := org.stored()
	if len(got) != 1 {
		t.Fatalf("audittest: %d entries stored, want 1", len(got))
	}
	if !got[0].CreatedAt.Equal(now) {
		t.Errorf("audittest: CreatedAt = %v, want the time of the append, %v", got[0].CreatedAt, now)
	}
	if want := now.AddDate(0, 0, 30); !got[0].ExpiresAt.Equal(want) {
		t.Errorf("audittest: ExpiresAt = %v, want %v", got[0].ExpiresAt, want)
	}
}

func appendKeepsExistingEntry(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	first := org.entry(1)
	second := org.entry(2)
	second.ID, second.Outcome = first.ID, "agent_deleting"
	for _, e := range []audit.Entry{first, second, second} {
		if err := org.log.Append(t.Context(), e); err != nil {
			t.Errorf("audittest: append with an id that may exist: %v, want success", err)
		}
	}
	if got := org.stored(); len(got) != 1 || got[0].Outcome != first.Outcome ||
		!got[0].CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("audittest: stored %+v, want only the first entry, %+v", got, first)
	}
}

func appendFinishesBegunEntry(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	begun, end := org.entry(1), org.entry(2)
	begun.Outcome, end.ID, end.Outcome = audit.Begun, begun.ID, "store_unavailable"
	for _, e := range []audit.Entry{begun, end, begun} {
		if err := org.log.Append(t.Context(), e); err != nil {
			t.Errorf("audittest: append with an id that may exist: %v, want success", err)
		}
	}
	if got := org.stored(); len(got) != 1 || got[0].Outcome != end.Outcome || !got[0].CreatedAt.Equal(begun.CreatedAt) {
		t.Errorf("audittest: stored %+v, want only the first entry, with the outcome %s", got, end.Outcome)
	}
}

func finishReplacesOutcome(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	e := org.entry(1)
	e.Outcome = audit.Begun
	org.append(e)
	before := org.stored()
	if err := org.log.Finish(t.Context(), e.ID, audit.Succeeded); err != nil {
		t.Fatalf("audittest: finish: %v", err)
	}
	before[0].Outcome = audit.Succeeded
	if got := org.stored(); !reflect.DeepEqual(got, before) {
		t.Errorf("audittest: stored %+v, want %+v", got, before)
	}
	if err := org.log.Finish(t.Context(), random(), audit.Succeeded); err == nil {
		t.Error("audittest: finish of an entry that does not exist succeeds")
	}
}

func concurrentAppends(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	e := org.entry(1)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = org.log.Append(t.Context(), e) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("audittest: concurrent appends of one entry: %v", err)
	}
	if got := len(org.stored()); got != 1 {
		t.Errorf("audittest: %d entries stored, want 1", got)
	}
}

func appendRefusesInvalidIDs(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	for _, id := range []string{"", ".", "a/b", "__x__", "\xff"} {
		e := org.entry(1)
		e.ID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("audittest: append accepted the entry id %q", id)
		}
		e = org.entry(1)
		e.OrganizationID = id
		if err := org.log.Append(t.Context(), e); err == nil {
			t.Errorf("audittest: append accepted the organization id %q", id)
		}
	}
	if got := org.stored(); len(got) != 0 {
		t.Errorf("audittest: stored %v, want no entries", ids(got))
	}
}

func otherOrganizationsSeeNothing(t *testing.T, w Fixture) {
	owner, other := w.tenant(t, plan.Enterprise), w.tenant(t, plan.Enterprise)
	e := owner.appendAged(1)[0]
	anonymous := other
	anonymous.ctx = t.Context()
	for name, n := range map[string]tenant{"another organization": other, "a context without a caller": anonymous} {
		for _, f := range []audit.Filter{
			{},
			{TargetID: e.Target.ID},
			{ActorID: e.Actor.ID, From: now.Add(-time.Hour)},
		} {
			if got := n.list(n.log, f, 10); len(got) != 0 {
				t.Errorf("audittest: %s lists %v with filter %+v, want no entries", name, ids(got), f)
			}
			if err := n.log.Each(n.ctx, f, func(e audit.Entry) error { return errors.New(e.ID) }); err != nil {
				t.Errorf("audittest: %s visits %v with filter %+v, want no entries", name, err, f)
			}
		}
	}
}
