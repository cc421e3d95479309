package auditlog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/auditlog"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// fakeLog is an audit.Log that answers with some entries and records the requests.
type fakeLog struct {
	entries []audit.Entry
	next    string
	fail    error

	filters []audit.Filter
	pages   []page.Request
}

func (*fakeLog) Outcome(context.Context, string) (string, error) {
	return "", errors.New("a route must not read an outcome")
}

func (l *fakeLog) Finish(context.Context, string, string, ...audit.Change) error {
	return errors.New("a route must not finish entries")
}

func (l *fakeLog) Append(context.Context, audit.Entry) error {
	return errors.New("a read must not append")
}

func (l *fakeLog) List(_ context.Context, f audit.Filter, p page.Request) (page.Page[audit.Entry], error) {
	l.filters, l.pages = append(l.filters, f), append(l.pages, p)
	return page.Page[audit.Entry]{Items: l.entries, Next: l.next}, l.fail
}

func (l *fakeLog) Each(_ context.Context, f audit.Filter, visit func(audit.Entry) error) error {
	l.filters = append(l.filters, f)
	for _, e := range l.entries {
		if err := visit(e); err != nil {
			return err
		}
	}
	return l.fail
}

// planNamed has organizations that are named after their plans.
type planNamed struct{}

// Organization implements function.Organizations.
func (planNamed) Organization(_ context.Context, id string) (organization.Organization, error) {
	return organization.Organization{ID: id, Plan: plan.ID(id)}, nil
}

const (
	listPath   = "/api/v1/organizations/current/audit-log"
	exportPath = listPath + "/export"
	enterprise = string(plan.Enterprise)
)

// read sends a request to the routes over a log.
func read(t *testing.T, log audit.Log, method, path string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	return send(t, method, path, options, auditlog.List(log), auditlog.ExportAll(log, nil))
}

// send sends a request to some routes.
func send(
	t *testing.T, method, path string, options []functiontest.Option, routes ...function.Route,
) functiontest.Response {
	t.Helper()
	guard := functiontest.NewGuard()
	guard.Organizations = planNamed{}
	var served []function.Served
	for _, r := range routes {
		served = append(served, r.Served(guard))
	}
	return functiontest.Send(t, function.Mux(served), method, path, options...)
}

// get reads as an admin on the Enterprise plan.
func get(t *testing.T, log audit.Log, path string, query url.Values) functiontest.Response {
	t.Helper()
	return read(t, log, http.MethodGet, path, functiontest.AsAdmin(enterprise), functiontest.Query(query))
}

func TestList_LinksToTheNextPageOfTheSameFilter(t *testing.T) {
	t.Parallel()
	from, to := time.Date(2026, time.March, 2, 9, 30, 0, 1000, time.UTC),
		time.Date(2026, time.March, 3, 0, 0, 0, 0, time.UTC)
	every := url.Values{
		"from": {"2026-03-02T11:30:00.000001+02:00"}, "to": {"2026-03-03T00:00:00Z"}, "actor_id": {"u&1="},
		"action": {"Stop Agent"}, "target_id": {"é/ü"}, "outcome": {"succeeded"}, "limit": {"100"},
	}
	for name, c := range map[string]struct {
		query      url.Values
		wantFilter audit.Filter
		wantLimit  int
	}{
		"no parameter": {query: url.Values{}, wantLimit: page.DefaultLimit},
		"a limit":      {query: url.Values{"limit": {"7"}}, wantLimit: 7},
		"one field": {
			query: url.Values{"outcome": {"succeeded"}}, wantFilter: audit.Filter{Outcome: "succeeded"},
			wantLimit: page.DefaultLimit,
		},
		"one bound": {
			query: url.Values{"to": every["to"]}, wantFilter: audit.Filter{To: to},
			wantLimit: page.DefaultLimit,
		},
		"every parameter": {query: every, wantFilter: audit.Filter{
			From: from, To: to, ActorID: "u&1=",
			Action: "Stop Agent", TargetID: "é/ü", Outcome: "succeeded",
		}, wantLimit: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &fakeLog{entries: []audit.Entry{{ID: "e1"}}, next: "a cursor&"}
			c.query.Set("cursor", "former")
			res := get(t, log, listPath, c.query).Want(t, http.StatusOK, "")
			if got := res.Header.Get("X-Next-Cursor"); got != "a cursor&" {
				t.Errorf("X-Next-Cursor = %q, want %q", got, "a cursor&")
			}
			followLink(t, log, res)
			for i, f := range log.filters {
				f.From, f.To = f.From.UTC(), f.To.UTC()
				if f != c.wantFilter {
					t.Errorf("filter %d = %+v, want %+v", i, f, c.wantFilter)
				}
				want := page.Request{Limit: c.wantLimit, Cursor: []string{"former", "a cursor&"}[i]}
				if log.pages[i] != want {
					t.Errorf("page %d = %+v, want %+v", i, log.pages[i], want)
				}
			}
			log.next = ""
			if got := get(t, log, listPath, c.query).Header.Get("Link"); got != "" {
				t.Errorf("the Link of the last page = %q, want none", got)
			}
		})
	}
}

func newEntries(n int) []audit.Entry {
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

func TestList_ShowsEntriesAndAnEmptyList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 3} {
		want := make([]audit.View, n)
		for i, e := range newEntries(n) {
			want[i] = e.Show()
		}
		res := get(t, &fakeLog{entries: newEntries(n)}, listPath, nil)
		var got []audit.View
		res.Decode(t, &got)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d entries: got %+v, want %+v", n, got, want)
		}
		if media := res.Header.Get("Content-Type"); media != "application/json" {
			t.Errorf("Content-Type = %q, want application/json", media)
		}
	}
}

func TestExport_WritesOneLinePerEntry(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 500} {
		log := &fakeLog{entries: newEntries(n)}
		res := get(t, log, exportPath, url.Values{"actor_id": {"u1"}, "to": {"2026-03-03T00:00:00Z"}}).
			Want(t, http.StatusOK, "")
		if media := res.Header.Get("Content-Type"); media != "application/x-ndjson" {
			t.Errorf("Content-Type = %q, want application/x-ndjson", media)
		}
		if len(log.filters) != 1 || log.filters[0].ActorID != "u1" || log.filters[0].To.Day() != 3 {
			t.Errorf("filters = %+v, want one with the actor u1 until March 3", log.filters)
		}
		lines := 0
		for scan := bufio.NewScanner(bytes.NewReader(res.Body)); scan.Scan(); lines++ {
			var got audit.View
			if err := json.Unmarshal(scan.Bytes(), &got); err != nil {
				t.Fatalf("line %d of %d: %s: %v", lines, n, scan.Bytes(), err)
			}
			if want := log.entries[lines].Show(); !reflect.DeepEqual(got, want) {
				t.Fatalf("line %d of %d = %+v, want %+v", lines, n, got, want)
			}
			if !strings.Contains(scan.Text(), `a <b> & `) {
				t.Fatalf("line %d is escaped for HTML: %s", lines, scan.Text())
			}
		}
		if lines != n {
			t.Errorf("%d lines, want %d", lines, n)
		}
	}
}

func TestExport_AnswersHeadWithoutABody(t *testing.T) {
	t.Parallel()
	res := read(t, &fakeLog{entries: newEntries(1)}, http.MethodHead, exportPath, functiontest.AsAdmin(enterprise))
	if res.Status != http.StatusOK || len(res.Body) > 0 {
		t.Errorf("answer %d with %d bytes, want 200 without a body", res.Status, len(res.Body))
	}
}

// TestRoutes_RefuseBeforeTheyReadTheLog lists who may not read the log, and which requests are invalid.
func TestRoutes_RefuseBeforeTheyReadTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		as     functiontest.Option
		query  url.Values
		status int
		code   string
	}{
		"the smallest plan": {as: functiontest.AsAdmin(string(plan.Hobby)), status: 403, code: "plan_feature_required"},
		"the second largest plan": {
			as: functiontest.AsAdmin(string(plan.Business)), status: 403,
			code: "plan_feature_required",
		},
		"a member": {as: functiontest.AsMember(enterprise), status: 403, code: "role_required"},
		"a malformed bound": {
			as: functiontest.AsAdmin(enterprise), query: url.Values{"from": {"yesterday"}},
			status: 422, code: "validation_error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{listPath, exportPath} {
				log := &fakeLog{}
				read(t, log, http.MethodGet, path, c.as, functiontest.Query(c.query)).Want(t, c.status, c.code)
				if len(log.filters) > 0 {
					t.Errorf("%s read the log with %+v", path, log.filters)
				}
			}
		})
	}
}

func TestRoutes_ReportAnUnavailableLog(t *testing.T) {
	t.Parallel()
	for _, path := range []string{listPath, exportPath} {
		log := &fakeLog{fail: fault.New(fault.Unavailable, "store_unavailable", "Later.")}
		get(t, log, path, nil).Want(t, http.StatusServiceUnavailable, "store_unavailable")
	}
}

func TestList_RefusesBadPages(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"0", "101", "-1", "x", "1.5"} {
		get(t, &fakeLog{}, listPath, url.Values{"limit": {limit}}).
			Want(t, http.StatusUnprocessableEntity, "validation_error")
	}
	log := &fakeLog{fail: fault.New(fault.BadRequest, "invalid_cursor", "No.")}
	get(t, log, listPath, url.Values{"cursor": {"x"}}).Want(t, http.StatusBadRequest, "invalid_cursor")
}
