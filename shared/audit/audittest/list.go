package audittest

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

func pagesListEveryEntry(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	// Several entries have the same time, so that a page ends between them.
	want := org.appendAged(3, 1, 2, 2, 2, 2, 5)
	for _, limit := range []int{1, 2, 3, 6, 7, 8, 100} {
		if got := org.list(org.log, audit.Filter{}, limit); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("audittest: pages of %d = %v, want %v", limit, ids(got), ids(want))
		}
	}
	exact, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: len(want)})
	if err != nil {
		t.Fatalf("audittest: list all entries in one page: %v", err)
	}
	if exact.Next != "" {
		t.Errorf("audittest: Next = %q for a page with all entries, want none", exact.Next)
	}
}

func pagesWhileOthersAppend(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	want := org.appendAged(10, 20, 30, 30, 40, 50)
	seen := map[string]int{}
	for cursor := ""; ; {
		p, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatalf("audittest: list entries: %v", err)
		}
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
			t.Errorf("audittest: an entry that existed before the first page was listed %d times, want 1", seen[e.ID])
		}
	}
}

// filters tries every combination of filters and time bounds.
func filters(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
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
		f.From, f.To = now.Add(-12*time.Second), now.Add(-4*time.Second)
		for bit, clear := range []func(){
			func() { f.ActorID = "" }, func() { f.Action = "" }, func() { f.TargetID = "" }, func() { f.Outcome = "" },
			func() { f.From = time.Time{} }, func() { f.To = time.Time{} },
		} {
			if combination>>bit&1 == 0 {
				clear()
			}
		}
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matches(e, f) })
		if got := org.list(org.log, f, 100); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("audittest: list with filter %+v = %v, want %v", f, ids(got), ids(want))
		}
	}
	for _, f := range []audit.Filter{
		{ActorID: "unknown"},
		{From: now, To: now},
		{From: now.Add(time.Hour)},
		{From: now, To: now.Add(-time.Hour)},
	} {
		if got := org.list(org.log, f, 100); len(got) != 0 {
			t.Errorf("audittest: list with filter %+v = %v, want no entries", f, ids(got))
		}
	}
}

func matches(e audit.Entry, f audit.Filter) bool {
	return (f.ActorID == "" || e.Actor.ID == f.ActorID) && (f.Action == "" || e.Action == f.Action) &&
		(f.TargetID == "" || e.Target.ID == f.TargetID) && (f.Outcome == "" || e.Outcome == f.Outcome) &&
		!e.CreatedAt.Before(f.From) && (f.To.IsZero() || e.CreatedAt.Before(f.To))
}

// timeBounds checks that adjacent windows list every entry once.
func timeBounds(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	want := org.appendAged(0, 1, 2, 2, 3, 4, 5, 6)
	seen := map[string]int{}
	for to := now.Add(time.Second); to.After(now.Add(-10 * time.Second)); to = to.Add(-2 * time.Second) {
		for _, e := range org.list(org.log, audit.Filter{From: to.Add(-2 * time.Second), To: to}, 10) {
			seen[e.ID]++
		}
	}
	for _, e := range want {
		if seen[e.ID] != 1 {
			t.Errorf("audittest: the entry of %v is in %d windows, want 1", e.CreatedAt, seen[e.ID])
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
			t.Errorf("audittest: %s: %d entries, want %d", name, len(got), c.want)
		}
	}
}

// filteredPages checks that filtering leaves no gaps in pages.
func filteredPages(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	var all []audit.Entry
	for i := range 12 {
		e := org.entry(i / 3)
		e.Action = []string{"StopAgent", "StartAgent"}[i%2]
		all = append(all, e)
	}
	f := audit.Filter{Action: "StartAgent", From: now.Add(-3 * time.Second), To: now}
	want := slices.DeleteFunc(org.append(all...), func(e audit.Entry) bool { return !matches(e, f) })
	for _, limit := range []int{1, 2, 3, 4} {
		if got := org.list(org.log, f, limit); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("audittest: pages of %d = %v, want %v", limit, ids(got), ids(want))
		}
	}
}

func invalidCursors(t *testing.T, w Fixture) {
	org, other := w.tenant(t, plan.Hobby), w.tenant(t, plan.Hobby)
	org.appendAged(1, 2)
	p, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 1})
	if err != nil || p.Next == "" {
		t.Fatalf("audittest: first page has cursor %q, %v; want a cursor", p.Next, err)
	}
	for _, bad := range []string{
		"x", "null", "0", " ", "%", "e30", p.Next + "A", p.Next + "=", p.Next[:len(p.Next)/2],
		strings.Repeat(p.Next, 20),
	} {
		_, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("audittest: list with cursor %.60q: %v, want invalid_cursor", bad, err)
		}
	}
	// Another organization's cursor is only a position. It gives no access to that organization's entries.
	if stolen, err := other.log.List(other.ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: p.Next}); err != nil ||
		len(stolen.Items) != 0 {
		t.Errorf("audittest: list with another organization's cursor = %v, %v; want no entries", ids(stolen.Items), err)
	}
}

// eachVisitsAllEntries appends more entries than fit on a page.
func eachVisitsAllEntries(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	var all []audit.Entry
	for i := range 2*page.MaxLimit + 5 {
		e := org.entry(i / 2)
		e.Target.ID = strconv.Itoa(i % 2)
		all = append(all, e)
	}
	all = org.append(all...)
	for _, f := range []audit.Filter{{}, {TargetID: "1"}, {To: now.Add(-20 * time.Second)}, {ActorID: "unknown"}} {
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matches(e, f) })
		var got []audit.Entry
		err := org.log.Each(org.ctx, f, func(e audit.Entry) error { got = append(got, e); return nil })
		if err != nil {
			t.Errorf("audittest: each with filter %+v: %v", f, err)
		}
		if !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("audittest: each with filter %+v visited %d entries, want %d in the order of List", f, len(got),
				len(want))
		}
	}
}

func eachStopsAtError(t *testing.T, w Fixture) {
	org := w.tenant(t, plan.Hobby)
	org.appendAged(1, 2, 3)
	stop, visited := errors.New("stop"), 0
	err := org.log.Each(org.ctx, audit.Filter{}, func(audit.Entry) error {
		if visited++; visited == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || visited != 2 {
		t.Errorf("audittest: each = %v after %d visits, want the error of visit after 2", err, visited)
	}
}
