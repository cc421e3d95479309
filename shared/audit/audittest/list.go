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

func pages(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	// Several are of the same time, so that a page ends in the middle of them.
	want := org.ago(3, 1, 2, 2, 2, 2, 5)
	for _, limit := range []int{1, 2, 3, 6, 7, 8, 100} {
		if got := org.list(org.log, audit.Filter{}, limit); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("pages of %d: got %v, want %v", limit, ids(got), ids(want))
		}
	}
	exact, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: len(want)})
	if err != nil || exact.Next != "" {
		t.Errorf("a page that holds everything leads on to %q (%v)", exact.Next, err)
	}
}

func pagesWhileOthersAppend(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	want := org.ago(10, 20, 30, 30, 40, 50)
	seen := map[string]int{}
	for cursor := ""; ; {
		p, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 2, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Items {
			seen[e.ID]++
		}
		if cursor = p.Next; cursor == "" {
			break
		}
		org.ago(0, 30) // one that is newer than all, and one as old as the middle
	}
	for _, e := range want {
		if seen[e.ID] != 1 {
			t.Errorf("an entry that was there all along was listed %d times", seen[e.ID])
		}
	}
}

// filters tries every combination of them, with and without bounds.
func filters(t *testing.T, w World) {
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
	for chosen := range 64 {
		f := values[0]
		f.From, f.To = now.Add(-12*time.Second), now.Add(-4*time.Second)
		for bit, clear := range []func(){
			func() { f.ActorID = "" }, func() { f.Action = "" }, func() { f.TargetID = "" }, func() { f.Outcome = "" },
			func() { f.From = time.Time{} }, func() { f.To = time.Time{} },
		} {
			if chosen>>bit&1 == 0 {
				clear()
			}
		}
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matches(e, f) })
		if got := org.list(org.log, f, 100); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("filter %+v: got %v, want %v", f, ids(got), ids(want))
		}
	}
	for _, f := range []audit.Filter{{ActorID: "nobody"}, {From: now, To: now}, {From: now.Add(time.Hour)},
		{From: now, To: now.Add(-time.Hour)}} {
		if got := org.list(org.log, f, 100); len(got) != 0 {
			t.Errorf("a filter that nothing matches, %+v: %v", f, ids(got))
		}
	}
}

func matches(e audit.Entry, f audit.Filter) bool {
	return (f.ActorID == "" || e.Actor.ID == f.ActorID) && (f.Action == "" || e.Action == f.Action) &&
		(f.TargetID == "" || e.Target.ID == f.TargetID) && (f.Outcome == "" || e.Outcome == f.Outcome) &&
		!e.CreatedAt.Before(f.From) && (f.To.IsZero() || e.CreatedAt.Before(f.To))
}

// bounds: windows that follow each other have every entry once.
func bounds(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	want := org.ago(0, 1, 2, 2, 3, 4, 5, 6)
	seen := map[string]int{}
	for to := now.Add(time.Second); to.After(now.Add(-10 * time.Second)); to = to.Add(-2 * time.Second) {
		for _, e := range org.list(org.log, audit.Filter{From: to.Add(-2 * time.Second), To: to}, 10) {
			seen[e.ID]++
		}
	}
	for _, e := range want {
		if seen[e.ID] != 1 {
			t.Errorf("the entry of %v is in %d windows", e.CreatedAt, seen[e.ID])
		}
	}
	first := want[0].CreatedAt
	for name, c := range map[string]struct {
		filter audit.Filter
		found  int
	}{
		"from the newest on":         {filter: audit.Filter{From: first}, found: 1},
		"from a moment after it":     {filter: audit.Filter{From: first.Add(time.Microsecond)}, found: 0},
		"to the newest, exclusively": {filter: audit.Filter{To: first}, found: len(want) - 1},
		"to a moment after it":       {filter: audit.Filter{To: first.Add(time.Microsecond)}, found: len(want)},
		"the whole of time": {filter: audit.Filter{
			From: time.Time{}.Add(time.Microsecond), To: time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC),
		}, found: len(want)},
	} {
		if got := org.list(org.log, c.filter, 10); len(got) != c.found {
			t.Errorf("%s: %d entries, want %d", name, len(got), c.found)
		}
	}
}

// filteredPages: a page's end is a place among what the filters leave.
func filteredPages(t *testing.T, w World) {
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
			t.Errorf("pages of %d: got %v, want %v", limit, ids(got), ids(want))
		}
	}
}

func badCursors(t *testing.T, w World) {
	org, other := w.tenant(t, plan.Hobby), w.tenant(t, plan.Hobby)
	org.ago(1, 2)
	p, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 1})
	if err != nil || p.Next == "" {
		t.Fatalf("no cursor to spoil: %v", err)
	}
	for _, bad := range []string{
		"x", "null", "0", " ", "%", "e30", p.Next + "A", p.Next + "=", p.Next[:len(p.Next)/2],
		strings.Repeat(p.Next, 20),
	} {
		_, err := org.log.List(org.ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("cursor %.60q: %v, want invalid_cursor", bad, err)
		}
	}
	// A cursor of another organization is only a place: it shows nothing of that organization.
	if stolen, err := other.log.List(other.ctx, audit.Filter{}, page.Request{Limit: 1, Cursor: p.Next}); err != nil ||
		len(stolen.Items) != 0 {
		t.Errorf("another organization's cursor: %v, %v", ids(stolen.Items), err)
	}
}

// each visits more than one page holds.
func each(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	var all []audit.Entry
	for i := range 2*page.MaxLimit + 5 {
		e := org.entry(i / 2)
		e.Target.ID = strconv.Itoa(i % 2)
		all = append(all, e)
	}
	all = org.append(all...)
	for _, f := range []audit.Filter{{}, {TargetID: "1"}, {To: now.Add(-20 * time.Second)}, {ActorID: "nobody"}} {
		want := slices.DeleteFunc(slices.Clone(all), func(e audit.Entry) bool { return !matches(e, f) })
		var got []audit.Entry
		err := org.log.Each(org.ctx, f, func(e audit.Entry) error { got = append(got, e); return nil })
		if err != nil || !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("filter %+v: visited %d in another order or number than the %d there are (%v)", f, len(got),
				len(want), err)
		}
	}
}

func eachUntilError(t *testing.T, w World) {
	org := w.tenant(t, plan.Hobby)
	org.ago(1, 2, 3)
	enough, visited := errors.New("enough"), 0
	err := org.log.Each(org.ctx, audit.Filter{}, func(audit.Entry) error {
		if visited++; visited == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || visited != 2 {
		t.Errorf("%v after %d visits, want the visit's own error after 2", err, visited)
	}
}
