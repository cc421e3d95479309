package function_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const otherID = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"

// limited serves a small catalogue under limits of a few calls an hour, at a time that stands still.
func limited(fail *error) http.Handler {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	per := func(quota int) ratelimit.Limit { return ratelimit.Limit{Quota: quota, Window: time.Hour} }
	limiter := ratelimit.New(ratelimit.Limits{
		ratelimit.Reads: per(3), ratelimit.Polling: per(2), ratelimit.Mutations: per(9), ratelimit.Creations: per(2),
		ratelimit.Reveals:        per(2),
		ratelimit.Authentication: per(2),
	}, func() time.Time { return now })
	handle := function.Handle(func(context.Context, function.Empty) (function.None, error) {
		return function.None{},
			*fail
	})
	agent := func(path func(string) string) document.Ref {
		return document.Ref{Collection: "agents", ID: strings.ToLower(path("agent_id"))}
	}
	var served []function.Served
	for _, r := range []function.Route{
		{Method: http.MethodGet, Path: "/api/v1/agents", Access: function.Member},
		{Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}", Access: function.Member, Reads: agent},
		{Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin, Limit: ratelimit.Creations},
		{Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/stop", Access: function.Admin, Reads: agent},
		{Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/reveal", Access: function.Admin,
			Limit: ratelimit.Reveals},
		{Method: http.MethodGet, Path: "/api/v1/public", Access: function.Public},
	} {
		r.Name, r.Status, r.Handle = "Test", http.StatusNoContent, handle
		served = append(served, function.Served{
			Method: r.Method, Path: r.Path,
			Handler: r.Handler(function.Guard{Authenticator: tokens{}, Limiter: limiter}),
		})
	}
	return function.Mux(served)
}

type limitedCall struct {
	method, path, token string
	fail                error
	status              int
	// limit is the RateLimit header.
	limit string
}

// TestLimits makes calls one after another under a clock that stands still.
func TestLimits(t *testing.T) {
	t.Parallel()
	const list, one, other, reveal = "/agents", "/agents/" + agentID, "/agents/" + otherID, "/agents/" + agentID +
		"/reveal"
	conflict := fault.New(fault.Conflict, "agent_state_conflict", "No.")
	for name, calls := range map[string][]limitedCall{
		"readers count, whatever comes of it": {
			{method: "GET", path: list, token: "admin", fail: nil, status: 204, limit: `"reads";r=2;t=1200`},
			{method: "GET", path: list, token: "admin", fail: conflict, status: 409, limit: `"reads";r=1;t=2400`},
			{method: "HEAD", path: list, token: "admin", fail: nil, status: 204, limit: `"reads";r=0;t=3600`},
			{method: "GET", path: list, token: "admin", fail: nil, status: 429, limit: `"reads";r=0;t=1200`},
			// another caller
			{method: "GET", path: list, token: "member", fail: nil, status: 204, limit: `"reads";r=2;t=1200`},
		},
		"polling one agent eats no other budget": {
			{method: "GET", path: one, token: "admin", fail: nil, status: 204, limit: `"polling";r=1;t=1800`},
			{method: "GET", path: "/agents/" + strings.ToUpper(agentID), token: "admin", fail: nil, status: 204,
				limit: `"polling";r=0;t=3600`},
			{method: "GET", path: one, token: "admin", fail: nil, status: 429, limit: `"polling";r=0;t=1800`},
			{method: "GET", path: other, token: "admin", fail: nil, status: 204, limit: `"polling";r=1;t=1800`},
			{method: "GET", path: one, token: "member", fail: nil, status: 204, limit: `"polling";r=1;t=1800`},
			{method: "GET", path: list, token: "admin", fail: nil, status: 204, limit: `"reads";r=2;t=1200`},
			{method: "POST", path: one + "/stop", token: "admin", fail: nil, status: 204,
				limit: `"mutations";r=8;t=400`},
		},
		"only creations that succeed count": {
			{method: "POST", path: list, token: "admin", fail: conflict, status: 409, limit: `"mutations";r=8;t=400`},
			{method: "POST", path: list, token: "admin", fail: conflict, status: 409, limit: `"mutations";r=7;t=800`},
			{method: "POST", path: list, token: "admin", fail: nil, status: 204, limit: `"mutations";r=6;t=1200`},
			{method: "POST", path: list, token: "admin", fail: nil, status: 204, limit: `"mutations";r=5;t=1600`},
			{method: "POST", path: list, token: "admin", fail: nil, status: 429, limit: `"creations";r=0;t=1800`},
			{method: "POST", path: list, token: "other", fail: nil, status: 204, limit: `"mutations";r=8;t=400`},
			{method: "POST", path: one + "/stop", token: "admin", fail: nil, status: 204,
				limit: `"mutations";r=3;t=2400`},
		},
		"reveals count for the agent, however it is written, and for no other organization": {
			{method: "POST", path: reveal, token: "other", fail: nil, status: 204, limit: `"mutations";r=8;t=400`},
			{method: "POST", path: reveal, token: "other", fail: nil, status: 204, limit: `"mutations";r=7;t=800`},
			{method: "POST", path: reveal, token: "other", fail: nil, status: 429, limit: `"reveals";r=0;t=1800`},
			{method: "POST", path: reveal, token: "admin", fail: conflict, status: 409, limit: `"mutations";r=8;t=400`},
			{method: "POST", path: "/agents/" + strings.ToUpper(agentID) + "/reveal", token: "admin", fail: nil,
				status: 204, limit: `"mutations";r=7;t=800`},
			{method: "POST", path: reveal, token: "admin", fail: nil, status: 429, limit: `"reveals";r=0;t=1800`},
			{method: "POST", path: other + "/reveal", token: "admin", fail: nil, status: 204,
				limit: `"mutations";r=5;t=1600`},
		},
		"failed authentications count for the address": {
			{method: "GET", path: list, token: "garbage", fail: nil, status: 401, limit: ""},
			{method: "GET", path: list, token: "outage", fail: nil, status: 503, limit: ""},
			{method: "GET", path: list, token: "admin", fail: nil, status: 204, limit: `"reads";r=2;t=1200`},
			{method: "GET", path: list, token: "garbage", fail: nil, status: 401, limit: ""},
			{method: "GET", path: list, token: "garbage", fail: nil, status: 429, limit: ""},
			{method: "GET", path: list, token: "admin", fail: nil, status: 429, limit: ""},
			{method: "GET", path: "/api/v1/public", token: "garbage", fail: nil, status: 204, limit: ""},
		},
		"what is public has no limit": {
			{method: "GET", path: "/api/v1/public", token: "", fail: nil, status: 204, limit: ""},
			{method: "GET", path: "/api/v1/public", token: "", fail: nil, status: 204, limit: ""},
			{method: "GET", path: "/api/v1/public", token: "", fail: nil, status: 204, limit: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fail error
			h := limited(&fail)
			for i, c := range calls {
				fail = c.fail
				r := call(t, h, keyed(c.method, c.path, c.token, ""))
				if r.status != c.status || r.header.Get("RateLimit") != c.limit {
					t.Errorf("call %d: %d with %q, want %d with %q", i, r.status, r.header.Get("RateLimit"), c.status,
						c.limit)
				}
				if (c.limit == "") != (r.header.Get("RateLimit-Policy") == "") || r.status == 429 &&
					(r.header.Get("Retry-After") == "" || r.body["code"] != "rate_limited") {
					t.Errorf("call %d: headers %v, body %v", i, r.header, r.body)
				}
			}
		})
	}
}

// TestAddresses: the address that counts, and that the audit log shows, is the one that the platform's proxy saw,
// whatever the client claims before it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ remote, forwarded, want string }{
		"one hop":              {remote: "10.0.0.1:5", forwarded: "203.0.113.7", want: "203.0.113.7"},
		"a client's own claim": {remote: "10.0.0.1:5", forwarded: "1.1.1.1, 203.0.113.7", want: "203.0.113.7"},
		"many claims, no space": {remote: "10.0.0.1:5", forwarded: "1.1.1.1,2.2.2.2,203.0.113.7",
			want: "203.0.113.7"},
		"no proxy":                {remote: "203.0.113.7:5", forwarded: "", want: "203.0.113.7"},
		"no proxy, and IPv6":      {remote: "[2001:db8::7]:5", forwarded: "", want: "2001:db8::7"},
		"an address without port": {remote: "somewhere", forwarded: "", want: "somewhere"},
	} {
		log := &entries{}
		req := keyed("POST", actPath, "member", goodBody)
		req.RemoteAddr = c.remote
		if c.forwarded != "" {
			req.Header.Set("X-Forwarded-For", c.forwarded)
		}
		call(t, audited(function.Guard{Audit: log}, nil), req)
		if len(log.appended) != 1 || log.appended[0].Request.IP != c.want {
			t.Errorf("%s: %+v, want %s", name, log.appended, c.want)
		}
	}
}
