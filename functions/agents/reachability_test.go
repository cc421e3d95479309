package agents_test

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/functions/agents"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

const agentID = "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"

// fakeProber answers probes and counts them.
type fakeProber struct {
	status int // 0 is 200
	err    error
	delay  time.Duration
	probes atomic.Int32
}

func (g *fakeProber) Dashboard(context.Context, agent.Agent) (int, error) {
	g.probes.Add(1)
	time.Sleep(g.delay) //nolint:forbidigo // the time that the agent takes, on the bubble's clock
	return cmp.Or(g.status, http.StatusOK), g.err
}

// view is the answer; pointers show what is null.
type view struct {
	Reachable    bool
	Warming      bool    `json:"dashboard_warming"`
	Rotating     bool    `json:"credential_rotation_pending"`
	DashboardURL *string `json:"dashboard_url"`
	HTTPStatus   *int    `json:"http_status"`
	Reason       string
	RetryAfter   *int `json:"retry_after_seconds"`
}

func reachability(a agent.Agent, p *fakeProber) function.Route {
	return agents.Reachability(&oneAgent{agent: a}, p, agent.Addresses{Domain: "agents.test", Scheme: "https"})
}

func getReachability(t *testing.T, r function.Route) view {
	t.Helper()
	var v view
	functiontest.Call(t, r, functiontest.AsMember("org-1"), functiontest.Path("agent_id", agentID)).
		Want(t, http.StatusOK, "").Decode(t, &v)
	return v
}

func unhealthy(meta map[string]any) error {
	return fault.New(fault.Unavailable, "gateway_unhealthy", "It does not answer.").WithMeta(meta)
}

func TestReachability_ExplainsWhyADashboardDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given      func(*agent.Agent)
		status     int
		probeError error

		wantReason     string
		wantHTTPStatus int // 0 is null
		wantProbes     int32
		wantRetryAfter int // 0 is null
	}{
		"the agent answers":       {wantReason: "ok", wantHTTPStatus: 200, wantProbes: 1},
		"the dashboard redirects": {status: 302, wantReason: "ok", wantHTTPStatus: 302, wantProbes: 1},
		"the dashboard refuses its user": {
			status: 403, wantReason: "dashboard_error", wantHTTPStatus: 403, wantProbes: 1,
		},
		"the dashboard fails": {
			status: 500, wantReason: "dashboard_error", wantHTTPStatus: 500, wantProbes: 1, wantRetryAfter: 5,
		},
		"the previous pod's dashboard fails": {
			given: func(a *agent.Agent) { a.Warming = true }, status: 500, wantReason: "warming",
			wantHTTPStatus: 500, wantProbes: 1, wantRetryAfter: 2,
		},
		"the pod is being replaced": {
			given:      func(a *agent.Agent) { a.Warming = true },
			probeError: unhealthy(map[string]any{"reason": "connect"}), wantReason: "warming", wantProbes: 1,
			wantRetryAfter: 2,
		},
		"the previous pod still answers": {
			given: func(a *agent.Agent) { a.Warming = true }, wantReason: "warming",
			wantHTTPStatus: 200, wantProbes: 1, wantRetryAfter: 2,
		},
		"the agent is stopped": {
			given: func(a *agent.Agent) { a.Status = agent.Stopped }, wantReason: "not_running",
		},
		"the agent is paused": {
			given:      func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, agent.Manual },
			wantReason: "not_running",
		},
		"the agent is being provisioned": {
			given: func(a *agent.Agent) { a.Status = agent.Provisioning }, wantReason: "not_running",
			wantRetryAfter: 10,
		},
		"the agent may recover": {
			given: func(a *agent.Agent) { a.Status = agent.Error }, wantReason: "not_running", wantRetryAfter: 10,
		},
		"the agent sleeps": {
			given:      func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, agent.ReasonIdle },
			wantReason: "asleep",
		},
		"the agent has no hostname": {
			given: func(a *agent.Agent) { a.Routed = false }, wantReason: "not_running",
			wantRetryAfter: 10,
		},
		"the hostname does not resolve": {
			probeError: unhealthy(map[string]any{"reason": "dns"}), wantReason: "dns",
			wantProbes: 1, wantRetryAfter: 5,
		},
		"the certificate is bad": {
			probeError: unhealthy(map[string]any{"reason": "tls"}), wantReason: "tls",
			wantProbes: 1, wantRetryAfter: 5,
		},
		"the probe times out": {
			probeError: unhealthy(map[string]any{"reason": "timeout"}), wantReason: "timeout",
			wantProbes: 1, wantRetryAfter: 5,
		},
		"the agent answers with an error": {
			probeError: unhealthy(map[string]any{"reason": "bad_status", "http_status": 503}),
			wantReason: "bad_status", wantHTTPStatus: 503, wantProbes: 1, wantRetryAfter: 5,
		},
		"an error without a reason": {
			probeError: context.Canceled, wantReason: "connect", wantProbes: 1,
			wantRetryAfter: 5,
		},
		"a rotation is pending": {
			given: func(a *agent.Agent) { a.RotationPending = true }, wantReason: "ok",
			wantHTTPStatus: 200, wantProbes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agent.Agent{ID: agentID, OrganizationID: "org-1", Slug: "a", Status: agent.Running, Routed: true}
			if c.given != nil {
				c.given(&a)
			}
			p := &fakeProber{status: c.status, err: c.probeError}
			v := getReachability(t, reachability(a, p))
			if v.Reason != c.wantReason {
				t.Errorf("reason = %s, want %s", v.Reason, c.wantReason)
			}
			if got := p.probes.Load(); got != c.wantProbes {
				t.Errorf("%d probes, want %d", got, c.wantProbes)
			}
			if want := c.wantHTTPStatus/100 == 2 || c.wantHTTPStatus/100 == 3; v.Reachable != want {
				t.Errorf("reachable = %t, want %t", v.Reachable, want)
			}
			if v.Warming != a.Warming || v.Rotating != a.RotationPending {
				t.Errorf("warming = %t, rotation pending = %t, want %t, %t", v.Warming, v.Rotating, a.Warming,
					a.RotationPending)
			}
			if (v.DashboardURL != nil) != a.Routed {
				t.Errorf("dashboard_url = %v, want one: %t", v.DashboardURL, a.Routed)
			}
			checkNullable(t, "http_status", v.HTTPStatus, c.wantHTTPStatus)
			checkNullable(t, "retry_after_seconds", v.RetryAfter, c.wantRetryAfter)
		})
	}
}

// checkNullable compares a field that is null for 0.
func checkNullable(t *testing.T, field string, got *int, want int) {
	t.Helper()
	switch {
	case got == nil && want != 0:
		t.Errorf("%s is null, want %d", field, want)
	case got != nil && *got != want:
		t.Errorf("%s = %d, want %d (0 is null)", field, *got, want)
	}
}

// TestReachability_ProbesOnceInTwoSeconds sends many requests at the same time, again within two seconds, and after.
func TestReachability_ProbesOnceInTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProber{delay: 500 * time.Millisecond}
		a := agent.Agent{ID: agentID, OrganizationID: "org-1", Slug: "a", Status: agent.Running, Routed: true}
		r := reachability(a, p)
		requestTwentyTimes := func(wantProbes int32) {
			t.Helper()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if v := getReachability(t, r); v.Reason != "ok" {
						t.Errorf("reason = %s, want ok", v.Reason)
					}
				})
			}
			all.Wait()
			if got := p.probes.Load(); got != wantProbes {
				t.Errorf("%d probes, want %d", got, wantProbes)
			}
		}
		requestTwentyTimes(1)
		time.Sleep(time.Second) //nolint:forbidigo // on the bubble's clock
		requestTwentyTimes(1)
		time.Sleep(time.Second) //nolint:forbidigo // on the bubble's clock
		requestTwentyTimes(2)
	})
}
