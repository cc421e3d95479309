package agents_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/provisioning"
)

const agentID = "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"

// one is a store of one agent, of which only Get is used.
type one struct {
	agent.Store
	agent agent.Agent
	err   error
}

func (s one) Get(context.Context, string) (agent.Agent, error) { return s.agent, s.err }

// gateway answers probes and counts them.
type gateway struct {
	provisioning.AgentProber
	err    error
	delay  time.Duration
	probes atomic.Int32
}

func (g *gateway) Probe(context.Context, agent.Agent) error {
	g.probes.Add(1)
	time.Sleep(g.delay) //nolint:forbidigo // how long the agent takes, in the bubble's time
	return g.err
}

type member struct{}

func (member) Authenticate(ctx context.Context, _ string, _ document.Ref) (context.Context, identity.Caller, error) {
	return ctx, identity.Caller{ID: "u", OrganizationID: "org_1", Role: identity.RoleMember}, nil
}

// view is the answer; pointers show what is null.
type view struct {
	Reachable    bool
	Warming      bool    `json:"dashboard_warming"`
	Rotating     bool    `json:"credential_rotation_pending"`
	DashboardURL *string `json:"dashboard_url"`
	HTTPStatus   *int    `json:"http_status"`
	Latency      *float64
	Reason       string
	RetryAfter   *int `json:"retry_after_seconds"`
}

func ask(t *testing.T, h http.Handler) (int, view) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/api/v1/agents/"+agentID+"/dashboard-reachability", nil)
	req.Header.Set("Authorization", "Bearer token")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var v view
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return w.Code, v
}

func handler(a agent.Agent, g *gateway) http.Handler {
	r := agents.Reachability(one{agent: a}, g, agent.Addresses{Domain: "agents.test", Scheme: "https"})
	return function.Mux([]function.Served{{Method: r.Method, Path: r.Path,
		Handler: r.Handler(function.Guard{Authenticator: member{}})}})
}

func unhealthy(meta map[string]any) error {
	return fault.New(fault.Unavailable, "gateway_unhealthy", "It does not answer.").WithMeta(meta)
}

func TestReachability(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Agent)
		err    error
		want   string
		status int // of the agent; 0 is null
		probes int32
		retry  int // 0 is null
	}{
		"it answers": {want: "ok", status: 200, probes: 1},
		"a pod is replaced": {change: func(a *agent.Agent) { a.Warming = true },
			err: unhealthy(map[string]any{"reason": "connect"}), want: "warming", probes: 1, retry: 2},
		"the former answers": {change: func(a *agent.Agent) { a.Warming = true }, want: "warming", status: 200,
			probes: 1, retry: 2},
		"it is stopped": {change: func(a *agent.Agent) { a.Status = agent.Stopped }, want: "not_running",
			retry: 10},
		"it has no hostname": {change: func(a *agent.Agent) { a.Routed = false }, want: "not_running", retry: 10},
		"no name":            {err: unhealthy(map[string]any{"reason": "dns"}), want: "dns", probes: 1, retry: 5},
		"no certificate":     {err: unhealthy(map[string]any{"reason": "tls"}), want: "tls", probes: 1, retry: 5},
		"no time": {err: unhealthy(map[string]any{"reason": "timeout"}), want: "timeout", probes: 1,
			retry: 5},
		"another answer": {err: unhealthy(map[string]any{"reason": "bad_status", "http_status": 503}),
			want: "bad_status", status: 503, probes: 1, retry: 5},
		"an unknown trouble": {err: context.Canceled, want: "connect", probes: 1, retry: 5},
		"a pending rotation": {change: func(a *agent.Agent) { a.RotationPending = true }, want: "ok", status: 200,
			probes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agent.Agent{ID: agentID, OrganizationID: "org_1", Slug: "a", Status: agent.Running, Routed: true}
			if c.change != nil {
				c.change(&a)
			}
			g := &gateway{err: c.err}
			code, v := ask(t, handler(a, g))
			if code != http.StatusOK || v.Reason != c.want || g.probes.Load() != c.probes {
				t.Fatalf("status %d, %+v after %d probes, want %s after %d", code, v, g.probes.Load(), c.want, c.probes)
			}
			if v.Reachable != (c.status == 200) || v.Warming != a.Warming || v.Rotating != a.RotationPending ||
				(v.DashboardURL != nil) != a.Routed {
				t.Errorf("answered %+v", v)
			}
			if (v.HTTPStatus != nil) != (c.status != 0) || v.HTTPStatus != nil && *v.HTTPStatus != c.status {
				t.Errorf("http_status %v, want %d", v.HTTPStatus, c.status)
			}
			if (v.RetryAfter != nil) != (c.retry != 0) || v.RetryAfter != nil && *v.RetryAfter != c.retry {
				t.Errorf("retry_after_seconds %v, want %d", v.RetryAfter, c.retry)
			}
		})
	}
}

// TestManyAskAndOneProbes has many clients ask at once, and again within two seconds and after.
func TestManyAskAndOneProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gateway{delay: 500 * time.Millisecond}
		h := handler(agent.Agent{ID: agentID, Slug: "a", Status: agent.Running, Routed: true}, g)
		crowd := func(want int32) {
			t.Helper()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if _, v := ask(t, h); v.Reason != "ok" {
						t.Errorf("answered %+v", v)
					}
				})
			}
			all.Wait()
			if got := g.probes.Load(); got != want {
				t.Errorf("%d probes, want %d", got, want)
			}
		}
		crowd(1)
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		crowd(1)
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time
		crowd(2)
	})
}
