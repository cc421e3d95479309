package auditlog_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// asked is an audit.Log that answers with some entries, and remembers what it was asked for.
type asked struct {
	entries []audit.Entry
	next    string
	fail    error

	filters  []audit.Filter
	requests []page.Request
}

func (a *asked) Append(context.Context, audit.Entry) error {
	return errors.New("who reads appends nothing")
}

func (a *asked) List(_ context.Context, f audit.Filter, p page.Request) (page.Page[audit.Entry], error) {
	a.filters, a.requests = append(a.filters, f), append(a.requests, p)
	return page.Page[audit.Entry]{Items: a.entries, Next: a.next}, a.fail
}

func (a *asked) Each(_ context.Context, f audit.Filter, visit func(audit.Entry) error) error {
	a.filters = append(a.filters, f)
	for _, e := range a.entries {
		if err := visit(e); err != nil {
			return err
		}
	}
	return a.fail
}

// who authenticates by the text of the token, which is a plan, or "member".
type who struct{}

func (who) Authenticate(ctx context.Context, token string, _ document.Ref) (context.Context, identity.Caller, error) {
	c := identity.Caller{ID: "u", OrganizationID: token, Role: identity.RoleAdmin}
	if token == "member" {
		c.Role = identity.RoleMember
	}
	return ctx, c, nil
}

// Organization implements function.Organizations: an organization is called by its plan.
func (who) Organization(_ context.Context, id string) (organization.Organization, error) {
	return organization.Organization{ID: id, Plan: plan.ID(id)}, nil
}

const (
	listPath   = "/api/v1/organizations/current/audit-log"
	exportPath = listPath + "/export"
)

// get makes a call to the routes over a log.
func get(log audit.Log, method, token, path string, query url.Values) *httptest.ResponseRecorder {
	var served []function.Served
	for _, r := range []function.Route{auditlog.List(log), auditlog.ExportAll(log)} {
		g := function.Guard{Authenticator: who{}, Organizations: who{}}
		served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(g)})
	}
	req := httptest.NewRequest(method, path+"?"+query.Encode(), nil)
	req.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	function.Mux(served).ServeHTTP(w, req)
	return w
}

// TestNextPage: the link to the next page asks for the same with another cursor.
func TestNextPage(t *testing.T) {
	t.Parallel()
	from, to := time.Date(2026, time.March, 2, 9, 30, 0, 1000, time.UTC),
		time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)
	all := map[string]string{
		"from": "2026-03-02T11:30:00.000001+02:00", "to": "2026-03-03T00:00:00Z", "actor_id": "u&1=",
		"action": "Stop Agent", "target_id": "é/ü", "outcome": "succeeded",
	}
	whole := audit.Filter{From: from, To: to, ActorID: "u&1=", Action: "Stop Agent", TargetID: "é/ü",
		Outcome: "succeeded"}
	cases := map[string]struct {
		query  url.Values
		filter audit.Filter
		limit  int
	}{
		"nothing": {query: url.Values{}, filter: audit.Filter{}, limit: page.DefaultLimit},
		"a limit": {query: url.Values{"limit": {"7"}}, filter: audit.Filter{}, limit: 7},
		"one field": {query: url.Values{"outcome": {"succeeded"}}, filter: audit.Filter{Outcome: "succeeded"},
			limit: page.DefaultLimit},
		"one bound": {query: url.Values{"to": {all["to"]}}, filter: audit.Filter{To: to}, limit: page.DefaultLimit},
	}
	everything := url.Values{"limit": {"100"}}
	for name, value := range all {
		everything.Set(name, value)
	}
	cases["everything"] = struct {
		query  url.Values
		filter audit.Filter
		limit  int
	}{everything, whole, 100}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &asked{entries: []audit.Entry{{ID: "e1"}}, next: "a cursor&"}
			c.query.Set("cursor", "former")
			w := get(log, "GET", "enterprise", listPath, c.query)
			if w.Code != http.StatusOK || w.Header().Get("X-Next-Cursor") != "a cursor&" {
				t.Fatalf("%d %v", w.Code, w.Header())
			}
			follow(t, log, w)
			for i, f := range log.filters {
				f.From, f.To = f.From.UTC(), f.To.UTC()
				if f != c.filter || log.requests[i] != (page.Request{Limit: c.limit,
					Cursor: []string{"former", "a cursor&"}[i]}) {
					t.Errorf("call %d asks for %+v, %+v; want %+v", i, f, log.requests[i], c.filter)
				}
			}
			log.next = ""
			if w := get(log, "GET", "enterprise", listPath, c.query); w.Header().Get("Link") != "" {
				t.Errorf("the last page leads on to %q", w.Header().Get("Link"))
			}
		})
	}
}

func entries(n int) []audit.Entry {
	list := make([]audit.Entry, n)
	for i := range list {
		list[i] = audit.Entry{
			ID: fmt.Sprint("e", i), CreatedAt: time.Date(2026, time.March, 2, 0, 0, n-i, 0, time.UTC),
			Target:  audit.Target{Name: "a <b> & \"c\"\n\u2028"},
			Changes: []audit.Change{{Field: "name", Old: "x", New: strings.Repeat("y", i)}},
		}
	}
	return list
}

// TestList shows entries as they are to be seen, and an empty log as an empty list.
func TestList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3} {
		want := make([]audit.View, n)
		for i, e := range entries(n) {
			want[i] = e.Show()
		}
		w := get(&asked{entries: entries(n)}, "GET", "enterprise", listPath, nil)
		var got []audit.View
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d entries: %s (%v)", n, w.Body, err)
		}
	}
}

// TestExport: every line is an entry, and nothing else is a line.
func TestExport(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 500} {
		log := &asked{entries: entries(n)}
		w := get(log, "GET", "enterprise", exportPath, url.Values{"actor_id": {"u1"}, "to": {"2026-03-03T00:00:00Z"}})
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/x-ndjson" ||
			len(log.filters) != 1 ||
			log.filters[0].ActorID != "u1" || log.filters[0].To.Day() != 3 {
			t.Fatalf("%d %v, asked for %+v", w.Code, w.Header(), log.filters)
		}
		lines := 0
		for scan := bufio.NewScanner(w.Body); scan.Scan(); lines++ {
			var got audit.View
			if err := json.Unmarshal(scan.Bytes(), &got); err != nil ||
				!reflect.DeepEqual(got, log.entries[lines].Show()) {
				t.Fatalf("line %d of %d: %s (%v)", lines, n, scan.Bytes(), err)
			}
			if !strings.Contains(scan.Text(), `a <b> & `) {
				t.Fatalf("line %d is written for a browser: %s", lines, scan.Text())
			}
		}
		if lines != n {
			t.Errorf("%d lines, want %d", lines, n)
		}
	}
	if w := get(&asked{entries: entries(1)}, "HEAD", "enterprise", exportPath, nil); w.Code != 200 || w.Body.Len() > 0 {
		t.Errorf("the head: %d with %d bytes", w.Code, w.Body.Len())
	}
}

// TestRefusals: who may not read the log, and what it can't be asked for, never reach it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	down := fault.New(fault.Unavailable, "store_unavailable", "Later.")
	for name, c := range map[string]struct {
		token, query string
		fail         error
		status       int
		code         string
		asked        bool
	}{
		"a small plan": {token: "hobby", query: "", fail: nil, status: 403, code: "plan_feature_required",
			asked: false},
		"nearly the largest": {token: "business", query: "", fail: nil, status: 403, code: "plan_feature_required",
			asked: false},
		"a member": {token: "member", query: "", fail: nil, status: 403, code: "role_required", asked: false},
		"a bad bound": {token: "enterprise", query: "from=yesterday", fail: nil, status: 422,
			code: "validation_error", asked: false},
		"the store is down": {token: "enterprise", query: "", fail: down, status: 503, code: "store_unavailable",
			asked: true},
	} {
		for _, path := range []string{listPath, exportPath} {
			log := &asked{fail: c.fail}
			query, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			w := get(log, "GET", c.token, path, query)
			if w.Code != c.status || !strings.Contains(w.Body.String(), `"code":"`+c.code+`"`) ||
				(len(log.filters) > 0) != c.asked {
				t.Errorf("%s, %s: %d %s, asked %+v", name, path, w.Code, w.Body, log.filters)
			}
		}
	}
	for _, limit := range []string{"0", "101", "-1", "x", "1.5"} {
		if w := get(&asked{}, "GET", "enterprise", listPath, url.Values{"limit": {limit}}); w.Code != 422 {
			t.Errorf("a limit of %s: %d", limit, w.Code)
		}
	}
	bad := fault.New(fault.BadRequest, "invalid_cursor", "No.")
	if w := get(&asked{fail: bad}, "GET", "enterprise", listPath, url.Values{"cursor": {"x"}}); w.Code != 400 {
		t.Errorf("a bad cursor: %d", w.Code)
	}
}
