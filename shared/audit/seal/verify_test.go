package seal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit/seal"
)

// replaced returns an entry with a part of its JSON replaced.
func replaced(e seal.Entry, was, is string) seal.Entry {
	e.JSON = []byte(strings.ReplaceAll(string(e.JSON), was, is))
	return e
}

// reseal computes the root and the hash of a seal again, as someone who writes the database can.
func reseal(t *testing.T, s seal.Seal, previous *seal.Seal) seal.Seal {
	t.Helper()
	made, err := seal.New(s.OrganizationID, previous, s.Leaves, s.SealedUntil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestVerify_FindsWhatWasChanged plants one manipulation of the log in each row.
func TestVerify_FindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plant func(t *testing.T, f *fixture)
		want  []seal.Problem
	}{
		"nothing": {plant: func(*testing.T, *fixture) {}},
		"a changed outcome": {
			plant: func(_ *testing.T, f *fixture) { f.Log[7] = replaced(f.Log[7], "succeeded", "role_required") },
			want:  []seal.Problem{{Code: seal.EntryChanged, EntryID: "entry-0007", Sequence: 1}},
		},
		"an added change": {
			plant: func(_ *testing.T, f *fixture) {
				f.Log[120] = replaced(f.Log[120], `"changes":[`, `"changes":[{"field":"x","old":null,"new":"y"},`)
			},
			want: []seal.Problem{{Code: seal.EntryChanged, EntryID: "entry-0120", Sequence: 2}},
		},
		"a missing entry": {
			plant: func(_ *testing.T, f *fixture) { f.Log = append(f.Log[:130:130], f.Log[131:]...) },
			want:  []seal.Problem{{Code: seal.EntryMissing, EntryID: "entry-0130", Sequence: 2}},
		},
		"a missing first entry": {
			plant: func(_ *testing.T, f *fixture) { f.Log = f.Log[1:] },
			want:  []seal.Problem{{Code: seal.EntryMissing, EntryID: "entry-0000", Sequence: 1}},
		},
		"the last sealed entry is missing": {
			plant: func(_ *testing.T, f *fixture) { f.Log = append(f.Log[:299:299], f.Log[300:]...) },
			want:  []seal.Problem{{Code: seal.EntryMissing, EntryID: "entry-0299", Sequence: 3}},
		},
		"an added entry": {
			plant: func(_ *testing.T, f *fixture) { f.Log = append(f.Log, entryAt(9000, 40*time.Second)) },
			want:  []seal.Problem{{Code: seal.EntryAdded, EntryID: "entry-9000"}},
		},
		"an entry older than the log": {
			plant: func(_ *testing.T, f *fixture) { f.Log = append(f.Log, entryAt(9000, -time.Hour)) },
			want:  []seal.Problem{{Code: seal.EntryAdded, EntryID: "entry-9000"}},
		},
		"an entry that moved back": {
			plant: func(_ *testing.T, f *fixture) { f.Log[200] = moved(f.Log[200], 10*time.Second) },
			want:  []seal.Problem{{Code: seal.EntryReordered, EntryID: "entry-0200", Sequence: 3}},
		},
		"an entry that moved past others of its seal": {
			plant: func(_ *testing.T, f *fixture) { f.Log[20] = moved(f.Log[20], 30*time.Minute) },
			want:  []seal.Problem{{Code: seal.EntryReordered, EntryID: "entry-0020", Sequence: 1}},
		},
		"an entry that moved forward to another seal": {
			plant: func(_ *testing.T, f *fixture) { f.Log[20] = moved(f.Log[20], 200*time.Minute) },
			want:  []seal.Problem{{Code: seal.EntryReordered, EntryID: "entry-0020", Sequence: 1}},
		},
		"an entry that moved to the unsealed ones": {
			plant: func(_ *testing.T, f *fixture) { f.Log[20] = moved(f.Log[20], 310*time.Minute) },
			want:  []seal.Problem{{Code: seal.EntryReordered, EntryID: "entry-0020", Sequence: 1}},
		},
		"a seal without one leaf": {
			plant: func(_ *testing.T, f *fixture) { f.Sealed[1].Leaves = f.Sealed[1].Leaves[1:] },
			want: []seal.Problem{
				{Code: seal.SealBroken, Sequence: 2}, {Code: seal.EntryAdded, EntryID: "entry-0100"},
			},
		},
		"a seal with its leaves in another order": {
			plant: func(_ *testing.T, f *fixture) {
				l := f.Sealed[1].Leaves
				l[3], l[4] = l[4], l[3]
			},
			want: []seal.Problem{{Code: seal.SealBroken, Sequence: 2}},
		},
		"a retention that was shortened": {
			plant: func(_ *testing.T, f *fixture) { f.Sealed[1].Leaves[3].ExpiresAt = start },
			want:  []seal.Problem{{Code: seal.SealBroken, Sequence: 2}},
		},
		"a seal of another time": {
			plant: func(_ *testing.T, f *fixture) {
				f.Sealed[1].SealedUntil = f.Sealed[1].SealedUntil.Add(time.Second)
			},
			want: []seal.Problem{{Code: seal.SealBroken, Sequence: 2}},
		},
		"a seal of another organization": {
			plant: func(_ *testing.T, f *fixture) { f.Sealed[0].OrganizationID = "org_2" },
			want:  []seal.Problem{{Code: seal.SealBroken, Sequence: 1}},
		},
		"an entry and its seal rewritten": {
			plant: func(t *testing.T, f *fixture) {
				f.Log[7] = replaced(f.Log[7], "succeeded", "role_required")
				leaf, err := seal.NewLeaf(f.Log[7])
				if err != nil {
					t.Fatal(err)
				}
				f.Sealed[0].Leaves[7] = leaf
				f.Sealed[0] = reseal(t, f.Sealed[0], nil)
			},
			want: []seal.Problem{{Code: seal.SealBroken, Sequence: 2}},
		},
		"the first seal and its entries removed": {
			plant: func(_ *testing.T, f *fixture) { f.Log, f.Sealed = f.Log[100:], f.Sealed[1:] },
			want:  []seal.Problem{{Code: seal.SealBroken, Sequence: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sealedFixture(t)
			c.plant(t, f)
			report := f.verify(nil)
			if got, want := fmt.Sprint(report.Problems), fmt.Sprint(c.want); got != want {
				t.Errorf("problems %s, want %s", got, want)
			}
			if report.Verified() != (len(c.want) == 0) || report.Found != int64(len(c.want)) {
				t.Errorf("verified %t, found %d, want %d problems", report.Verified(), report.Found, len(c.want))
			}
		})
	}
}

// moved gives an entry another time, in its JSON, too.
func moved(e seal.Entry, after time.Duration) seal.Entry {
	was, _ := e.CreatedAt.MarshalJSON()
	e.CreatedAt = start.Add(after)
	is, _ := e.CreatedAt.MarshalJSON()
	return replaced(e, string(was), string(is))
}

func TestVerify_CountsWhatItRead(t *testing.T) {
	t.Parallel()
	report := sealedFixture(t).verify(nil)
	if report.Entries != 320 || report.Seals != 3 || report.Unsealed != 20 || report.Expired != 0 {
		t.Errorf("report %+v, want 320 entries, 20 of them unsealed, and 3 seals", report)
	}
	if report.Newest == nil || report.Newest.Sequence != 3 {
		t.Errorf("newest seal %+v, want the third", report.Newest)
	}
}

func TestVerify_AcceptsAnEmptyLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 0)
	f.sealAt(time.Hour)
	if report := f.verify(nil); !report.Verified() || report.Newest != nil || len(f.Sealed) != 0 {
		t.Errorf("report %+v, seals %v; want no problem and no seal", report, f.Sealed)
	}
	f = newFixture(t, 3)
	if report := f.verify(nil); !report.Verified() || report.Unsealed != 3 {
		t.Errorf("report %+v, want 3 unsealed entries", report)
	}
}

// TestVerify_TellsExpiredFromMissing lets the retention of the first entries end. One of them is still stored.
func TestVerify_TellsExpiredFromMissing(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	f.now = start.AddDate(0, 0, 30).Add(30*time.Minute + time.Second)
	f.Log = append(f.Log[5:31:31], f.Log[32:]...)
	report := f.verify(nil)
	if got, want := fmt.Sprint(report.Problems), "[{entry_missing entry-0031 1}]"; got != want {
		t.Errorf("problems %s, want %s", got, want)
	}
	if report.Expired != 31 {
		t.Errorf("%d expired entries, want 31", report.Expired)
	}
	// When all entries of the first seals have expired, the seals are gone, too.
	f = sealedFixture(t)
	f.now = start.AddDate(0, 0, 30).Add(200 * time.Minute)
	f.Log, f.Sealed = f.Log[201:], f.Sealed[1:]
	report = f.verify(nil)
	if !report.Verified() || report.Seals != 1 {
		t.Errorf("report %+v, want one seal and no problem", report)
	}
}

// TestVerify_AcceptsWhatExpiresWhileItReads lets the first seal and its last entry expire after the first look at the
// clock.
func TestVerify_AcceptsWhatExpiresWhileItReads(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	end := f.Sealed[0].ExpiresAt
	f.now = end.Add(-time.Second)
	f.Now = func() time.Time {
		now := f.now
		f.now = end
		return now
	}
	if report := f.verify(nil); !report.Verified() || report.Seals != 3 {
		t.Errorf("report %+v, want three seals and no problem", report)
	}
}

// TestSeals_ExpireInTheirOrder: a seal that expires before the one before it would leave a gap.
func TestSeals_ExpireInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 200)
	for i := range 50 {
		f.Log[i].ExpiresAt = start.AddDate(0, 0, 548)
	}
	f.sealAt(2 * time.Hour)
	f.sealAt(4 * time.Hour)
	if len(f.Sealed) != 2 || !f.Sealed[1].ExpiresAt.Equal(start.AddDate(0, 0, 548)) {
		t.Errorf("seals %+v, want the second to expire with the first", f.Sealed)
	}
}

func TestVerify_ComparesWithAnAnchor(t *testing.T) {
	t.Parallel()
	kept := sealedFixture(t).Sealed
	leave := func(*testing.T, *fixture) {}
	removeSeals := func(keep int) func(*testing.T, *fixture) {
		return func(_ *testing.T, f *fixture) { f.Sealed = f.Sealed[:keep] }
	}
	rewrite := func(_ *testing.T, f *fixture) {
		f.Log[7] = replaced(f.Log[7], "succeeded", "role_required")
		f.Sealed, f.Heads = nil, nil
		for _, after := range []time.Duration{2 * time.Hour, 3 * time.Hour, 320 * time.Minute} {
			f.sealAt(after)
		}
	}
	for name, c := range map[string]struct {
		plant  func(t *testing.T, f *fixture)
		anchor seal.Anchor
		want   string
		found  bool
	}{
		"the same log":    {plant: leave, anchor: kept[1].Anchor(), want: "[]", found: true},
		"a rewritten log": {plant: rewrite, anchor: kept[1].Anchor(), want: "[{seal_broken  2}]"},
		"the newest seal": {plant: rewrite, anchor: kept[2].Anchor(), want: "[{seal_broken  3}]"},
		"a removed end":   {plant: removeSeals(2), anchor: kept[2].Anchor(), want: "[{seal_broken  3}]"},
		"no seals":        {plant: removeSeals(0), anchor: kept[0].Anchor(), want: "[{seal_broken  1}]"},
		"a seal long ago": {plant: expire, anchor: kept[0].Anchor(), want: "[]"},
		"the one before":  {plant: expire, anchor: kept[1].Anchor(), want: "[]", found: true},
		"another hash then": {
			plant: expire, anchor: seal.Anchor{Sequence: 2, Hash: seal.NoHash}, want: "[{seal_broken  3}]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := sealedFixture(t)
			c.plant(t, f)
			report := f.verify(&c.anchor)
			if got := fmt.Sprint(report.Problems); got != c.want || report.AnchorFound != c.found {
				t.Errorf("problems %s, anchor found %t; want %s, %t", got, report.AnchorFound, c.want, c.found)
			}
		})
	}
}

// expire lets the retention of the first two seals end.
func expire(_ *testing.T, f *fixture) { f.now = f.Sealed[1].ExpiresAt }

func TestVerify_BoundsItsProblems(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	f.Log = nil
	if report := f.verify(nil); report.Found != 300 || len(report.Problems) != seal.MaxProblems {
		t.Errorf("%d problems of %d, want %d of 300", len(report.Problems), report.Found, seal.MaxProblems)
	}
}

func TestVerify_RefusesALaterFormat(t *testing.T) {
	t.Parallel()
	f := sealedFixture(t)
	f.Sealed[0].Leaves[0].Format = 2
	_, err := seal.Verify(t.Context(), f.Memory, organization, f.Now, nil)
	if !errors.Is(err, seal.ErrUnknownFormat) {
		t.Errorf("error %v, want %v", err, seal.ErrUnknownFormat)
	}
}
