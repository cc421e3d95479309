package agenttest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func pageOf(limit int, cursor string) page.Request { return page.Request{Limit: limit, Cursor: cursor} }

// listAll follows the cursors to the end.
func listAll(t testing.TB, s agent.Store, ctx context.Context, f agent.Filter, limit int) []agent.Agent {
	t.Helper()
	var all []agent.Agent
	for cursor := ""; ; {
		p, err := s.List(ctx, f, pageOf(limit, cursor))
		if err != nil {
			t.Fatalf("list agents: %v", err)
		}
		if len(p.Items) > limit {
			t.Fatalf("a page has %d agents, want at most %d", len(p.Items), limit)
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all
		}
		if len(p.Items) == 0 || p.Next == cursor {
			t.Fatalf("page with %d agents and the next cursor %q after %q: the list does not advance", len(p.Items),
				p.Next, cursor)
		}
		cursor = p.Next
	}
}

// createAt creates an agent for each number: its creation time is that many seconds after a common start.
func createAt(t testing.TB, w Fixture, org Tenant, seconds ...int) []agent.Agent {
	t.Helper()
	start := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	agents := make([]agent.Agent, len(seconds))
	for i, s := range seconds {
		draft := Draft(plan.Hobby)
		draft.CreatedAt = start.Add(time.Duration(s) * time.Second)
		a, err := w.Store.Create(org.Ctx, draft)
		if err != nil {
			t.Fatal(err)
		}
		agents[i] = a
	}
	return agents
}

// newestFirst sorts agents in the order of the interface.
func newestFirst(agents []agent.Agent) []agent.Agent {
	sorted := slices.Clone(agents)
	slices.SortFunc(sorted, func(a, b agent.Agent) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return sorted
}

func listInPages(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	// Four agents have the same time, so that a page ends among them.
	want := newestFirst(createAt(t, w, org, 3, 1, 2, 2, 2, 2, 5))
	for _, limit := range []int{1, 2, 3, 6, 7, 8, 100} {
		if got := listAll(t, w.Store, org.Ctx, agent.Filter{}, limit); !reflect.DeepEqual(got, want) {
			t.Errorf("list in pages of %d = %v, want %v", limit, ids(got), ids(want))
		}
	}
	for _, limit := range []int{0, -1, 1000} {
		p, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(limit, ""))
		if err != nil || len(p.Items) != len(want) || p.Next != "" {
			t.Errorf("List with limit %d: %d agents, next %q, error %v; want all %d", limit, len(p.Items), p.Next, err,
				len(want))
		}
	}
	exact, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(len(want), ""))
	if err != nil || exact.Next != "" {
		t.Errorf("page with all agents: next %q, error %v; want no next page", exact.Next, err)
	}
}

func listWhileOthersCreate(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	want := newestFirst(createAt(t, w, org, 10, 20, 30, 30, 40, 50))
	listed := map[string]int{}
	for cursor := ""; ; {
		p, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(2, cursor))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Items {
			listed[a.ID]++
		}
		if cursor = p.Next; cursor == "" {
			break
		}
		// Create one newer agent and one in the middle, and remove one that was listed.
		createAt(t, w, org, 60, 30)
		if err := w.Records.Remove(t.Context(), p.Items[0], agent.Deletion{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range want {
		equal(t, "times that an agent was listed which existed throughout", listed[a.ID], 1)
	}
}

func listWithFilters(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	values := []agent.Filter{
		{Status: agent.Running, Plan: "pro", Region: "r1", Name: "Ann"},
		{Status: agent.Stopped, Plan: "hobby", Region: "r2", Name: "ann"},
	}
	var all []agent.Agent
	for i := range 16 {
		draft := Draft(plan.Pro)
		pick := func(bit int) agent.Filter { return values[i>>bit&1] }
		draft.Status, draft.Plan, draft.Region, draft.Name = pick(0).Status, plan.ID(pick(1).Plan), pick(2).Region,
			pick(3).Name
		a, err := w.Store.Create(org.Ctx, draft)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	all = newestFirst(all)
	for chosen := range 16 {
		f := values[0]
		for bit, field := range []func(){
			func() { f.Status = "" }, func() { f.Plan = "" }, func() { f.Region = "" }, func() { f.Name = "" },
		} {
			if chosen>>bit&1 == 0 {
				field()
			}
		}
		want := slices.DeleteFunc(slices.Clone(all), func(a agent.Agent) bool { return !matches(a, f) })
		if got := listAll(t, w.Store, org.Ctx, f, 3); !reflect.DeepEqual(ids(got), ids(want)) {
			t.Errorf("list with filter %+v = %v, want %v", f, ids(got), ids(want))
		}
	}
	if got := listAll(t, w.Store, org.Ctx, agent.Filter{Name: "no such name"}, 3); len(got) != 0 {
		t.Errorf("list with a filter that matches no agent = %v, want none", ids(got))
	}
}

func matches(a agent.Agent, f agent.Filter) bool {
	return (f.Status == "" || a.Status == f.Status) && (f.Plan == "" || string(a.Plan) == f.Plan) &&
		(f.Region == "" || a.Region == f.Region) && (f.Name == "" || a.Name == f.Name)
}

func badCursors(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	createAt(t, w, org, 1, 2)
	p, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(1, ""))
	if err != nil || p.Next == "" {
		t.Fatalf("List: next %q, error %v; want a cursor", p.Next, err)
	}
	for _, bad := range []string{
		"x", "null", "0", " ", "%", "e30", p.Next + "A", p.Next + "=", p.Next[:len(p.Next)/2],
		strings.Repeat(p.Next, 20),
	} {
		_, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(1, bad))
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("List with cursor %.60q = %v, want invalid_cursor", bad, err)
		}
	}
	// A cursor is only a position: another organization's cursor shows none of its agents.
	other := w.Tenant(t, plan.Enterprise)
	if stolen, err := w.Store.List(other.Ctx, agent.Filter{}, pageOf(10, p.Next)); err != nil ||
		len(stolen.Items) != 0 {
		t.Errorf("List with another organization's cursor = %v, %v, want no agents", ids(stolen.Items), err)
	}
}

func ids(agents []agent.Agent) []string {
	out := make([]string, len(agents))
	for i, a := range agents {
		out[i] = fmt.Sprintf("%s@%s", a.ID[:8], a.CreatedAt.Format("05.000"))
	}
	return out
}
