package function_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// attemptRecorder serves routes whose handlers record the idempotency.Attempt in their context.
type attemptRecorder struct {
	attempt *idempotency.Attempt // nil until a handler sees one
	text    string               // from the body
	// replay makes the handler answer like a store that replays an earlier answer, and err makes it fail.
	replay bool
	err    error
}

func (a *attemptRecorder) serve() http.Handler {
	withBody := function.Handle(func(ctx context.Context, in echoInput) (echo, error) {
		a.text = in.Body.Text
		return echo{in.Body.Text}, a.record(ctx)
	})
	withoutBody := function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
		return function.None{}, a.record(ctx)
	})
	routes := []function.Route{
		{
			Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusCreated,
			Handle: withBody,
		},
		{
			Method: http.MethodPatch, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusOK,
			Handle: withBody,
		},
		{
			Method: http.MethodGet, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusOK,
			Handle: withoutBody,
		},
		{
			Method: http.MethodDelete, Path: "/api/v1/agents/{id}", Access: function.Admin,
			Status: http.StatusNoContent,
			Handle: withoutBody,
		},
		{Method: http.MethodPost, Path: "/api/v1/user", Access: function.User, Status: http.StatusOK, Handle: withBody},
		{
			Method: http.MethodPost, Path: "/api/v1/public", Access: function.Public, Status: http.StatusOK,
			Handle: withBody,
		},
	}
	for i := range routes {
		routes[i].Name, routes[i].BodyLimit = "Test", 100
	}
	return serveRoutes(function.Guard{}, routes...)
}

func (a *attemptRecorder) record(ctx context.Context) error {
	a.attempt = call.From(ctx).Attempt
	if a.replay {
		a.attempt.Replay()
	}
	return a.err
}

func TestRoute_ChecksIdempotencyKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	create := func(token, body string, keys ...string) *http.Request {
		return newRequest("POST", "/agents", token, body, keys...)
	}
	for name, c := range map[string]struct {
		req         *http.Request
		wantStatus  int
		wantCode    string
		wantAttempt bool
	}{
		"key":                   {req: create("admin", validBody, "k"), wantStatus: 201, wantAttempt: true},
		"key of maximum length": {req: create("admin", validBody, long[1:]), wantStatus: 201, wantAttempt: true},
		"key without body": {
			req: newRequest("DELETE", "/agents/a", "admin", "", "k"), wantStatus: 204, wantAttempt: true,
		},
		"no key":       {req: create("admin", validBody), wantStatus: 201},
		"empty key":    {req: create("admin", validBody, ""), wantStatus: 400, wantCode: "invalid_idempotency_key"},
		"key too long": {req: create("admin", validBody, long), wantStatus: 400, wantCode: "invalid_idempotency_key"},
		"space in key": {req: create("admin", validBody, "a b"), wantStatus: 400, wantCode: "invalid_idempotency_key"},
		"non-ASCII key": {
			req:        newRequest("DELETE", "/agents/a", "admin", "", "é"),
			wantStatus: 400, wantCode: "invalid_idempotency_key",
		},
		"two keys": {req: create("admin", validBody, "a", "b"), wantStatus: 400, wantCode: "invalid_idempotency_key"},
		"invalid key and invalid body": {
			req: create("admin", `{}`, ""), wantStatus: 400, wantCode: "invalid_idempotency_key",
		},
		"valid key and invalid body": {req: create("admin", `{}`, "k"), wantStatus: 422, wantCode: "validation_error"},
		"invalid key and invalid token": {
			req: create("garbage", validBody, ""), wantStatus: 401, wantCode: "invalid_token",
		},
		"invalid key and missing role": {
			req: create("member", validBody, ""), wantStatus: 403, wantCode: "role_required",
		},
		"body too large": {
			req: create("admin", `{"text": "`+long+`"}`, "k"), wantStatus: 413, wantCode: "body_too_large",
		},
		"body too large, on a route without body": {
			req: newRequest("DELETE", "/agents/a", "admin", long, "k"), wantStatus: 413, wantCode: "body_too_large",
		},
		"invalid key is ignored on GET": {req: newRequest("GET", "/agents", "admin", "", ""), wantStatus: 200},
		"invalid key is ignored without organization": {
			req: newRequest("POST", "/api/v1/user", "no-organization", validBody, ""), wantStatus: 200,
		},
		"invalid key is ignored on a public route": {
			req: newRequest("POST", "/api/v1/public", "", validBody, ""), wantStatus: 200,
		},
		"key on a user route with organization": {
			req: newRequest("POST", "/api/v1/user", "member", validBody, "k"), wantStatus: 200, wantAttempt: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a attemptRecorder
			r := send(t, a.serve(), c.req)
			r.check(t, c.wantStatus, c.wantCode)
			if got := a.attempt != nil; got != c.wantAttempt {
				t.Errorf("handler has an attempt = %t, want %t", got, c.wantAttempt)
			}
			checkHeader(t, r.header, "Idempotency-Replayed", "")
		})
	}
}

func TestRoute_AttemptIdentifiesKeyAndRequest(t *testing.T) {
	t.Parallel()
	attemptOf := func(req *http.Request) idempotency.Attempt {
		t.Helper()
		var a attemptRecorder
		r := send(t, a.serve(), req)
		if r.status >= 300 || a.attempt == nil {
			t.Fatalf("%s %s: status %d, attempt %+v, want a success with an attempt", req.Method, req.URL, r.status,
				a.attempt)
		}
		if req.Method != http.MethodDelete && a.text != "x" {
			t.Fatalf("%s %s: handler got text %q, want x", req.Method, req.URL, a.text)
		}
		return *a.attempt
	}
	first := attemptOf(newRequest("POST", "/agents", "admin", validBody, "k"))
	if got := attemptOf(newRequest("POST", "/api/v1/agents", "admin", validBody, "k")); got != first {
		t.Errorf("attempt on the canonical path = %+v, want %+v", got, first)
	}
	if other := attemptOf(newRequest("POST", "/agents", "admin", validBody, "k2")); other.ID == first.ID {
		t.Error("two keys have the same ID")
	}
	deletion := attemptOf(newRequest("DELETE", "/agents/a", "admin", "", "k"))
	for name, c := range map[string]struct{ original, changed idempotency.Attempt }{
		"other method": {original: first, changed: attemptOf(newRequest("PATCH", "/agents", "admin", validBody, "k"))},
		"other body": {
			original: first, changed: attemptOf(newRequest("POST", "/agents", "admin", validBody+" ", "k")),
		},
		"other path": {original: deletion, changed: attemptOf(newRequest("DELETE", "/agents/b", "admin", "", "k"))},
		"body on a route without body": {
			original: deletion, changed: attemptOf(newRequest("DELETE", "/agents/a", "admin", "{}", "k")),
		},
	} {
		if c.changed.ID != c.original.ID {
			t.Errorf("%s: ID = %s, want %s", name, c.changed.ID, c.original.ID)
		}
		if c.changed.Fingerprint == c.original.Fingerprint {
			t.Errorf("%s: both requests have the fingerprint %s", name, c.original.Fingerprint)
		}
	}
}

func TestRoute_MarksReplayedSuccesses(t *testing.T) {
	t.Parallel()
	a := attemptRecorder{replay: true}
	replayed := send(t, a.serve(), newRequest("POST", "/agents", "admin", validBody, "k"))
	replayed.check(t, 201, "")
	checkHeader(t, replayed.header, "Idempotency-Replayed", "true")

	a.err = fault.New(fault.Unavailable, "secret_store_unavailable", "Later.").WithCause(errors.New("why"))
	failed := send(t, a.serve(), newRequest("POST", "/agents", "admin", validBody, "k"))
	failed.check(t, 503, "secret_store_unavailable")
	checkHeader(t, failed.header, "Idempotency-Replayed", "")
}
