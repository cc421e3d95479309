package function_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// fakeAuditLog records the appended entries, and the outcomes that entries of changes were finished with.
type fakeAuditLog struct {
	entries  []audit.Entry
	finished []string
	// onAppend runs during Append and returns its error; nil for none.
	onAppend func(ctx context.Context) error
	// stored is the outcome of the entry that a read finds.
	stored    string
	storedErr error
}

func (l *fakeAuditLog) Append(ctx context.Context, entry audit.Entry) error {
	l.entries = append(l.entries, entry)
	if l.onAppend != nil {
		return l.onAppend(ctx)
	}
	return nil
}

func (l *fakeAuditLog) Finish(ctx context.Context, _, outcome string, _ ...audit.Change) error {
	l.finished = append(l.finished, outcome)
	if l.onAppend != nil {
		return l.onAppend(ctx)
	}
	return nil
}

func (l *fakeAuditLog) Outcome(context.Context, string) (string, error) { return l.stored, l.storedErr }

func (*fakeAuditLog) List(context.Context, audit.Filter, page.Request) (page.Page[audit.Entry], error) {
	return page.Page[audit.Entry]{}, errors.New("a guard must not list entries")
}

func (*fakeAuditLog) Each(context.Context, audit.Filter, func(audit.Entry) error) error {
	return errors.New("a guard must not visit entries")
}

// fakeOrganizations has o1 on the plan Hobby and o2 on Enterprise.
type fakeOrganizations struct {
	err   error
	calls int
}

func (f *fakeOrganizations) Organization(_ context.Context, id string) (organization.Organization, error) {
	f.calls++
	planOf := map[string]plan.ID{"o1": plan.Hobby, "o2": plan.Enterprise}
	return organization.Organization{ID: id, Plan: planOf[id]}, f.err
}

type actInput struct {
	Path struct {
		AgentID function.UUID `json:"agent_id"`
	} `json:"path"`
	Body struct {
		Text string `json:"text"`
	} `json:"body"`
}

const actPath = "/api/v1/agents/" + agentID + "/act"

// serveAuditedRoutes serves routes whose handlers run do.
func serveAuditedRoutes(g function.Guard, do func(ctx context.Context) error) http.Handler {
	act := function.Handle(func(ctx context.Context, in actInput) (echo, error) {
		return echo{in.Body.Text}, do(ctx)
	})
	create := function.Handle(func(ctx context.Context, in echoInput) (echo, error) {
		return echo{in.Body.Text}, do(ctx)
	})
	read := function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
		return function.None{}, do(ctx)
	})
	routes := []function.Route{
		{
			Name: "ActOnAgent", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/act", Access: function.Admin,
			Handle: act,
		},
		{
			Name: "ReadAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/act", Access: function.Admin,
			Handle: read,
		},
		{Name: "CreateAgent", Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin, Handle: create},
		{Name: "CreateKey", Method: http.MethodPost, Path: "/api/v1/api-keys", Access: function.Admin, Handle: create},
		{
			Name: "Feature", Method: http.MethodPost, Path: "/api/v1/organizations/current/x", Access: function.Admin,
			Feature: plan.AuditLog, Handle: create,
		},
		{Name: "Public", Method: http.MethodPost, Path: "/api/v1/billing/x", Access: function.Public, Handle: create},
	}
	for i := range routes {
		routes[i].Status, routes[i].BodyLimit = http.StatusOK, 100
	}
	return serveRoutes(g, routes...)
}

// TestRoute_WritesOneAuditEntryPerMutatingCall covers the entries that the guard writes. A change writes its own entry,
// which "change" stands for.
func TestRoute_WritesOneAuditEntryPerMutatingCall(t *testing.T) {
	t.Parallel()
	agentTarget := audit.Target{Type: "agent", ID: agentID}
	namedTarget := audit.Target{Type: "agent", ID: agentID, Name: "Bot"}
	succeed := func(context.Context) error { return nil }
	fail := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	change := func(ctx context.Context) error { call.From(ctx).Entry.MarkWritten(); return nil }
	post := func(path, token, body string, keys ...string) *http.Request {
		return newRequest("POST", path, token, body, keys...)
	}
	valid := func() *http.Request { return post(actPath, "admin", validBody) }
	plainText := valid()
	plainText.Header.Set("Content-Type", "text/plain")
	for name, c := range map[string]struct {
		req        *http.Request
		do         func(context.Context) error
		wantStatus int
		// wantOutcome is the outcome in the entry; empty if the guard must write none.
		wantOutcome string
		wantTarget  audit.Target
		// wantFinished is the outcome that the guard puts in place of the one that the change wrote.
		wantFinished string
	}{
		"change": {req: valid(), do: change, wantStatus: 200},
		"change that continues": {
			req:        valid(),
			do:         func(ctx context.Context) error { call.From(ctx).Entry.Begin(); return change(ctx) },
			wantStatus: 200, wantFinished: audit.Succeeded,
		},
		"change that continues and fails": {
			req: valid(),
			do: func(ctx context.Context) error {
				call.From(ctx).Entry.Begin()
				_ = change(ctx)
				return fault.New(fault.Unavailable, "secret_store_unavailable", "Later.")
			},
			wantStatus: 503, wantFinished: "secret_store_unavailable",
		},
		"change, then a limit": {
			req: valid(),
			do: func(ctx context.Context) error {
				return errors.Join(change(ctx), fault.New(fault.RateLimited, "secret_quota_exceeded", "Later."))
			},
			wantStatus: 429, wantFinished: "secret_quota_exceeded",
		},
		"nothing to change": {
			req: valid(), do: succeed, wantStatus: 200, wantOutcome: audit.Succeeded, wantTarget: agentTarget,
		},
		"nothing to change, but handler found the target": {
			req:        valid(),
			do:         func(ctx context.Context) error { call.From(ctx).Entry.SetTarget(namedTarget); return nil },
			wantStatus: 200, wantOutcome: audit.Succeeded, wantTarget: namedTarget,
		},
		"replayed answer": {
			req:        post(actPath, "admin", validBody, "k"),
			do:         func(ctx context.Context) error { call.From(ctx).Attempt.Replay(); return nil },
			wantStatus: 200, wantOutcome: audit.Succeeded, wantTarget: agentTarget,
		},
		"role refused": {
			req: post(actPath, "member", validBody), do: succeed,
			wantStatus: 403, wantOutcome: "role_required", wantTarget: agentTarget,
		},
		"plan refused": {
			req: post("/api/v1/organizations/current/x", "admin", validBody), do: succeed,
			wantStatus: 403, wantOutcome: "plan_feature_required", wantTarget: audit.Target{Type: "organization"},
		},
		"path without prefix": {
			req: post("/agents/"+agentID+"/act", "member", validBody), do: succeed,
			wantStatus: 403, wantOutcome: "role_required", wantTarget: agentTarget,
		},
		"id in capitals": {
			req: post(strings.Replace(actPath, "fa", "FA", 1), "member", validBody), do: succeed,
			wantStatus: 403, wantOutcome: "role_required", wantTarget: agentTarget,
		},
		"invalid body": {
			req: post(actPath, "admin", `{}`), do: succeed,
			wantStatus: 422, wantOutcome: "validation_error", wantTarget: agentTarget,
		},
		"invalid id": {
			req: post("/api/v1/agents/none/act", "admin", validBody), do: succeed,
			wantStatus: 422, wantOutcome: "validation_error", wantTarget: audit.Target{Type: "agent"},
		},
		"invalid id and role refused": {
			req: post("/api/v1/agents/none/act", "member", validBody), do: succeed,
			wantStatus: 403, wantOutcome: "role_required", wantTarget: audit.Target{Type: "agent"},
		},
		"invalid idempotency key": {
			req: post(actPath, "admin", validBody, "a b"), do: succeed,
			wantStatus: 400, wantOutcome: "invalid_idempotency_key", wantTarget: agentTarget,
		},
		"body too large": {
			req: post(actPath, "admin", strings.Repeat(" ", 101)), do: succeed,
			wantStatus: 413, wantOutcome: "body_too_large", wantTarget: agentTarget,
		},
		"body is not JSON": {
			req: plainText, do: succeed,
			wantStatus: 415, wantOutcome: "unsupported_media_type", wantTarget: agentTarget,
		},
		"not found": {
			req: valid(), do: fail(fault.New(fault.NotFound, "agent_not_found", "No.")),
			wantStatus: 404, wantOutcome: "agent_not_found", wantTarget: agentTarget,
		},
		"conflict": {
			req: valid(), do: fail(fault.New(fault.Conflict, "agent_deleting", "No.")),
			wantStatus: 409, wantOutcome: "agent_deleting", wantTarget: agentTarget,
		},
		"change, then error": {
			req:        valid(),
			do:         func(ctx context.Context) error { return errors.Join(change(ctx), errors.New("x")) },
			wantStatus: 500, wantFinished: "internal_error",
		},
		"unknown error": {
			req: valid(), do: fail(errors.New("the secret value")),
			wantStatus: 500, wantOutcome: "internal_error", wantTarget: agentTarget,
		},
		"expired context": {
			req: valid(), do: fail(context.DeadlineExceeded),
			wantStatus: 503, wantOutcome: "timeout", wantTarget: agentTarget,
		},
		"panic": {
			req: valid(), do: func(context.Context) error { panic("the secret value") },
			wantStatus: 500, wantOutcome: "internal_error", wantTarget: agentTarget,
		},
		"change, then panic": {
			req:        valid(),
			do:         func(ctx context.Context) error { _ = change(ctx); panic("x") },
			wantStatus: 500, wantFinished: "internal_error",
		},
		"agent creation refused": {
			req:        post("/api/v1/agents", "admin", validBody),
			do:         fail(fault.New(fault.PaymentRequired, "plan_capacity_exceeded", "No.")),
			wantStatus: 402, wantOutcome: "plan_capacity_exceeded", wantTarget: audit.Target{Type: "agent"},
		},
		"key creation refused": {
			req:        post("/api/v1/api-keys", "admin", validBody),
			do:         fail(fault.New(fault.Conflict, "api_key_limit_reached", "No.")),
			wantStatus: 409, wantOutcome: "api_key_limit_reached", wantTarget: audit.Target{Type: "api_key"},
		},
		"GET":                        {req: newRequest("GET", actPath, "admin", ""), do: succeed, wantStatus: 200},
		"HEAD":                       {req: newRequest("HEAD", actPath, "admin", ""), do: succeed, wantStatus: 200},
		"GET refused":                {req: newRequest("GET", actPath, "member", ""), do: succeed, wantStatus: 403},
		"invalid token":              {req: post(actPath, "garbage", validBody), do: succeed, wantStatus: 401},
		"identity provider is down":  {req: post(actPath, "outage", validBody), do: succeed, wantStatus: 503},
		"caller has no organization": {req: post(actPath, "no-organization", validBody), do: succeed, wantStatus: 403},
		"public route": {
			req: post("/api/v1/billing/x", "admin", validBody), do: succeed, wantStatus: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			log := &fakeAuditLog{onAppend: func(context.Context) error {
				if w.Body.Len() > 0 || w.Result().StatusCode != http.StatusOK {
					t.Error("the response was sent before the entry was written")
				}
				return nil
			}}
			c.req.Header.Set("X-Request-Id", "request-1")
			c.req.Header.Set("User-Agent", "suite")
			g := function.Guard{Audit: log, Organizations: &fakeOrganizations{}}
			serveAuditedRoutes(g, c.do).ServeHTTP(w, c.req)
			if w.Code != c.wantStatus {
				t.Errorf("status = %d, want %d; body %s", w.Code, c.wantStatus, w.Body)
			}
			if strings.Contains(w.Body.String(), "secret value") {
				t.Errorf("response reveals the cause: %s", w.Body)
			}
			if got := strings.Join(log.finished, " "); got != c.wantFinished {
				t.Errorf("the entry of the change is finished with %q, want %q", got, c.wantFinished)
			}
			if c.wantOutcome == "" {
				if len(log.entries) != 0 {
					t.Errorf("entries = %+v, want none", log.entries)
				}
				return
			}
			if len(log.entries) != 1 {
				t.Fatalf("got %d entries, want 1", len(log.entries))
			}
			got := log.entries[0]
			if got.Outcome != c.wantOutcome {
				t.Errorf("Outcome = %q, want %q", got.Outcome, c.wantOutcome)
			}
			if got.Target != c.wantTarget {
				t.Errorf("Target = %+v, want %+v", got.Target, c.wantTarget)
			}
			if want := name == "replayed answer"; got.Replayed != want {
				t.Errorf("Replayed = %t, want %t", got.Replayed, want)
			}
			checkEntryDescribesCall(t, got)
		})
	}
}

// checkEntryDescribesCall checks the parts of an entry that are the same for every call with the request id "request-1"
// and the user agent "suite".
func checkEntryDescribesCall(t *testing.T, got audit.Entry) {
	t.Helper()
	if got.ID == "" {
		t.Error("entry has no ID")
	}
	if got.OrganizationID != "o1" {
		t.Errorf("OrganizationID = %q, want o1", got.OrganizationID)
	}
	if got.Action != got.Request.Action {
		t.Errorf("Action = %q, want the request's %q", got.Action, got.Request.Action)
	}
	if got.Request.RequestID != "request-1" || got.Request.UserAgent != "suite" {
		t.Errorf("Request = %+v, want id request-1 and user agent suite", got.Request)
	}
	if got.Actor.OrganizationID != "o1" || got.Actor.ID == "" {
		t.Errorf("Actor = %+v, want the caller in o1", got.Actor)
	}
	if got.Changes != nil {
		t.Errorf("Changes = %v, want nil", got.Changes)
	}
}

// TestRoute_RateLimitedCallsHaveNoAuditEntry also checks that refused calls count toward the limit.
func TestRoute_RateLimitedCallsHaveNoAuditEntry(t *testing.T) {
	t.Parallel()
	const quota = 3
	for token, statusInQuota := range map[string]int{"admin": 200, "member": 403} {
		log := &fakeAuditLog{}
		limiter := ratelimit.New(ratelimit.Limits{ratelimit.Mutations: {Quota: quota, Window: time.Hour}}, nil)
		g := function.Guard{Audit: log, Limiter: limiter}
		h := serveAuditedRoutes(g, func(context.Context) error { return nil })
		for i := range 2 * quota {
			want := statusInQuota
			if i >= quota {
				want = http.StatusTooManyRequests
			}
			if r := send(t, h, newRequest("POST", actPath, token, validBody)); r.status != want {
				t.Errorf("%s, call %d: status = %d, want %d", token, i, r.status, want)
			}
		}
		if len(log.entries) != quota {
			t.Errorf("%s: got %d entries, want %d", token, len(log.entries), quota)
		}
	}
}

//nolint:paralleltest // captures the process's logger
func TestRoute_AnswersAndLogsWhenAuditLogFails(t *testing.T) {
	logs := captureLogs(t, "")
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			onAppend func(context.Context) error
			wantWait time.Duration
		}{
			"audit log fails": {onAppend: func(context.Context) error { return errors.New("the log is down") }},
			"audit log hangs": {
				onAppend: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, wantWait: 4 * time.Second,
			},
		} {
			logs.Reset()
			began := time.Now()
			ctx, disconnect := context.WithCancel(t.Context())
			h := serveAuditedRoutes(function.Guard{Audit: &fakeAuditLog{onAppend: c.onAppend}},
				// the client is gone when the entry is written
				func(context.Context) error { disconnect(); return nil })
			r := send(t, h, newRequest("POST", actPath, "admin", validBody).WithContext(ctx))
			if r.status != 200 || r.body["text"] != "x" {
				t.Errorf("%s: response = %d %v, want 200 with the echo", name, r.status, r.body)
			}
			if waited := time.Since(began); waited != c.wantWait {
				t.Errorf("%s: response took %v, want %v", name, waited, c.wantWait)
			}
			for _, want := range []string{
				`"severity":"ERROR"`, `"event":"audit_entry_missing"`, "ActOnAgent", agentID, "u1", "o1",
			} {
				if !strings.Contains(logs.String(), want) {
					t.Errorf("%s: log lacks %q: %s", name, want, logs)
				}
			}
		}
	})
}

// TestRoute_ReportsOnlyEntriesThatAreMissing writes the entry of a call that changes nothing to a log that is slow.
//
//nolint:paralleltest // captures the process's logger
func TestRoute_ReportsOnlyEntriesThatAreMissing(t *testing.T) {
	logs := captureLogs(t, "")
	down := errors.New("the log is down")
	for name, c := range map[string]struct {
		fails     int // how many tries fail
		stored    string
		storedErr error
		wantTries int
		wantLine  bool
	}{
		"the second try succeeds":      {fails: 1, wantTries: 2},
		"the answers are lost":         {fails: 2, stored: audit.Succeeded, wantTries: 2},
		"only the beginning is stored": {fails: 2, stored: audit.Begun, wantTries: 2, wantLine: true},
		"it is missing":                {fails: 2, wantTries: 2, wantLine: true},
		"nothing can be read":          {fails: 2, storedErr: down, wantTries: 2, wantLine: true},
	} {
		logs.Reset()
		tries := 0
		log := &fakeAuditLog{stored: c.stored, storedErr: c.storedErr, onAppend: func(context.Context) error {
			if tries++; tries <= c.fails {
				return down
			}
			return nil
		}}
		h := serveAuditedRoutes(function.Guard{Audit: log}, func(context.Context) error { return nil })
		send(t, h, newRequest("POST", actPath, "admin", validBody)).check(t, 200, "")
		if got := strings.Contains(logs.String(), `"event":"audit_entry_missing"`); got != c.wantLine {
			t.Errorf("%s: reported as missing %t, want %t: %s", name, got, c.wantLine, logs)
		}
		if tries != c.wantTries || log.entries[0].ID != log.entries[1].ID {
			t.Errorf("%s: %d tries with the ids %s and %s, want %d with one id", name, tries, log.entries[0].ID,
				log.entries[1].ID, c.wantTries)
		}
	}
}

func TestRoute_WithoutAuditLogCarriesNoPendingEntry(t *testing.T) {
	t.Parallel()
	h := serveAuditedRoutes(function.Guard{}, func(ctx context.Context) error {
		if entry := call.From(ctx).Entry; entry != nil {
			t.Errorf("context carries the entry %+v, want none", entry)
		}
		if id := call.From(ctx).Caller.ID; id != "u1" {
			t.Errorf("caller = %q, want u1", id)
		}
		return nil
	})
	send(t, h, newRequest("POST", actPath, "admin", validBody)).check(t, 200, "")
}

// TestRoute_ChangesNoEntryThatASealMayHave: a call that lasts, such as the export of a large volume, writes its entry
// when it begins. Twenty minutes later a seal may have that entry, and would report a changed one as tampered with.
func TestRoute_ChangesNoEntryThatASealMayHave(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name         string
		lasts        time.Duration
		wantFinished string
		wantOutcomes []string
	}{
		{
			name: "a short call", lasts: 10 * time.Minute, wantFinished: audit.Succeeded,
			wantOutcomes: []string{audit.Begun},
		},
		{name: "a long call", lasts: 50 * time.Minute, wantOutcomes: []string{audit.Begun, audit.Succeeded}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log, w := &fakeAuditLog{}, httptest.NewRecorder()
				req := newRequest("POST", actPath, "admin", validBody)
				req.Header.Set("X-Request-Id", "request-1")
				g := function.Guard{Audit: log, Organizations: &fakeOrganizations{}}
				serveAuditedRoutes(g, func(ctx context.Context) error {
					err := call.From(ctx).BeginEntry(ctx, log)
					call.From(ctx).Entry.AddFact("output_bytes", "7")
					<-time.After(row.lasts) // virtual
					return err
				}).ServeHTTP(w, req)
				var outcomes []string
				ids := map[string]bool{}
				for _, e := range log.entries {
					outcomes, ids[e.ID] = append(outcomes, e.Outcome), true
				}
				if got := strings.Join(log.finished, " "); got != row.wantFinished {
					t.Errorf("the first entry is finished with %q, want %q", got, row.wantFinished)
				}
				if !slices.Equal(outcomes, row.wantOutcomes) || len(ids) != len(outcomes) {
					t.Fatalf("outcomes %q with %d ids, want %q", outcomes, len(ids), row.wantOutcomes)
				}
				last := log.entries[len(log.entries)-1]
				if last.Request.RequestID != "request-1" || last.Outcome != audit.Begun && len(last.Changes) != 1 {
					t.Errorf("the last entry is %+v, want the facts of the call", last)
				}
			})
		})
	}
}
