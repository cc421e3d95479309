package function_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

const otherAgentID = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"

// serveLimitedRoutes serves a few routes with limits of a few calls an hour, under a clock that stands still. Handlers
// return *err.
func serveLimitedRoutes(err *error) http.Handler {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	perHour := func(quota int) ratelimit.Limit { return ratelimit.Limit{Quota: quota, Window: time.Hour} }
	limiter := ratelimit.New(ratelimit.Limits{
		ratelimit.Reads: perHour(3), ratelimit.Polling: perHour(2), ratelimit.Mutations: perHour(9),
		ratelimit.Reveals: perHour(2), ratelimit.Authentication: perHour(2), ratelimit.Members: perHour(2),
		ratelimit.OrganizationReads: perHour(6), ratelimit.OrganizationMutations: perHour(12),
	}, func() time.Time { return now })
	handle := function.Handle(func(context.Context, function.Empty) (function.None, error) {
		return function.None{}, *err
	})
	agent := func(path func(string) string) document.Ref {
		return document.Ref{Collection: "agents", ID: strings.ToLower(path("agent_id"))}
	}
	routes := []function.Route{
		{Method: http.MethodGet, Path: "/api/v1/agents", Access: function.Member},
		{Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}", Access: function.Member, Reads: agent},
		{Method: http.MethodGet, Path: "/api/v1/members", Access: function.Admin},
		{Method: http.MethodPost, Path: "/api/v1/agents", Access: function.Admin},
		{Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/stop", Access: function.Admin, Reads: agent},
		{
			Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/reveal", Access: function.Admin,
			Limit: ratelimit.Reveals,
		},
		{Method: http.MethodPut, Path: "/api/v1/members/{user_id}", Access: function.Admin, Limit: ratelimit.Members},
		{Method: http.MethodGet, Path: "/api/v1/public", Access: function.Public},
	}
	for i := range routes {
		routes[i].Name, routes[i].Status, routes[i].Handle = "Test", http.StatusNoContent, handle
	}
	return serveRoutes(function.Guard{Limiter: limiter}, routes...)
}

// TestRoute_CountsCallsPerBucket makes the calls of each case one after another.
func TestRoute_CountsCallsPerBucket(t *testing.T) {
	t.Parallel()
	const (
		list    = "/agents"
		one     = "/agents/" + agentID
		other   = "/agents/" + otherAgentID
		unknown = "/agents/9f1c7f3e-6d0a-4a53-8f5e-1f2a3b4c5d6e"
		stop    = one + "/stop"
		reveal  = one + "/reveal"
		members = "/api/v1/members/"
		public  = "/api/v1/public"
	)
	upper := func(path string) string { return strings.Replace(path, agentID, strings.ToUpper(agentID), 1) }
	conflict := fault.New(fault.Conflict, "agent_state_conflict", "No.")
	missing := fault.New(fault.NotFound, "agent_not_found", "No.")
	unavailable := fault.New(fault.Unavailable, "store_unavailable", "Down.")
	_, creation := ratelimit.Limit{Quota: 1, Window: time.Hour}.
		TakeStored(ratelimit.Creations, 1, time.Unix(3600, 0), time.Unix(600, 0))
	for name, calls := range map[string][]struct {
		method, path, token string
		err                 error
		wantStatus          int
		wantLimit           string // the RateLimit header
	}{
		"reads count per caller, whatever their outcome": {
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
			{
				method: "GET", path: list, token: "admin", err: conflict, wantStatus: 409,
				wantLimit: `"reads";r=1;t=2400`,
			},
			{method: "HEAD", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=0;t=3600`},
			{method: "GET", path: list, token: "admin", wantStatus: 429, wantLimit: `"reads";r=0;t=1200`},
			{method: "GET", path: list, token: "member", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
		},
		"polling one agent has a separate budget": {
			{method: "GET", path: one, token: "admin", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
			{method: "GET", path: upper(one), token: "admin", wantStatus: 204, wantLimit: `"polling";r=0;t=3600`},
			{method: "GET", path: one, token: "admin", wantStatus: 429, wantLimit: `"polling";r=0;t=1800`},
			{method: "GET", path: other, token: "admin", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
			{method: "GET", path: one, token: "member", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
			{method: "POST", path: stop, token: "admin", wantStatus: 204, wantLimit: `"mutations";r=8;t=400`},
		},
		"a session's reads of unknown ids count as reads": {
			{method: "GET", path: one, token: "admin", err: missing, wantStatus: 404, wantLimit: `"reads";r=2;t=1200`},
			{
				method: "GET", path: other, token: "admin", err: missing, wantStatus: 404,
				wantLimit: `"reads";r=1;t=2400`,
			},
			{
				method: "GET", path: one, token: "admin", err: unavailable, wantStatus: 503,
				wantLimit: `"reads";r=0;t=3600`,
			},
			{method: "GET", path: one, token: "admin", err: missing, wantStatus: 429, wantLimit: `"reads";r=0;t=1200`},
			{method: "GET", path: list, token: "admin", wantStatus: 429, wantLimit: `"reads";r=0;t=1200`},
		},
		"an agent that was found has its budget, also if its state fails the call": {
			{
				method: "GET", path: one, token: "admin", err: conflict, wantStatus: 409,
				wantLimit: `"polling";r=1;t=1800`,
			},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=1;t=2400`},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=0;t=3600`},
			{method: "GET", path: one, token: "admin", wantStatus: 204, wantLimit: `"polling";r=0;t=3600`},
		},
		"a removed agent loses its budget": {
			{method: "GET", path: one, token: "admin", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
			{
				method: "GET", path: one, token: "admin", err: missing, wantStatus: 404,
				wantLimit: `"polling";r=0;t=3600`,
			},
			{method: "GET", path: one, token: "admin", err: missing, wantStatus: 404, wantLimit: `"reads";r=1;t=2400`},
		},
		"a key's own agent is known from the first read": {
			{method: "GET", path: one, token: "key", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
			{
				method: "GET", path: upper(one), token: "key", err: unavailable, wantStatus: 503,
				wantLimit: `"polling";r=0;t=3600`,
			},
			{method: "GET", path: one, token: "key", wantStatus: 429, wantLimit: `"polling";r=0;t=1800`},
			{method: "GET", path: list, token: "key", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
		},
		"a key's reads of other organizations' agents and of unknown ids count as reads": {
			{method: "GET", path: other, token: "key", err: missing, wantStatus: 404, wantLimit: `"reads";r=2;t=1200`},
			{
				method: "GET", path: unknown, token: "key", err: missing, wantStatus: 404,
				wantLimit: `"reads";r=1;t=2400`,
			},
			{method: "GET", path: other, token: "key", err: missing, wantStatus: 404, wantLimit: `"reads";r=0;t=3600`},
			{method: "GET", path: other, token: "key", err: missing, wantStatus: 429, wantLimit: `"reads";r=0;t=1200`},
			{method: "GET", path: one, token: "key", wantStatus: 204, wantLimit: `"polling";r=1;t=1800`},
		},
		"a limit of the store replaces the caller's": {
			{method: "POST", path: list, token: "admin", wantStatus: 204, wantLimit: `"mutations";r=8;t=400`},
			{
				method: "POST", path: list, token: "admin", err: creation.Err(), wantStatus: 429,
				wantLimit: `"creations";r=0;t=3000`,
			},
			{
				method: "POST", path: list, token: "admin", err: conflict, wantStatus: 409,
				wantLimit: `"mutations";r=6;t=1200`,
			},
		},
		"reveals count per agent and organization, however the id is written": {
			{method: "POST", path: reveal, token: "other-admin", wantStatus: 204, wantLimit: `"mutations";r=8;t=400`},
			{method: "POST", path: reveal, token: "other-admin", wantStatus: 204, wantLimit: `"mutations";r=7;t=800`},
			{method: "POST", path: reveal, token: "other-admin", wantStatus: 429, wantLimit: `"reveals";r=0;t=1800`},
			{
				method: "POST", path: reveal, token: "admin", err: conflict, wantStatus: 409,
				wantLimit: `"mutations";r=8;t=400`,
			},
			{method: "POST", path: upper(reveal), token: "admin", wantStatus: 204, wantLimit: `"mutations";r=7;t=800`},
			{method: "POST", path: reveal, token: "admin", wantStatus: 429, wantLimit: `"reveals";r=0;t=1800`},
			{
				method: "POST", path: other + "/reveal", token: "admin", wantStatus: 204,
				wantLimit: `"mutations";r=5;t=1600`,
			},
		},
		"changes of members count per organization, whoever the member is": {
			{
				method: "PUT", path: members + agentID, token: "admin", wantStatus: 204,
				wantLimit: `"mutations";r=8;t=400`,
			},
			{method: "PUT", path: members + "ada", token: "key", wantStatus: 204, wantLimit: `"mutations";r=8;t=400`},
			{
				method: "PUT", path: members + otherAgentID, token: "admin", wantStatus: 429,
				wantLimit: `"members";r=0;t=1800`,
			},
			{
				method: "PUT", path: members + "ada", token: "other-admin", wantStatus: 204,
				wantLimit: `"mutations";r=8;t=400`,
			},
		},
		"failed authentications count per address": {
			{method: "GET", path: list, token: "garbage", wantStatus: 401, wantLimit: ""},
			{method: "GET", path: list, token: "outage", wantStatus: 503, wantLimit: ""},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=2;t=1200`},
			{method: "GET", path: list, token: "garbage", wantStatus: 401, wantLimit: ""},
			{method: "GET", path: list, token: "garbage", wantStatus: 429, wantLimit: ""},
			{method: "GET", path: list, token: "admin", wantStatus: 204, wantLimit: `"reads";r=1;t=2400`},
			{method: "GET", path: public, token: "garbage", wantStatus: 204, wantLimit: ""},
		},
		"public routes have no limit": {
			{method: "GET", path: public, token: "", wantStatus: 204, wantLimit: ""},
			{method: "GET", path: public, token: "", wantStatus: 204, wantLimit: ""},
			{method: "GET", path: public, token: "", wantStatus: 204, wantLimit: ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			h := serveLimitedRoutes(&err)
			for i, c := range calls {
				err = c.err
				r := send(t, h, newRequest(c.method, c.path, c.token, ""))
				if r.status != c.wantStatus {
					t.Errorf("call %d: status = %d, want %d; body %v", i, r.status, c.wantStatus, r.body)
				}
				if got := r.header.Get("RateLimit"); got != c.wantLimit {
					t.Errorf("call %d: RateLimit = %q, want %q", i, got, c.wantLimit)
				}
				if policy := r.header.Get("RateLimit-Policy"); (policy == "") != (c.wantLimit == "") {
					t.Errorf("call %d: RateLimit-Policy = %q with RateLimit %q", i, policy, c.wantLimit)
				}
				if r.status != 429 {
					continue
				}
				if r.header.Get("Retry-After") == "" {
					t.Errorf("call %d: header Retry-After is missing", i)
				}
				if r.body["code"] != "rate_limited" {
					t.Errorf("call %d: code = %v, want rate_limited", i, r.body["code"])
				}
			}
		})
	}
}

// TestRoute_LooksUpNoAgentBeyondTheLimit holds that a flood of ids reaches the handler, and so the store, no more often
// than the limit on reads allows, also if the requests come concurrently.
func TestRoute_LooksUpNoAgentBeyondTheLimit(t *testing.T) {
	t.Parallel()
	var lookups atomic.Int64
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	limiter := ratelimit.New(ratelimit.Standard(1), func() time.Time { return now })
	h := serveRoutes(function.Guard{Limiter: limiter}, function.Route{
		Name: "Test", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}", Access: function.Member,
		Status: http.StatusNoContent,
		Reads: func(path func(string) string) document.Ref {
			return document.Ref{Collection: "agents", ID: path("agent_id")}
		},
		Handle: function.Handle(func(context.Context, function.Empty) (function.None, error) {
			lookups.Add(1)
			return function.None{}, fault.New(fault.NotFound, "agent_not_found", "No.")
		}),
	})
	for _, token := range []string{"admin", "key"} {
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				h.ServeHTTP(httptest.NewRecorder(), newRequest("GET", "/agents/"+uuid.NewString(), token, ""))
			})
		}
		all.Wait()
		if got := lookups.Swap(0); got != 40 {
			t.Errorf("%s: 300 reads of unknown ids cost %d look-ups, want 40", token, got)
		}
	}
	if got := limiter.Buckets(); got != 3 {
		t.Errorf("Buckets = %d after reads of unknown ids, want one for each caller and their organization", got)
	}
}

// TestRoute_TakesAddressFromPlatformProxy reads the address from the audit entry; failed authentications count for the
// same one.
func TestRoute_TakesAddressFromPlatformProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ remoteAddr, forwardedFor, want string }{
		"one hop":             {remoteAddr: "10.0.0.1:5", forwardedFor: "203.0.113.7", want: "203.0.113.7"},
		"client claims a hop": {remoteAddr: "10.0.0.1:5", forwardedFor: "1.1.1.1, 203.0.113.7", want: "203.0.113.7"},
		"hops without spaces": {
			remoteAddr: "10.0.0.1:5", forwardedFor: "1.1.1.1,2.2.2.2,203.0.113.7", want: "203.0.113.7",
		},
		"no proxy":              {remoteAddr: "203.0.113.7:5", forwardedFor: "", want: "203.0.113.7"},
		"no proxy, IPv6":        {remoteAddr: "[2001:db8::7]:5", forwardedFor: "", want: "2001:db8::7"},
		"no proxy, and no port": {remoteAddr: "somewhere", forwardedFor: "", want: "unknown"},
	} {
		log := &fakeAuditLog{}
		req := newRequest("POST", actPath, "member", validBody)
		req.RemoteAddr = c.remoteAddr
		if c.forwardedFor != "" {
			req.Header.Set("X-Forwarded-For", c.forwardedFor)
		}
		send(t, serveAuditedRoutes(function.Guard{Audit: log}, nil), req)
		if len(log.entries) != 1 {
			t.Errorf("%s: got %d entries, want 1", name, len(log.entries))
			continue
		}
		if got := log.entries[0].Request.IP; got != c.want {
			t.Errorf("%s: IP = %s, want %s", name, got, c.want)
		}
	}
}

// TestRoute_BoundsAllCallersOfAnOrganization makes more calls with each token than its own limit allows. Only calls
// that the callers' own limits allow count for the organization.
func TestRoute_BoundsAllCallersOfAnOrganization(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path string
		tokens       []string
		wantAnswers  map[int]int // calls by status
		wantLimit    string      // which refuses the last token first
	}{
		"reads": {
			method: "GET", path: "/agents", tokens: []string{"admin", "member", "key"},
			wantAnswers: map[int]int{204: 6, 429: 24}, wantLimit: "organization_reads",
		},
		"mutations": {
			method: "POST", path: "/agents", tokens: []string{"admin", "key"},
			wantAnswers: map[int]int{204: 12, 429: 8}, wantLimit: "organization_mutations",
		},
		"mutations that access refuses": {
			method: "POST", path: "/agents", tokens: []string{"member", "key"},
			wantAnswers: map[int]int{403: 9, 204: 3, 429: 8}, wantLimit: "organization_mutations",
		},
		"reads that access refuses": {
			method: "GET", path: "/api/v1/members", tokens: []string{"member", "admin", "key"},
			wantAnswers: map[int]int{403: 3, 204: 3, 429: 24}, wantLimit: "organization_reads",
		},
		"reads without an organization": {
			method: "GET", path: "/api/v1/members", tokens: []string{"no-organization"},
			wantAnswers: map[int]int{403: 3, 429: 7}, wantLimit: "reads",
		},
	} {
		var err error
		h := serveLimitedRoutes(&err)
		answers, firstRefusal := map[int]int{}, ""
		for _, token := range c.tokens {
			firstRefusal = ""
			for range 10 {
				r := send(t, h, newRequest(c.method, c.path, token, ""))
				answers[r.status]++
				if r.status == http.StatusTooManyRequests && firstRefusal == "" {
					firstRefusal = r.body["meta"].(map[string]any)["limit"].(string)
				}
			}
		}
		if !maps.Equal(answers, c.wantAnswers) {
			t.Errorf("%s: answers %v, want %v", name, answers, c.wantAnswers)
		}
		if firstRefusal != c.wantLimit {
			t.Errorf("%s: the limit %q refused, want %q", name, firstRefusal, c.wantLimit)
		}
		if r := send(t, h, newRequest(c.method, c.path, "other-admin", "")); r.status != 204 {
			t.Errorf("%s: another organization got %d, want 204", name, r.status)
		}
	}
}
