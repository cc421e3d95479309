package function_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/ratelimit"
)

// attempts serves routes that tell of the attempt that their handler saw.
type attempts struct {
	seen *idempotency.Attempt
	text string
	// replay has the handler find a kept answer, and fail makes it fail.
	replay bool
	fail   error
}

func (a *attempts) handler(limiter *ratelimit.Limiter) http.Handler {
	withBody := function.Handle(func(ctx context.Context, in echoInput) (echo, error) {
		a.text = in.Body.Text
		return echo{in.Body.Text}, a.answer(ctx)
	})
	without := function.Handle(func(ctx context.Context, _ function.Empty) (function.None, error) {
		return function.None{}, a.answer(ctx)
	})
	var served []function.Served
	for _, r := range []function.Route{
		{Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusCreated,
			Limit: ratelimit.Creations, Handle: withBody},
		{Method: http.MethodPatch, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusOK,
			Handle: withBody},
		{Method: http.MethodGet, Path: "/api/v1/agents", Access: function.Admin, Status: http.StatusOK,
			Handle: without},
		{Method: http.MethodDelete, Path: "/api/v1/agents/{id}", Access: function.Admin, Status: http.StatusNoContent,
			Handle: without},
		{Method: http.MethodPost, Path: "/api/v1/user", Access: function.User, Status: http.StatusOK, Handle: withBody},
		{Method: http.MethodPost, Path: "/api/v1/public", Access: function.Public, Status: http.StatusOK,
			Handle: withBody},
	} {
		r.Name, r.BodyLimit = "Test", 100
		g := function.Guard{Authenticator: tokens{}, Limiter: limiter}
		served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(g)})
	}
	return function.Mux(served)
}

func (a *attempts) answer(ctx context.Context) error {
	a.seen = idempotency.From(ctx)
	if a.replay {
		a.seen.Replay()
	}
	return a.fail
}

func keyed(method, path, token, body string, keys ...string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	for _, key := range keys {
		req.Header.Add("Idempotency-Key", key)
	}
	return req
}

const goodBody = `{"text": "x"}`

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		req    *http.Request
		status int
		code   string
		seen   bool
	}{
		"a key": {req: keyed("POST", "/agents", "admin", goodBody, "k"), status: 201, code: "",
			seen: true},
		"a long key": {req: keyed("POST", "/agents", "admin", goodBody, long[1:]), status: 201,
			code: "", seen: true},
		"a key and no body": {req: keyed("DELETE", "/agents/a", "admin", "", "k"), status: 204, code: "",
			seen: true},
		"no key": {req: keyed("POST", "/agents", "admin", goodBody), status: 201, code: "",
			seen: false},
		"an empty key": {req: keyed("POST", "/agents", "admin", goodBody, ""), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"a key that is too long": {req: keyed("POST", "/agents", "admin", goodBody, long), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"a space in the key": {req: keyed("POST", "/agents", "admin", goodBody, "a b"), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"a key beyond ASCII": {req: keyed("DELETE", "/agents/a", "admin", "", "é"), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"two keys": {req: keyed("POST", "/agents", "admin", goodBody, "a", "b"), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"a bad key and a bad body": {req: keyed("POST", "/agents", "admin", `{}`, ""), status: 400,
			code: "invalid_idempotency_key", seen: false},
		"a good key and a bad body": {req: keyed("POST", "/agents", "admin", `{}`, "k"), status: 422,
			code: "validation_error", seen: false},
		"a bad key of nobody": {req: keyed("POST", "/agents", "garbage", goodBody, ""), status: 401,
			code: "invalid_token", seen: false},
		"a bad key of a member": {req: keyed("POST", "/agents", "member", goodBody, ""), status: 403,
			code: "role_required", seen: false},
		"a large body": {req: keyed("POST", "/agents", "admin", `{"text": "`+long+`"}`, "k"),
			status: 413, code: "body_too_large", seen: false},
		"a large body that none asks": {req: keyed("DELETE", "/agents/a", "admin", long, "k"), status: 413,
			code: "body_too_large", seen: false},
		"a bad key of a reader": {req: keyed("GET", "/agents", "admin", "", ""), status: 200, code: "",
			seen: false},
		"no organization": {req: keyed("POST", "/api/v1/user", "nowhere", goodBody, ""), status: 200,
			code: "", seen: false},
		"a user's organization": {req: keyed("POST", "/api/v1/user", "member", goodBody, "k"), status: 200,
			code: "", seen: true},
		"a public route": {req: keyed("POST", "/api/v1/public", "", goodBody, ""), status: 200, code: "",
			seen: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a attempts
			r := call(t, a.handler(nil), c.req)
			if code, _ := r.body["code"].(string); r.status != c.status || code != c.code {
				t.Errorf("%d %v, want %d %s", r.status, r.body, c.status, c.code)
			}
			if (a.seen != nil) != c.seen {
				t.Errorf("the handler saw the attempt %+v", a.seen)
			}
			if r.header.Get("Idempotency-Replayed") != "" {
				t.Error("the answer says that it is a replay")
			}
		})
	}
}

// TestSameRequests: what makes two requests the same reaches the handler, together with the body.
func TestSameRequests(t *testing.T) {
	t.Parallel()
	see := func(req *http.Request) idempotency.Attempt {
		var a attempts
		if r := call(t, a.handler(nil), req); r.status >= 300 || a.seen == nil || req.Method != http.MethodDelete &&
			a.text != "x" {
			t.Fatalf("%d, attempt %+v, text %q", r.status, a.seen, a.text)
		}
		return *a.seen
	}
	first := see(keyed("POST", "/agents", "admin", goodBody, "k"))
	if again := see(keyed("POST", "/api/v1/agents", "admin", goodBody, "k")); again != first {
		t.Errorf("the canonical path makes another request: %+v and %+v", first, again)
	}
	deleted := see(keyed("DELETE", "/agents/a", "admin", "", "k"))
	for name, other := range map[string][2]idempotency.Attempt{
		"another method":                    {see(keyed("PATCH", "/agents", "admin", goodBody, "k")), first},
		"another body":                      {see(keyed("POST", "/agents", "admin", goodBody+" ", "k")), first},
		"another path":                      {see(keyed("DELETE", "/agents/b", "admin", "", "k")), deleted},
		"another body that nobody asks for": {see(keyed("DELETE", "/agents/a", "admin", "{}", "k")), deleted},
	} {
		if other[0].ID != other[1].ID || other[0].Fingerprint == other[1].Fingerprint {
			t.Errorf("%s: %+v and %+v, want the same key and another fingerprint", name, other[0], other[1])
		}
	}
	if other := see(keyed("POST", "/agents", "admin", goodBody, "k2")); other.ID == first.ID {
		t.Error("two keys are taken for one")
	}
}

func TestReplays(t *testing.T) {
	t.Parallel()
	a := attempts{replay: true}
	if r := call(t, a.handler(nil), keyed("POST", "/agents", "admin", goodBody, "k")); r.status != 201 ||
		r.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a replay: %d %v", r.status, r.header)
	}
	a.fail = fault.New(fault.Unavailable, "secret_store_unavailable", "Later.").WithCause(errors.New("why"))
	if r := call(t, a.handler(nil), keyed("POST", "/agents", "admin", goodBody, "k")); r.status != 503 ||
		r.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("an error: %d %v", r.status, r.header)
	}
}

// TestReplaysCreateNothing: only creations that succeed count, and a replay creates nothing.
func TestReplaysCreateNothing(t *testing.T) {
	t.Parallel()
	many := ratelimit.Limit{Quota: 100, Window: time.Hour}
	h := &attempts{}
	served := h.handler(ratelimit.New(ratelimit.Limits{
		ratelimit.Mutations: many, ratelimit.Authentication: many, ratelimit.Creations: {Quota: 2, Window: time.Hour},
	}, nil))
	for i, c := range []struct {
		replay bool
		status int
	}{{replay: false, status: 201}, {replay: true, status: 201}, {replay: true, status: 201},
		{replay: true, status: 201}, {replay: false, status: 201}, {replay: false, status: 429}} {
		h.replay = c.replay
		if r := call(t, served, keyed("POST", "/agents", "admin", goodBody, "k")); r.status != c.status {
			t.Errorf("call %d: %d, want %d", i, r.status, c.status)
		}
	}
}
