package function_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// entries is an audit.Log that remembers what was appended, and does what a test has it do on the way.
type entries struct {
	appended []audit.Entry
	on       func(ctx context.Context) error
}

func (e *entries) Append(ctx context.Context, entry audit.Entry) error {
	e.appended = append(e.appended, entry)
	if e.on != nil {
		return e.on(ctx)
	}
	return nil
}

func (e *entries) List(context.Context, audit.Filter, page.Request) (page.Page[audit.Entry], error) {
	return page.Page[audit.Entry]{}, errors.New("a guard lists no entries")
}

func (e *entries) Each(context.Context, audit.Filter, func(audit.Entry) error) error {
	return errors.New("a guard visits no entries")
}

// plans are function.Organizations whose ids name their plans.
type plans struct {
	fail  error
	asked int
}

func (p *plans) Organization(_ context.Context, id string) (organization.Organization, error) {
	p.asked++
	on := map[string]plan.ID{"o1": plan.Hobby, "o2": plan.Enterprise}[id]
	return organization.Organization{ID: id, Plan: on}, p.fail
}

const agentID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"

type actInput struct {
	Path struct {
		AgentID function.UUID `json:"agent_id"`
	} `json:"path"`
	Body struct {
		Text string `json:"text"`
	} `json:"body"`
}

// audited serves routes whose handler does what a test wants.
func audited(g function.Guard, do func(ctx context.Context) error) http.Handler {
	act := function.Handle(func(ctx context.Context, in actInput) (echo, error) { return echo{in.Body.Text}, do(ctx) })
	plain := function.Handle(func(ctx context.Context, in echoInput) (echo, error) {
		return echo{in.Body.Text},
			do(ctx)
	})
	read := function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
		return function.None{},
			do(ctx)
	})
	g.Authenticator = tokens{}
	var served []function.Served
	for _, r := range []function.Route{
		{Name: "ActOnAgent", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/act", Access: function.Admin,
			Handle: act},
		{Name: "ReadAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/act", Access: function.Admin,
			Handle: read},
		{Name: "CreateAgent", Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin, Handle: plain},
		{Name: "CreateKey", Method: http.MethodPost, Path: "/api/v1/api-keys", Access: function.Admin, Handle: plain},
		{Name: "Feature", Method: http.MethodPost, Path: "/api/v1/organizations/current/x", Access: function.Admin,
			Feature: plan.AuditLog, Handle: plain},
		{Name: "Public", Method: http.MethodPost, Path: "/api/v1/billing/x", Access: function.Public, Handle: plain},
	} {
		r.Status, r.BodyLimit = http.StatusOK, 100
		served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(g)})
	}
	return function.Mux(served)
}

const actPath = "/api/v1/agents/" + agentID + "/act"

// TestOneEntryACall: every call that may change something of an organization has one entry, whatever becomes of it.
// That of a change is written by the change; the guard writes all others.
func TestOneEntryACall(t *testing.T) {
	t.Parallel()
	own := audit.Target{Type: "agent", ID: agentID}
	named := audit.Target{Type: "agent", ID: agentID, Name: "Bot"}
	fine := func(context.Context) error { return nil }
	fails := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	changes := func(ctx context.Context) error { audit.CallEntryFrom(ctx).MarkWritten(); return nil }
	post := func(path, token, body string, keys ...string) *http.Request {
		return keyed("POST", path, token, body, keys...)
	}
	text := post(actPath, "admin", goodBody)
	text.Header.Set("Content-Type", "text/plain")
	for name, c := range map[string]struct {
		req    *http.Request
		do     func(context.Context) error
		status int
		// outcome is that of the entry; empty where the guard writes none.
		outcome string
		target  audit.Target
	}{
		"a change": {req: post(actPath, "admin", goodBody), do: changes, status: 200, outcome: "",
			target: own},
		"nothing to change": {req: post(actPath, "admin", goodBody), do: fine, status: 200,
			outcome: audit.Succeeded, target: own},
		"nothing to change, found": {req: post(actPath, "admin", goodBody),
			do: func(ctx context.Context) error { audit.CallEntryFrom(ctx).SetTarget(named); return nil }, status: 200,
			outcome: audit.Succeeded, target: named},
		"a replay": {req: post(actPath, "admin", goodBody, "k"), do: func(ctx context.Context) error {
			idempotency.From(ctx).Replay()
			return nil
		}, status: 200, outcome: audit.Succeeded, target: own},
		"refused by role": {req: post(actPath, "member", goodBody), do: fine, status: 403,
			outcome: "role_required", target: own},
		"refused by plan": {req: post("/api/v1/organizations/current/x", "admin", goodBody), do: fine,
			status: 403, outcome: "plan_feature_required", target: audit.Target{Type: "organization"}},
		"the shorter path": {req: post("/agents/"+agentID+"/act", "member", goodBody), do: fine, status: 403,
			outcome: "role_required", target: own},
		"an id in capitals": {req: post(strings.Replace(actPath, "fa", "FA", 1), "member", goodBody), do: fine,
			status: 403, outcome: "role_required", target: own},
		"an invalid body": {req: post(actPath, "admin", `{}`), do: fine, status: 422,
			outcome: "validation_error", target: own},
		"an invalid id": {req: post("/api/v1/agents/none/act", "admin", goodBody), do: fine, status: 422,
			outcome: "validation_error", target: audit.Target{Type: "agent"}},
		"an invalid id of a member": {req: post("/api/v1/agents/none/act", "member", goodBody), do: fine, status: 403,
			outcome: "role_required", target: audit.Target{Type: "agent"}},
		"a bad idempotency key": {req: post(actPath, "admin", goodBody, "a b"), do: fine, status: 400,
			outcome: "invalid_idempotency_key", target: own},
		"too large a body": {req: post(actPath, "admin", strings.Repeat(" ", 101)), do: fine, status: 413,
			outcome: "body_too_large", target: own},
		"no JSON": {req: text, do: fine, status: 415, outcome: "unsupported_media_type", target: own},
		"not found": {req: post(actPath, "admin", goodBody),
			do: fails(fault.New(fault.NotFound, "agent_not_found", "No.")), status: 404, outcome: "agent_not_found",
			target: own},
		"a conflict": {req: post(actPath, "admin", goodBody),
			do: fails(fault.New(fault.Conflict, "agent_deleting", "No.")), status: 409, outcome: "agent_deleting",
			target: own},
		"a change that fails later": {req: post(actPath, "admin", goodBody),
			do: func(ctx context.Context) error { return errors.Join(changes(ctx), errors.New("x")) }, status: 500,
			outcome: "", target: own},
		"an unknown error": {req: post(actPath, "admin", goodBody), do: fails(errors.New("the secret value")),
			status: 500, outcome: "internal_error", target: own},
		"a deadline": {req: post(actPath, "admin", goodBody), do: fails(context.DeadlineExceeded),
			status: 503, outcome: "timeout", target: own},
		"a panic": {req: post(actPath, "admin", goodBody),
			do: func(context.Context) error { panic("the secret value") }, status: 500, outcome: "internal_error",
			target: own},
		"a panic after a change": {req: post(actPath, "admin", goodBody),
			do: func(ctx context.Context) error { _ = changes(ctx); panic("x") }, status: 500, outcome: "",
			target: own},
		"a creation in vain": {req: post("/api/v1/agents", "admin", goodBody),
			do: fails(fault.New(fault.PaymentRequired, "plan_capacity_exceeded", "No.")), status: 402,
			outcome: "plan_capacity_exceeded", target: audit.Target{Type: "agent"}},
		"a key in vain": {req: post("/api/v1/api-keys", "admin", goodBody),
			do: fails(fault.New(fault.Conflict, "api_key_limit_reached", "No.")), status: 409,
			outcome: "api_key_limit_reached", target: audit.Target{Type: "api_key"}},
		"a reader": {req: keyed("GET", actPath, "admin", ""), do: fine, status: 200, outcome: "",
			target: own},
		"a reader's head": {req: keyed("HEAD", actPath, "admin", ""), do: fine, status: 200, outcome: "",
			target: own},
		"a reader that is refused": {req: keyed("GET", actPath, "member", ""), do: fine, status: 403, outcome: "",
			target: own},
		"nobody": {req: post(actPath, "garbage", goodBody), do: fine, status: 401, outcome: "",
			target: own},
		"an outage of identity": {req: post(actPath, "outage", goodBody), do: fine, status: 503, outcome: "",
			target: own},
		"no organization": {req: post(actPath, "nowhere", goodBody), do: fine, status: 403, outcome: "",
			target: own},
		"a public route": {req: post("/api/v1/billing/x", "admin", goodBody), do: fine, status: 200,
			outcome: "", target: own},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, w := &entries{}, httptest.NewRecorder()
			log.on = func(context.Context) error {
				if w.Body.Len() > 0 || w.Result().StatusCode != http.StatusOK {
					t.Error("the client has the answer before the entry is there")
				}
				return nil
			}
			c.req.Header.Set("X-Request-Id", "request-1")
			c.req.Header.Set("User-Agent", "suite")
			audited(function.Guard{Audit: log, Organizations: &plans{}}, c.do).ServeHTTP(w, c.req)
			if w.Code != c.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			if c.outcome == "" {
				if len(log.appended) != 0 {
					t.Errorf("entries %+v, want none", log.appended)
				}
				return
			}
			if len(log.appended) != 1 {
				t.Fatalf("%d entries, want 1", len(log.appended))
			}
			got := log.appended[0]
			if got.ID == "" || got.OrganizationID != "o1" || got.Outcome != c.outcome || got.Target != c.target ||
				got.Action != got.Request.Action {
				t.Errorf("the entry %+v, want %s of %+v", got, c.outcome, c.target)
			}
			if got.Request.RequestID != "request-1" || got.Request.UserAgent != "suite" ||
				got.Actor.OrganizationID != "o1" || got.Actor.ID == "" || got.Changes != nil {
				t.Errorf("the entry is of %+v in %+v", got.Actor, got.Request)
			}
			if strings.Contains(w.Body.String()+got.Outcome, "secret value") {
				t.Error("what is not public is shown")
			}
		})
	}
}

// TestNoFloodOfEntries: what comes too soon has no entry, and what is refused counts, too.
func TestNoFloodOfEntries(t *testing.T) {
	t.Parallel()
	for token, want := range map[string]int{"admin": 200, "member": 403} {
		log := &entries{}
		limiter := ratelimit.New(ratelimit.Limits{ratelimit.Mutations: {Quota: 3, Window: time.Hour}}, nil)
		h := audited(function.Guard{Audit: log, Limiter: limiter}, func(context.Context) error { return nil })
		for i := range 6 {
			if i >= 3 {
				want = http.StatusTooManyRequests
			}
			if r := call(t, h, keyed("POST", actPath, token, goodBody)); r.status != want {
				t.Errorf("call %d of an %s: %d, want %d", i, token, r.status, want)
			}
		}
		if len(log.appended) != 3 {
			t.Errorf("%d entries of an %s, want 3", len(log.appended), token)
		}
	}
}

// TestEntryThatFails is not parallel: it looks at the process's logger. The log's trouble changes no answer, and a
// person learns of it.
func TestEntryThatFails(t *testing.T) { //nolint:paralleltest // see above
	var b bytes.Buffer
	old := slog.Default()
	slog.SetDefault(function.NewLogger(&b, slog.LevelInfo, ""))
	t.Cleanup(func() { slog.SetDefault(old) })
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			on    func(context.Context) error
			takes time.Duration
		}{
			"fails": {on: func(context.Context) error { return errors.New("the log is down") }, takes: 0},
			"hangs": {on: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, takes: 2 * time.Second},
		} {
			b.Reset()
			began := time.Now()
			ctx, leave := context.WithCancel(t.Context())
			// the client is gone meanwhile
			h := audited(function.Guard{Audit: &entries{on: c.on}}, func(context.Context) error { leave(); return nil })
			if r := call(t, h, keyed("POST", actPath, "admin", goodBody).WithContext(ctx)); r.status != 200 ||
				r.body["text"] != "x" {
				t.Errorf("%s: %d %v", name, r.status, r.body)
			}
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: the answer waited for %v, want %v", name, took, c.takes)
			}
			for _, part := range []string{`"severity":"ERROR"`, `"event":"audit_entry_missing"`, "ActOnAgent", agentID,
				"u1", "o1"} {
				if !strings.Contains(b.String(), part) {
					t.Errorf("%s: %q is not in the log: %s", name, part, b.String())
				}
			}
		}
	})
}

// TestWithoutAudit: a guard without a log hands calls on, without a trail.
func TestWithoutAudit(t *testing.T) {
	t.Parallel()
	h := audited(function.Guard{}, func(ctx context.Context) error {
		if audit.CallEntryFrom(ctx) != nil || identity.From(ctx).ID != "u1" {
			t.Error("a trail that nobody keeps, or no caller")
		}
		return nil
	})
	if r := call(t, h, keyed("POST", actPath, "admin", goodBody)); r.status != 200 {
		t.Errorf("%d", r.status)
	}
}
