package agents_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// listStore is a store that finds one page.
type listStore struct {
	agent.Store
	found page.Page[agent.Agent]
}

// List implements agent.Store.
func (s listStore) List(context.Context, agent.Filter, page.Request) (page.Page[agent.Agent], error) {
	return s.found, nil
}

// listOf returns the route of a list with one page of agents. Each version makes an agent.
func listOf(next string, versions ...string) function.Route {
	found := page.Page[agent.Agent]{Next: next}
	for i, version := range versions {
		id := string(rune('a' + i))
		a := agent.New(id, "cell-1", agent.Draft{Name: id, Plan: plan.Hobby}, time.Now())
		a.Version = version
		found.Items = append(found.Items, a)
	}
	return agents.List(listStore{found: found}, agent.Display{})
}

func TestList_EntityTagChangesWithThePage(t *testing.T) {
	t.Parallel()
	admin, member := functiontest.AsAdmin("org_a"), functiontest.AsMember("org_a")
	tagOf := func(route function.Route, as functiontest.Option) string {
		return functiontest.Call(t, route, as).Want(t, http.StatusOK, "").Header.Get("ETag")
	}
	seen := map[string]string{}
	for name, row := range map[string]struct {
		route function.Route
		as    functiontest.Option
	}{
		"two agents":            {route: listOf("", "1", "1"), as: admin},
		"another version":       {route: listOf("", "1", "2"), as: admin},
		"another order":         {route: listOf("", "2", "1"), as: admin},
		"one agent":             {route: listOf("", "1"), as: admin},
		"no agent":              {route: listOf(""), as: admin},
		"another page after":    {route: listOf("c", "1", "1"), as: admin},
		"seen with less rights": {route: listOf("", "1", "1"), as: member},
	} {
		tag := tagOf(row.route, row.as)
		if other, ok := seen[tag]; ok {
			t.Errorf("%s and %s have the same entity tag %s", name, other, tag)
		}
		seen[tag] = name
		if again := tagOf(row.route, row.as); again != tag {
			t.Errorf("%s: entity tag = %s, then %s without a change", name, tag, again)
		}
	}
}

func TestList_AnswersAKnownPageWithoutABody(t *testing.T) {
	t.Parallel()
	admin, route := functiontest.AsAdmin("org_a"), listOf("c", "1")
	first := functiontest.Call(t, route, admin).Want(t, http.StatusOK, "")
	known := functiontest.Header("If-None-Match", first.Header.Get("ETag"))
	again := functiontest.Call(t, route, admin, known).Want(t, http.StatusNotModified, "")
	if len(again.Body) != 0 {
		t.Errorf("body = %s, want none", again.Body)
	}
	if got := again.Header.Get("X-Next-Cursor"); got != "c" {
		t.Errorf("X-Next-Cursor = %q, want c", got)
	}
	functiontest.Call(t, listOf("c", "2"), admin, known).Want(t, http.StatusOK, "")
}

func TestList_LinksToTheNextPageOfTheSameFilter(t *testing.T) {
	t.Parallel()
	query := url.Values{"status": {"running"}, "name": {"a"}}
	res := functiontest.Call(t, listOf("c", "1"), functiontest.AsMember("org_a"), functiontest.Query(query)).
		Want(t, http.StatusOK, "")
	want := `</api/v1/agents?cursor=c&name=a&status=running>; rel="next"`
	if got := res.Header.Get("Link"); got != want {
		t.Errorf("Link = %s, want %s", got, want)
	}
}
