package audittest

import (
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/plan"
)

// The two retentions of plans, in days. The long one is 18 months.
const (
	keptShort = 30
	keptLong  = 548
)

func planDecidesRetention(t *testing.T, w Fixture) {
	days := map[plan.ID]int{"": keptShort} // an organization without a record
	for _, p := range plan.All() {
		days[p.ID] = keptShort
	}
	days[plan.Enterprise] = keptLong
	for p, want := range days {
		org := w.tenant(t, p)
		e := org.appendAged(60)[0]
		if got := org.stored(); len(got) != 1 || !got[0].ExpiresAt.Equal(e.CreatedAt.AddDate(0, 0, want)) {
			t.Errorf("audittest: plan %q: stored %+v, want one entry that expires after %d days", p, got, want)
		}
	}
}

// expiredEntriesAreHidden checks that an expired entry is not shown, although it is still stored.
func expiredEntriesAreHidden(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	e := org.appendAged(0)[0]
	end := e.CreatedAt.AddDate(0, 0, keptShort)
	for name, c := range map[string]struct {
		at   time.Time
		want int
	}{
		"immediately":        {at: now, want: 1},
		"just before expiry": {at: end.Add(-time.Microsecond), want: 1},
		"at expiry":          {at: end, want: 0},
		"years after expiry": {at: end.AddDate(3, 0, 0), want: 0},
	} {
		log := w.Log(t, c.at)
		if listed := len(org.list(log, audit.Filter{}, 10)); listed != c.want {
			t.Errorf("audittest: %s: %d entries listed, want %d", name, listed, c.want)
		}
		visited := 0
		err := log.Each(org.ctx, audit.Filter{}, func(audit.Entry) error { visited++; return nil })
		if err != nil || visited != c.want {
			t.Errorf("audittest: %s: %d entries visited, %v; want %d", name, visited, err, c.want)
		}
	}
	if got := org.stored(); len(got) != 1 {
		t.Errorf("audittest: %d entries stored, want 1", len(got))
	}
}

// pagesSkipExpiredEntries changes the plan of an organization, so that its entries expire at different times. Pages
// must still be full, and their cursors must lead past expired entries.
func pagesSkipExpiredEntries(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	org.appendAged(1, 3, 4, 5, 8, 9, 10)
	org.setPlan(plan.Enterprise)
	want := org.appendAged(2, 6, 7, 11)
	later := w.Log(t, now.AddDate(0, 0, keptShort+1))
	for _, limit := range []int{1, 2, 3, 4, 10} {
		got := org.list(later, audit.Filter{}, limit)
		if !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("audittest: pages of %d = %v, want %v", limit, ids(got), ids(want))
		}
	}
	if got := len(org.stored()); got != 11 {
		t.Errorf("audittest: %d entries stored, want 11", got)
	}
}
