package firestore

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func TestAuditLog_PagesListEachEntryOnce(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	// Several entries have the same time, so that a page ends between them.
	want := org.appendAged(3, 1, 2, 2, 2, 2, 5)
	for _, limit := range []int{1, 2, 3, 6, 7, 8, 100} {
		if got := org.list(org.log, audit.Filter{}, limit); !reflect.DeepEqual(entryIDs(got), entryIDs(want)) {
			t.Errorf("pages of %d = %v, want %v", limit, entryIDs(got), entryIDs(want))
		}
	}
	exact, err := org.log.List(org.Ctx, audit.Filter{}, page.Request{Limit: len(want)})
	must(t, err)
	if exact.Next != "" {
		t.Errorf("Next = %q for a page with all entries, want none", exact.Next)
	}
}

func TestAuditLog_PagesStayConsistentWhileOthersAppend(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	want := org.appendAged(10, 20, 30, 30, 40, 50)
	seen := map[string]int{}
	for cursor := ""; ; {
		p, err := org.log.List(org.Ctx, audit.Filter{}, page.Request{Limit: 2, Cursor: cursor})
		must(t, err)
		for _, e := range p.Items {
			seen[e.ID]++
		}
		if cursor = p.Next; cursor == "" {
			break
		}
		org.appendAged(0, 30) // one newer than all others, and one as old as those in the middle
	}
	for _, e := range want {
		if seen[e.ID] != 1 {
			t.Errorf("an entry that existed before the first page was listed %d times, want 1", seen[e.ID])
		}
	}
}

// TestAuditLog_CombinesFilters tries every combination of filters and time bounds.
func TestAuditLog_CombinesFilters(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	values := []audit.Filter{
		{ActorID: "u1", Action: "StopAgent", TargetID: "t1", Outcome: audit.Succeeded},
		{ActorID: "u2", Action: "stopagent", TargetID: "t2", Outcome: "role_required"},
	}
	var all []audit.Entry
	for i := range 16 {
		pick := func(bit int) audit.Filter { return values[i>>bit&1] }
		e := org.entry(i)
		e.Actor.ID, e.Action, e.Target.ID, e.Outcome = pick(0).ActorID, pick(1).Action, pick(2).TargetID,
			pick(3).Outcome
		all = append(all, e)
	}
	all = org.append(all...)
	for combination := range 64 {
		f := values[0]
		f.From, f.To = entryTime.Add(-12*time.Second), entryTime.Add(-4*time.Second)
		for bit, clear := range []func(){
			func() { f.ActorID = "" }, func() { f.Action = "" }, func() { f.TargetID = "" }, func() { f.Outcome = "" },
			func() { f.From = time.Time{} }, func() { f.To = time.Time{} },
		} {
			if combination>>bit&1 == 0 {
				clear()
			}
		}
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matchesFilter(e, f) })
		if got := org.list(org.log, f, 100); !reflect.DeepEqual(entryIDs(got), entryIDs(want)) {
			t.Errorf("list with filter %+v = %v, want %v", f, entryIDs(got), entryIDs(want))
		}
	}
	for _, f := range []audit.Filter{
		{ActorID: "unknown"},
		{From: entryTime, To: entryTime},
		{From: entryTime.Add(time.Hour)},
		{From: entryTime, To: entryTime.Add(-time.Hour)},
	} {
		if got := org.list(org.log, f, 100); len(got) != 0 {
			t.Errorf("list with filter %+v = %v, want no entries", f, entryIDs(got))
		}
	}
}

func matchesFilter(e audit.Entry, f audit.Filter) bool {
	return (f.ActorID == "" || e.Actor.ID == f.ActorID) && (f.Action == "" || e.Action == f.Action) &&
		(f.TargetID == "" || e.Target.ID == f.TargetID) && (f.Outcome == "" || e.Outcome == f.Outcome) &&
		!e.CreatedAt.Before(f.From) && (f.To.IsZero() || e.CreatedAt.Before(f.To))
}

// TestAuditLog_IncludesFromAndExcludesTo checks that adjacent windows list every entry once.
func TestAuditLog_IncludesFromAndExcludesTo(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	want := org.appendAged(0, 1, 2, 2, 3, 4, 5, 6)
	seen := map[string]int{}
	for to := entryTime.Add(time.Second); to.After(entryTime.Add(-10 * time.Second)); to = to.Add(-2 * time.Second) {
		for _, e := range org.list(org.log, audit.Filter{From: to.Add(-2 * time.Second), To: to}, 10) {
			seen[e.ID]++
		}
	}
	for _, e := range want {
		if seen[e.ID] != 1 {
			t.Errorf("the entry of %v is in %d windows, want 1", e.CreatedAt, seen[e.ID])
		}
	}
	first := want[0].CreatedAt
	for name, c := range map[string]struct {
		filter audit.Filter
		want   int
	}{
		"from the newest":            {filter: audit.Filter{From: first}, want: 1},
		"from just after the newest": {filter: audit.Filter{From: first.Add(time.Microsecond)}, want: 0},
		"to the newest":              {filter: audit.Filter{To: first}, want: len(want) - 1},
		"to just after the newest":   {filter: audit.Filter{To: first.Add(time.Microsecond)}, want: len(want)},
		"the longest window": {filter: audit.Filter{
			From: time.Time{}.Add(time.Microsecond), To: time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
		}, want: len(want)},
	} {
		if got := org.list(org.log, c.filter, 10); len(got) != c.want {
			t.Errorf("%s: %d entries, want %d", name, len(got), c.want)
		}
	}
}

// TestAuditLog_PagesOfAFilteredListAreFull checks that filtering leaves no gaps in pages.
func TestAuditLog_PagesOfAFilteredListAreFull(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	var all []audit.Entry
	for i := range 12 {
		e := org.entry(i / 3)
		e.Action = []string{"StopAgent", "StartAgent"}[i%2]
		all = append(all, e)
	}
	f := audit.Filter{Action: "StartAgent", From: entryTime.Add(-3 * time.Second), To: entryTime}
	want := slices.DeleteFunc(org.append(all...), func(e audit.Entry) bool { return !matchesFilter(e, f) })
	for _, limit := range []int{1, 2, 3, 4} {
		if got := org.list(org.log, f, limit); !reflect.DeepEqual(entryIDs(got), entryIDs(want)) {
			t.Errorf("pages of %d = %v, want %v", limit, entryIDs(got), entryIDs(want))
		}
	}
}

func TestAuditLog_RefusesInvalidCursors(t *testing.T) {
	t.Parallel()
	c := openAt(t, "", entryTime)
	org, other := newAuditTenant(t, c, plan.Hobby), newAuditTenant(t, c, plan.Hobby)
	org.appendAged(1, 2)
	p, err := org.log.List(org.Ctx, audit.Filter{}, page.Request{Limit: 1})
	if err != nil || p.Next == "" {
		t.Fatalf("first page has cursor %q, %v; want a cursor", p.Next, err)
	}
	for _, bad := range []string{
		"x", "null", "0", " ", "%", "e30", p.Next + "A", p.Next + "=", p.Next[:len(p.Next)/2],
		strings.Repeat(p.Next, 20),
	} {
		_, err := org.log.List(org.Ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("list with cursor %.60q: %v, want invalid_cursor", bad, err)
		}
	}
	// Another organization's cursor is only a position. It gives no access to that organization's entries.
	if stolen, err := other.log.List(other.Ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: p.Next}); err != nil ||
		len(stolen.Items) != 0 {
		t.Errorf("list with another organization's cursor = %v, %v; want no entries", entryIDs(stolen.Items), err)
	}
}

// TestEach_VisitsAllEntries appends more entries than fit on a page.
func TestEach_VisitsAllEntries(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	var all []audit.Entry
	for i := range 2*page.MaxLimit + 5 {
		e := org.entry(i / 2)
		e.Target.ID = strconv.Itoa(i % 2)
		all = append(all, e)
	}
	all = org.append(all...)
	for _, f := range []audit.Filter{
		{},
		{TargetID: "1"},
		{To: entryTime.Add(-20 * time.Second)},
		{ActorID: "unknown"},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matchesFilter(e, f) })
		var got []audit.Entry
		err := org.log.Each(org.Ctx, f, func(e audit.Entry) error { got = append(got, e); return nil })
		if err != nil {
			t.Errorf("each with filter %+v: %v", f, err)
		}
		if !reflect.DeepEqual(entryIDs(got), entryIDs(want)) {
			t.Errorf("each with filter %+v visited %d entries, want %d in the order of List", f, len(got),
				len(want))
		}
	}
}

func TestEach_StopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	org := newAuditTenant(t, openAt(t, "", entryTime), plan.Hobby)
	org.appendAged(1, 2, 3)
	stop, visited := errors.New("stop"), 0
	err := org.log.Each(org.Ctx, audit.Filter{}, func(audit.Entry) error {
		if visited++; visited == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || visited != 2 {
		t.Errorf("each = %v after %d visits, want the error of visit after 2", err, visited)
	}
}

// TestAuditLog_HidesExpiredEntries checks that an expired entry is not shown, although it is still stored.
func TestAuditLog_HidesExpiredEntries(t *testing.T) {
	t.Parallel()
	now := openAt(t, "", entryTime)
	org := newAuditTenant(t, now, plan.Hobby)
	e := org.appendAged(0)[0]
	end := e.CreatedAt.AddDate(0, 0, keptShort)
	for name, c := range map[string]struct {
		at   time.Time
		want int
	}{
		"immediately":        {at: entryTime, want: 1},
		"just before expiry": {at: end.Add(-time.Microsecond), want: 1},
		"at expiry":          {at: end, want: 0},
		"years after expiry": {at: end.AddDate(3, 0, 0), want: 0},
	} {
		log := openAt(t, now.project(), c.at).AuditLog()
		if listed := len(org.list(log, audit.Filter{}, 10)); listed != c.want {
			t.Errorf("%s: %d entries listed, want %d", name, listed, c.want)
		}
		visited := 0
		err := log.Each(org.Ctx, audit.Filter{}, func(audit.Entry) error { visited++; return nil })
		if err != nil || visited != c.want {
			t.Errorf("%s: %d entries visited, %v; want %d", name, visited, err, c.want)
		}
	}
	if got := org.Entries(); len(got) != 1 {
		t.Errorf("%d entries stored, want 1", len(got))
	}
}

// TestAuditLog_PagesSkipExpiredEntries changes the plan of an organization, so that its entries expire at different
// times. Pages must still be full, and their cursors must lead past expired entries.
func TestAuditLog_PagesSkipExpiredEntries(t *testing.T) {
	t.Parallel()
	now := openAt(t, "", entryTime)
	org := newAuditTenant(t, now, plan.Hobby)
	org.appendAged(1, 3, 4, 5, 8, 9, 10)
	must(t, now.setPlan(t.Context(), org.ID, plan.Enterprise))
	want := org.appendAged(2, 6, 7, 11)
	later := openAt(t, now.project(), entryTime.AddDate(0, 0, keptShort+1)).AuditLog()
	for _, limit := range []int{1, 2, 3, 4, 10} {
		got := org.list(later, audit.Filter{}, limit)
		if !reflect.DeepEqual(entryIDs(got), entryIDs(want)) {
			t.Errorf("pages of %d = %v, want %v", limit, entryIDs(got), entryIDs(want))
		}
	}
	if got := len(org.Entries()); got != 11 {
		t.Errorf("%d entries stored, want 11", got)
	}
}

func TestAuditLog_HidesEntriesOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	c := openAt(t, "", entryTime)
	owner, other := newAuditTenant(t, c, plan.Enterprise), newAuditTenant(t, c, plan.Enterprise)
	e := owner.appendAged(1)[0]
	anonymous := other
	anonymous.Ctx = t.Context()
	for name, n := range map[string]auditTenant{
		"another organization":       other,
		"a context without a caller": anonymous,
	} {
		for _, f := range []audit.Filter{
			{},
			{TargetID: e.Target.ID},
			{ActorID: e.Actor.ID, From: entryTime.Add(-time.Hour)},
		} {
			if got := n.list(n.log, f, 10); len(got) != 0 {
				t.Errorf("%s lists %v with filter %+v, want no entries", name, entryIDs(got), f)
			}
			if err := n.log.Each(n.Ctx, f, func(e audit.Entry) error { return errors.New(e.ID) }); err != nil {
				t.Errorf("%s visits %v with filter %+v, want no entries", name, err, f)
			}
		}
	}
}
