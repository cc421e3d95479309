package firestore

import (
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/plan"
)

// sealTime is a time after the seals of newSeals.
var sealTime = time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)

// sealFixture opens a database and its seals.
type sealFixture struct {
	client *Client
	page   int
}

// at opens the seals with a clock that shows now.
func (w sealFixture) at(t *testing.T, now time.Time) *AuditSeals {
	t.Helper()
	return &AuditSeals{client: openAt(t, w.client.project(), now), page: w.page}
}

// forEachSealPage runs a test with seals that read all entries in one call, and with ones that need several.
func forEachSealPage(t *testing.T, test func(*testing.T, sealFixture)) {
	t.Helper()
	for name, size := range map[string]int{"one page": entryPage, "many pages": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, sealFixture{client: open(t, "", Options{}), page: size})
		})
	}
}

// yielded returns what an iterator yields.
func yielded[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		must(t, err)
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
			ID: agenttest.ID(), CreatedAt: at.Truncate(time.Second),
			ExpiresAt: at.Truncate(time.Second).AddDate(0, 0, 30), Format: 1, Hash: seal.NoHash,
		}}, at)
		must(t, err)
		seals[i] = made
		previous = &seals[i]
	}
	return seals
}

func createSeals(t *testing.T, store *AuditSeals, seals ...seal.Seal) {
	t.Helper()
	for _, s := range seals {
		if created, err := store.Create(t.Context(), s); !created || err != nil {
			t.Fatalf("create seal %d: %t, %v", s.Sequence, created, err)
		}
	}
}

// TestAuditSeals_AreStoredWhole fails if a new field of seal.Seal is not stored.
func TestAuditSeals_AreStoredWhole(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		store, want := w.at(t, sealTime), newSeals(t, "org_"+agenttest.ID(), 2)
		createSeals(t, store, want...)
		got := yielded(t, store.Seals(t.Context(), want[0].OrganizationID))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("seals = %+v\nwant %+v", got, want)
		}
		v := reflect.ValueOf(got[1])
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("field %s was not stored, or this test does not set it", v.Type().Field(i).Name)
			}
		}
	})
}

func sequences(seals []seal.Seal) []int64 {
	numbers := make([]int64, len(seals))
	for i, s := range seals {
		numbers[i] = s.Sequence
	}
	return numbers
}

func TestAuditSeals_AreInOrder(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		const n = 12
		store, organizationID := w.at(t, sealTime), "org_"+agenttest.ID()
		createSeals(t, store, newSeals(t, organizationID, n)...)
		createSeals(t, store, newSeals(t, "org_"+agenttest.ID(), 1)...)
		want := make([]int64, n)
		for i := range want {
			want[i] = int64(i + 1)
		}
		if got := sequences(yielded(t, store.Seals(t.Context(), organizationID))); !slices.Equal(got, want) {
			t.Errorf("seals %v, want %v", got, want)
		}
		slices.Reverse(want)
		if got := sequences(yielded(t, store.LatestSeals(t.Context(), organizationID))); !slices.Equal(got, want) {
			t.Errorf("latest seals %v, want %v", got, want)
		}
	})
}

func TestAuditSeals_HideExpiredOnes(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		seals := newSeals(t, "org_"+agenttest.ID(), 3)
		store := w.at(t, seals[1].ExpiresAt)
		createSeals(t, store, seals...)
		organizationID := seals[0].OrganizationID
		if got := sequences(yielded(t, store.Seals(t.Context(), organizationID))); !slices.Equal(got, []int64{3}) {
			t.Errorf("seals %v, want [3]", got)
		}
		if got := len(yielded(t, store.LatestSeals(t.Context(), organizationID))); got != 3 {
			t.Errorf("%d latest seals, want 3", got)
		}
	})
}

func TestAuditSeals_OneOfSeveralConcurrentOnesIsCreated(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		store, organizationID := w.at(t, sealTime), "org_"+agenttest.ID()
		var all sync.WaitGroup
		var winners atomic.Int64
		for range 8 {
			s := newSeals(t, organizationID, 1)[0]
			all.Go(func() {
				created, err := store.Create(t.Context(), s)
				if err != nil {
					t.Errorf("create: %v", err)
				}
				if created {
					winners.Add(1)
				}
			})
		}
		all.Wait()
		if winners.Load() != 1 || len(yielded(t, store.Seals(t.Context(), organizationID))) != 1 {
			t.Errorf("%d creations succeeded, want 1", winners.Load())
		}
	})
}

func TestAuditSeals_ListOrganizationsThatMayRead(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		store := w.at(t, time.Now())
		var want []string
		for _, p := range append(plan.All(), plan.All()...) {
			id := "org_" + agenttest.ID()
			must(t, w.client.setPlan(t.Context(), id, p.ID))
			if p.Has(plan.AuditLog) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		for _, limit := range []int{1, len(want), len(want) + 1} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				ids, err := store.Organizations(t.Context(), after, limit)
				must(t, err)
				if got = append(got, ids...); len(ids) < limit {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("organizations in pages of %d: %v, want %v", limit, got, want)
			}
		}
	})
}

// appendEntries appends entries of some ages and returns their ids, the oldest first.
func (w sealFixture) appendEntries(t *testing.T, organizationID string, now time.Time, ages ...time.Duration) []string {
	t.Helper()
	entries := make([]audit.Entry, len(ages))
	for i, age := range ages {
		entries[i] = audit.Entry{
			ID: agenttest.ID(), OrganizationID: organizationID, CreatedAt: now.Add(-age), Action: "StopAgent",
			Outcome: audit.Succeeded, Changes: []audit.Change{{Field: "name", New: "\u2028"}},
		}
		must(t, w.client.AuditLog().Append(t.Context(), entries[i]))
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

func sealedIDs(entries []seal.Entry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

func TestAuditSeals_EntriesAreInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		now, organizationID := time.Now().Truncate(time.Microsecond), "org_"+agenttest.ID()
		var ages []time.Duration
		for i := range 20 {
			ages = append(ages, time.Duration(i*7%20/2)*time.Minute) // pairs have the same time
		}
		want := w.appendEntries(t, organizationID, now, ages...)
		w.appendEntries(t, "org_"+agenttest.ID(), now, 0)
		store := w.at(t, now)
		entries := yielded(t, store.Entries(t.Context(), organizationID, time.Time{}, time.Time{}))
		if got := sealedIDs(entries); !slices.Equal(got, want) {
			t.Fatalf("entries %v, want %v", got, want)
		}
		for _, e := range entries {
			parsed, err := seal.ParseEntry(e.JSON)
			if err != nil || parsed.ID != e.ID || !parsed.CreatedAt.Equal(e.CreatedAt) {
				t.Errorf("entry %+v has the JSON %s", e, e.JSON)
			}
			if since := e.WrittenAt.Sub(now); since < -time.Minute || since > 10*time.Minute {
				t.Errorf("entry written at %v, want the time of the test, %v", e.WrittenAt, now)
			}
		}
		later := w.at(t, entries[9].ExpiresAt)
		got := sealedIDs(yielded(t, later.Entries(t.Context(), organizationID, time.Time{}, time.Time{})))
		if !slices.Equal(got, want[10:]) {
			t.Errorf("entries after half have expired: %v, want %v", got, want[10:])
		}
	})
}

func TestAuditSeals_EntriesAreBoundedByTheirTimes(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		now, organizationID := time.Now().Truncate(time.Microsecond), "org_"+agenttest.ID()
		ids := w.appendEntries(t, organizationID, now, 4*time.Minute, 3*time.Minute, 2*time.Minute, time.Minute)
		store := w.at(t, now)
		from, to := now.Add(-3*time.Minute), now.Add(-time.Minute)
		got := sealedIDs(yielded(t, store.Entries(t.Context(), organizationID, from, to)))
		if !slices.Equal(got, ids[1:3]) {
			t.Errorf("entries %v, want %v", got, ids[1:3])
		}
	})
}

// TestAuditSeals_EntriesHaveTheTimeOfTheirLastWrite: a call may finish its entry some minutes after it wrote it.
func TestAuditSeals_EntriesHaveTheTimeOfTheirLastWrite(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		now, organizationID := time.Now(), "org_"+agenttest.ID()
		id, store := w.appendEntries(t, organizationID, now, time.Hour)[0], w.at(t, now)
		writtenAt := func() time.Time {
			return yielded(t, store.Entries(t.Context(), organizationID, time.Time{}, time.Time{}))[0].WrittenAt
		}
		before := writtenAt()
		must(t, w.client.AuditLog().Finish(t.Context(), id, "store_unavailable"))
		if after := writtenAt(); !after.After(before) {
			t.Errorf("the last write was at %v before the entry was finished, and at %v after", before, after)
		}
	})
}

// TestSealer_LeavesEntriesThatWereJustWritten: the time of an entry comes from a process, and says nothing about when
// it was written.
func TestSealer_LeavesEntriesThatWereJustWritten(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		now, organizationID := time.Now(), "org_"+agenttest.ID()
		must(t, w.client.setPlan(t.Context(), organizationID, plan.Enterprise))
		w.appendEntries(t, organizationID, now, 25*time.Minute)
		store := w.at(t, now)
		must(t, (&seal.Sealer{Store: store, Now: func() time.Time { return now }}).Run(t.Context()))
		if got := yielded(t, store.Seals(t.Context(), organizationID)); len(got) != 0 {
			t.Errorf("seals %+v, want none", got)
		}
	})
}

// TestSealer_SealsALogInSeveralRuns runs the sealer over a log that grows.
func TestSealer_SealsALogInSeveralRuns(t *testing.T) {
	t.Parallel()
	forEachSealPage(t, func(t *testing.T, w sealFixture) {
		now, organizationID := time.Now(), "org_"+agenttest.ID()
		must(t, w.client.setPlan(t.Context(), organizationID, plan.Enterprise))
		for i := range 3 {
			w.appendEntries(t, organizationID, now, 3*time.Minute, 2*time.Minute, time.Minute, 0)
			now = now.Add(time.Hour)
			store, clock := w.at(t, now), func() time.Time { return now }
			must(t, (&seal.Sealer{Store: store, Now: clock}).Run(t.Context()))
			report, err := seal.Verify(t.Context(), store, organizationID, clock, nil)
			must(t, err)
			if !report.Verified() || report.Entries != int64(4*(i+1)) || report.Unsealed != 0 {
				t.Errorf("report %+v, want %d entries, none of them unsealed, and no problem", report, 4*(i+1))
			}
		}
	})
}

// TestAuditSeals_KeepTheHeadOfAChain deletes the seals of a chain. The head stays, and no older seal replaces it.
func TestAuditSeals_KeepTheHeadOfAChain(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	store := c.AuditSeals()
	for name, former := range map[string]bool{"this release": false, "a former release": true} {
		id := agenttest.ID()
		seals := newSeals(t, id, 3)
		for _, s := range seals {
			if former {
				_, err := c.collection(sealCollection).Doc(sealID(id, s.Sequence)).
					Set(t.Context(), sealFields(&s).encode())
				must(t, err)
				continue
			}
			_, err := store.Create(t.Context(), s)
			must(t, err)
		}
		if former {
			must(t, store.KeepHead(t.Context(), seals[1]))
			must(t, store.KeepHead(t.Context(), seals[2]))
		}
		must(t, store.KeepHead(t.Context(), seals[0]))
		if got := yielded(t, store.LatestSeals(t.Context(), id)); len(got) != 3 {
			t.Errorf("%s: %d seals, want 3 and no head", name, len(got))
		}
		for _, s := range seals {
			_, err := c.collection(sealCollection).Doc(sealID(id, s.Sequence)).Delete(t.Context())
			must(t, err)
		}
		got := yielded(t, store.LatestSeals(t.Context(), id))
		if want := []seal.Seal{seals[2].Head()}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: without seals the head is %+v, want %+v", name, got, want)
		}
	}
}

// TestAuditSeals_GoOnFromTheHeadWhereOlderOnesAreLeft deletes the newest of the seals that have expired first:
// Firestore deletes them in any order.
func TestAuditSeals_GoOnFromTheHeadWhereOlderOnesAreLeft(t *testing.T) {
	t.Parallel()
	c, id := open(t, "", Options{}), agenttest.ID()
	seals := newSeals(t, id, 3)
	expired := openAt(t, c.project(), seals[2].ExpiresAt.Add(time.Hour)).AuditSeals()
	createSeals(t, expired, seals...)
	if got := yielded(t, expired.LatestSeals(t.Context(), id)); len(got) != 3 {
		t.Errorf("%d seals while Firestore has deleted none, want 3", len(got))
	}
	_, err := c.collection(sealCollection).Doc(sealID(id, seals[2].Sequence)).Delete(t.Context())
	must(t, err)
	got := yielded(t, expired.LatestSeals(t.Context(), id))
	if want := []seal.Seal{seals[2].Head()}; !reflect.DeepEqual(got, want) {
		t.Errorf("the newest seals are %+v, want the head %+v", got, want)
	}
}
