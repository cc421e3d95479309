package audittest

import (
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/plan"
)

// kept is how long entries are kept on the two kinds of plans: 18 months are 548 days.
const (
	keptShort = 30
	keptLong  = 548
)

func retention(t *testing.T, w World) {
	days := map[plan.ID]int{"": keptShort} // an organization without a record
	for _, p := range plan.All() {
		days[p.ID] = keptShort
	}
	days[plan.Enterprise] = keptLong
	for p, want := range days {
		org := w.tenant(t, p)
		e := org.ago(60)[0]
		if got := org.stored(); len(got) != 1 || !got[0].ExpiresAt.Equal(e.CreatedAt.AddDate(0, 0, want)) {
			t.Errorf("on the plan %q: stored %+v, want it kept for %d days", p, got, want)
		}
	}
}

// expired: what has come to its end is not shown, although it is there for some time still.
func expired(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	e := org.ago(0)[0]
	end := e.CreatedAt.AddDate(0, 0, keptShort)
	for name, c := range map[string]struct {
		at    time.Time
		shown int
	}{
		"at once":        {at: now, shown: 1},
		"before its end": {at: end.Add(-time.Microsecond), shown: 1},
		"at its end":     {at: end, shown: 0},
		"years after it": {at: end.AddDate(3, 0, 0), shown: 0},
	} {
		log := w.Log(t, c.at)
		shown, visited := org.list(log, audit.Filter{}, 10), 0
		err := log.Each(org.ctx, audit.Filter{}, func(audit.Entry) error { visited++; return nil })
		if len(shown) != c.shown || visited != c.shown || err != nil {
			t.Errorf("%s: %d listed, %d visited (%v), want %d", name, len(shown), visited, err, c.shown)
		}
	}
	if got := org.stored(); len(got) != 1 {
		t.Errorf("%d entries are stored, want 1", len(got))
	}
}

// expiredAmongOthers: an organization that changed its plan has entries that end at different times. Pages are full all
// the same, and lead on past what is not shown.
func expiredAmongOthers(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	org.ago(1, 3, 4, 5, 8, 9, 10)
	org.setPlan(plan.Enterprise)
	want := org.ago(2, 6, 7, 11)
	later := w.Log(t, now.AddDate(0, 0, keptShort+1))
	for _, limit := range []int{1, 2, 3, 4, 10} {
		got := org.list(later, audit.Filter{}, limit)
		if !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("pages of %d: got %v, want %v", limit, ids(got), ids(want))
		}
	}
	if got := len(org.stored()); got != 11 {
		t.Errorf("%d entries are stored, want 11", got)
	}
}
