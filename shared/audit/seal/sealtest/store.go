package sealtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/plan"
)

// Fixture is an empty store, and access to what it seals.
type Fixture struct {
	// Store opens the store with a clock that shows now.
	Store func(t *testing.T, now time.Time) seal.Store
	// Log writes entries to what the store reads.
	Log audit.Log
	// SetPlan puts an organization on a plan. It creates the organization's record if there is none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
}

// TestStore tests that a seal.Store keeps its contract. open makes an empty fixture.
func TestStore(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"seals are stored whole":                       sealsAreStoredWhole,
		"seals are in their order":                     sealsAreInOrder,
		"expired seals are not shown":                  expiredSealsAreHidden,
		"one of several concurrent seals is created":   oneSealIsCreated,
		"organizations that may read are listed":       organizationsAreListed,
		"entries are in the order of their times":      entriesAreInOrder,
		"entries are bounded by their times":           entriesAreBounded,
		"entries have the time of their last write":    entriesHaveTheirLastWrite,
		"entries that were just written are left":      newEntriesAreLeft,
		"a log that was sealed in several runs agrees": sealedLogAgrees,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// list returns what an iterator yields.
func list[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		if err != nil {
			t.Fatalf("sealtest: %v", err)
		}
		all = append(all, item)
	}
	return all
}

// newSeals makes a chain of seals with one leaf each.
func newSeals(t *testing.T, organizationID string, n int) []seal.Seal {
	t.Helper()
	seals := make([]seal.Seal, n)
	var previous *seal.Seal
	for i := range seals {
		at := time.Date(2026, time.March, 2, 9, i, 0, 123456789, time.UTC)
		made, err := seal.New(organizationID, previous, []seal.Leaf{{
			ID: random(), CreatedAt: at.Truncate(time.Second), ExpiresAt: at.Truncate(time.Second).AddDate(0, 0, 30),
			Format: 1, Hash: seal.NoHash,
		}}, at)
		if err != nil {
			t.Fatalf("sealtest: make a seal: %v", err)
		}
		seals[i] = made
		previous = &seals[i]
	}
	return seals
}

func create(t *testing.T, store seal.Store, seals ...seal.Seal) {
	t.Helper()
	for _, s := range seals {
		if created, err := store.Create(t.Context(), s); !created || err != nil {
			t.Fatalf("sealtest: create seal %d: %t, %v", s.Sequence, created, err)
		}
	}
}

// sealsAreStoredWhole fails if a new field of seal.Seal is not stored.
func sealsAreStoredWhole(t *testing.T, w Fixture) {
	store, want := w.Store(t, time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)), newSeals(t, "org_"+random(), 2)
	create(t, store, want...)
	got := list(t, store.Seals(t.Context(), want[0].OrganizationID))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sealtest: seals = %+v\nwant %+v", got, want)
	}
	v := reflect.ValueOf(got[1])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("sealtest: field %s was not stored, or this test does not set it", v.Type().Field(i).Name)
		}
	}
}

func sequences(seals []seal.Seal) []int64 {
	numbers := make([]int64, len(seals))
	for i, s := range seals {
		numbers[i] = s.Sequence
	}
	return numbers
}

func sealsAreInOrder(t *testing.T, w Fixture) {
	const n = 12
	store, organizationID := w.Store(t, time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)), "org_"+random()
	create(t, store, newSeals(t, organizationID, n)...)
	create(t, store, newSeals(t, "org_"+random(), 1)...)
	want := make([]int64, n)
	for i := range want {
		want[i] = int64(i + 1)
	}
	if got := sequences(list(t, store.Seals(t.Context(), organizationID))); !slices.Equal(got, want) {
		t.Errorf("sealtest: seals %v, want %v", got, want)
	}
	slices.Reverse(want)
	if got := sequences(list(t, store.LatestSeals(t.Context(), organizationID))); !slices.Equal(got, want) {
		t.Errorf("sealtest: latest seals %v, want %v", got, want)
	}
}

func expiredSealsAreHidden(t *testing.T, w Fixture) {
	seals := newSeals(t, "org_"+random(), 3)
	store := w.Store(t, seals[1].ExpiresAt)
	create(t, store, seals...)
	if got := sequences(list(t, store.Seals(t.Context(), seals[0].OrganizationID))); !slices.Equal(got, []int64{3}) {
		t.Errorf("sealtest: seals %v, want [3]", got)
	}
	if got := len(list(t, store.LatestSeals(t.Context(), seals[0].OrganizationID))); got != 3 {
		t.Errorf("sealtest: %d latest seals, want 3", got)
	}
}

func oneSealIsCreated(t *testing.T, w Fixture) {
	store, organizationID := w.Store(t, time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)), "org_"+random()
	var all sync.WaitGroup
	var winners atomic.Int64
	for range 8 {
		s := newSeals(t, organizationID, 1)[0]
		all.Go(func() {
			created, err := store.Create(t.Context(), s)
			if err != nil {
				t.Errorf("sealtest: create: %v", err)
			}
			if created {
				winners.Add(1)
			}
		})
	}
	all.Wait()
	if winners.Load() != 1 || len(list(t, store.Seals(t.Context(), organizationID))) != 1 {
		t.Errorf("sealtest: %d creations succeeded, want 1", winners.Load())
	}
}

func organizationsAreListed(t *testing.T, w Fixture) {
	store := w.Store(t, time.Now())
	var want []string
	for _, p := range append(plan.All(), plan.All()...) {
		id := "org_" + random()
		if err := w.SetPlan(t.Context(), id, p.ID); err != nil {
			t.Fatalf("sealtest: set the plan: %v", err)
		}
		if p.Has(plan.AuditLog) {
			want = append(want, id)
		}
	}
	slices.Sort(want)
	for _, limit := range []int{1, len(want), len(want) + 1} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			ids, err := store.Organizations(t.Context(), after, limit)
			if err != nil {
				t.Fatalf("sealtest: list organizations: %v", err)
			}
			if got = append(got, ids...); len(ids) < limit {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("sealtest: organizations in pages of %d: %v, want %v", limit, got, want)
		}
	}
}

// appendEntries appends entries of some ages and returns their ids, the oldest first.
func (w Fixture) appendEntries(t *testing.T, organizationID string, now time.Time, ages ...time.Duration) []string {
	t.Helper()
	entries := make([]audit.Entry, len(ages))
	for i, age := range ages {
		entries[i] = audit.Entry{
			ID: random(), OrganizationID: organizationID, CreatedAt: now.Add(-age), Action: "StopAgent",
			Outcome: audit.Succeeded, Changes: []audit.Change{{Field: "name", New: "\u2028"}},
		}
		if err := w.Log.Append(t.Context(), entries[i]); err != nil {
			t.Fatalf("sealtest: append an entry: %v", err)
		}
	}
	slices.SortFunc(entries, func(a, b audit.Entry) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

func entryIDs(entries []seal.Entry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

func entriesAreInOrder(t *testing.T, w Fixture) {
	now, organizationID := time.Now().Truncate(time.Microsecond), "org_"+random()
	var ages []time.Duration
	for i := range 20 {
		ages = append(ages, time.Duration(i*7%20/2)*time.Minute) // pairs have the same time
	}
	want := w.appendEntries(t, organizationID, now, ages...)
	w.appendEntries(t, "org_"+random(), now, 0)
	store := w.Store(t, now)
	entries := list(t, store.Entries(t.Context(), organizationID, time.Time{}, time.Time{}))
	if got := entryIDs(entries); !slices.Equal(got, want) {
		t.Fatalf("sealtest: entries %v, want %v", got, want)
	}
	for _, e := range entries {
		parsed, err := seal.ParseEntry(e.JSON)
		if err != nil || parsed.ID != e.ID || !parsed.CreatedAt.Equal(e.CreatedAt) {
			t.Errorf("sealtest: entry %+v has the JSON %s", e, e.JSON)
		}
		if since := e.WrittenAt.Sub(now); since < -time.Minute || since > 10*time.Minute {
			t.Errorf("sealtest: entry written at %v, want the time of the test, %v", e.WrittenAt, now)
		}
	}
	later := w.Store(t, entries[9].ExpiresAt)
	got := entryIDs(list(t, later.Entries(t.Context(), organizationID, time.Time{}, time.Time{})))
	if !slices.Equal(got, want[10:]) {
		t.Errorf("sealtest: entries after half have expired: %v, want %v", got, want[10:])
	}
}

func entriesAreBounded(t *testing.T, w Fixture) {
	now, organizationID := time.Now().Truncate(time.Microsecond), "org_"+random()
	ids := w.appendEntries(t, organizationID, now, 4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute)
	store := w.Store(t, now)
	from, to := now.Add(-3*time.Minute), now.Add(-time.Minute)
	if got := entryIDs(list(t, store.Entries(t.Context(), organizationID, from, to))); !slices.Equal(got, ids[1:3]) {
		t.Errorf("sealtest: entries %v, want %v", got, ids[1:3])
	}
}

// entriesHaveTheirLastWrite: a call may finish its entry some minutes after it wrote it.
func entriesHaveTheirLastWrite(t *testing.T, w Fixture) {
	now, organizationID := time.Now(), "org_"+random()
	id, store := w.appendEntries(t, organizationID, now, time.Hour)[0], w.Store(t, now)
	writtenAt := func() time.Time {
		return list(t, store.Entries(t.Context(), organizationID, time.Time{}, time.Time{}))[0].WrittenAt
	}
	before := writtenAt()
	if err := w.Log.Finish(t.Context(), id, "store_unavailable"); err != nil {
		t.Fatalf("sealtest: finish an entry: %v", err)
	}
	if after := writtenAt(); !after.After(before) {
		t.Errorf("sealtest: the last write was at %v before the entry was finished, and at %v after", before, after)
	}
}

// newEntriesAreLeft: the time of an entry comes from a process, and says nothing about when it was written.
func newEntriesAreLeft(t *testing.T, w Fixture) {
	now, organizationID := time.Now(), "org_"+random()
	if err := w.SetPlan(t.Context(), organizationID, plan.Enterprise); err != nil {
		t.Fatalf("sealtest: set the plan: %v", err)
	}
	w.appendEntries(t, organizationID, now, 25*time.Minute)
	store := w.Store(t, now)
	if err := (&seal.Sealer{Store: store, Now: func() time.Time { return now }}).Run(t.Context()); err != nil {
		t.Fatalf("sealtest: seal: %v", err)
	}
	if got := list(t, store.Seals(t.Context(), organizationID)); len(got) != 0 {
		t.Errorf("sealtest: seals %+v, want none", got)
	}
}

// sealedLogAgrees runs the sealer over a log that grows.
func sealedLogAgrees(t *testing.T, w Fixture) {
	now, organizationID := time.Now(), "org_"+random()
	if err := w.SetPlan(t.Context(), organizationID, plan.Enterprise); err != nil {
		t.Fatalf("sealtest: set the plan: %v", err)
	}
	for i := range 3 {
		w.appendEntries(t, organizationID, now, 3*time.Minute, 2*time.Minute, time.Minute, 0)
		now = now.Add(time.Hour)
		store, clock := w.Store(t, now), func() time.Time { return now }
		if err := (&seal.Sealer{Store: store, Now: clock}).Run(t.Context()); err != nil {
			t.Fatalf("sealtest: seal: %v", err)
		}
		report, err := seal.Verify(t.Context(), store, organizationID, clock, nil)
		if err != nil {
			t.Fatalf("sealtest: verify: %v", err)
		}
		if !report.Verified() || report.Entries != int64(4*(i+1)) || report.Unsealed != 0 {
			t.Errorf("sealtest: report %+v, want %d entries, none of them unsealed, and no problem", report, 4*(i+1))
		}
	}
}
