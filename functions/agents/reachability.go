package agents

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// Reason says why a dashboard cannot be reached; it is "ok" for one that can.
type Reason string

// The reasons that this package decides on. The others are those of DashboardProber.
const (
	reasonOK         Reason = "ok"
	reasonWarming    Reason = "warming"
	reasonNotRunning Reason = "not_running"
	// reasonAsleep means that the agent sleeps. It is not probed, because a probe is no use of the agent.
	reasonAsleep  Reason = "asleep"
	reasonConnect Reason = "connect"
	// reasonDashboard means that the agent serves, and that its own program refuses or fails to show the dashboard.
	reasonDashboard Reason = "dashboard_error"
)

// Values lists the reasons.
func (Reason) Values() []string {
	return []string{
		"ok", "warming", "not_running", "asleep", "dns", "tls", "connect", "timeout", "bad_status", "dashboard_error",
	}
}

// Reachable reports whether an agent's dashboard answers.
type Reachable struct {
	AgentID         string    `json:"agent_id" jsonschema:"The agent's id."`
	Reachable       bool      `json:"reachable" jsonschema:"Whether the dashboard answers its user with a status below 400."`
	Warming         bool      `json:"dashboard_warming" jsonschema:"True until the newest pod has answered. The previous pod may still be reachable."`
	RotationPending bool      `json:"credential_rotation_pending" jsonschema:"True until the agent accepts the new credential and refuses the old one."`
	DashboardURL    *string   `json:"dashboard_url" jsonschema:"Null until the agent has a hostname."`
	HTTPStatus      *int      `json:"http_status" jsonschema:"The status code of the dashboard, as its user gets it; that of the agent's health check if it does not serve; null if it did not answer."`
	LatencyMS       *float64  `json:"latency_ms" jsonschema:"The latency of the check in milliseconds; null if the agent did not answer."`
	Reason          Reason    `json:"reason" jsonschema:"Why the dashboard does not answer; ok if it does. With asleep, the agent sleeps, and opening the dashboard wakes it if requests do; this check does not. With dashboard_error the agent serves, and its own program answered with http_status."`
	CheckedAt       time.Time `json:"checked_at" jsonschema:"When the agent was probed. An answer may be a few seconds old."`
	RetryAfter      *int      `json:"retry_after_seconds" jsonschema:"Seconds to wait before the next check; null if waiting changes nothing."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (Reachable) AmendSchema(s *jsonschema.Schema) {
	s.Properties["agent_id"].Format, s.Properties["dashboard_url"].Format = "uuid", "uri"
}

// Example implements function.Exampler.
func (Reachable) Example() any {
	v, _ := agent.View{}.Example().(agent.View)
	status, latency := http.StatusOK, 12.5
	return Reachable{
		AgentID: v.ID, Reachable: true, DashboardURL: v.DashboardURL, HTTPStatus: &status, LatencyMS: &latency,
		Reason:    reasonOK,
		CheckedAt: v.CreatedAt.Add(time.Minute),
	}
}

// DashboardProber asks a running agent through its hostname.
type DashboardProber interface {
	// Dashboard returns the status with which the agent's dashboard answers its user. Errors: Unavailable, with the
	// answer in its metadata.
	Dashboard(ctx context.Context, a agent.Agent) (status int, err error)
}

// Reachability probes an agent on its own hostname. It writes no record: only a worker clears the flags of an agent.
func Reachability(agents agent.Store, p DashboardProber, d agent.Addresses) function.Route {
	probes := &probeCache{prober: p, recent: map[string]*probe{}}
	return function.Route{
		Name: "GetDashboardReachability", Method: http.MethodGet,
		Path:   "/api/v1/agents/{agent_id}/dashboard-reachability",
		Access: function.Member, Needs: []function.Need{function.Firestore, function.GatewayAccess}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Check whether an agent's dashboard is reachable",
		Handle: function.Handle(func(ctx context.Context, in path) (Reachable, error) {
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return Reachable{}, err
			}
			r := Reachable{
				AgentID: a.ID, Warming: a.Warming, RotationPending: a.RotationPending,
				CheckedAt: time.Now().UTC(),
			}
			if a.Routed {
				url := a.URL(d, "/")
				r.DashboardURL = &url
			}
			switch {
			case a.Status == agent.Running && a.Routed:
				return r.with(probes.probe(ctx, a)), nil
			case a.Asleep():
				r.Reason = reasonAsleep
			case a.WantsPod():
				r.Reason, r.RetryAfter = reasonNotRunning, after(10)
			default: // waiting changes nothing
				r.Reason = reasonNotRunning
			}
			return r, nil
		}),
	}
}

// after is a number of seconds to wait.
func after(seconds int) *int { return &seconds }

// with adds the result of a probe.
func (r Reachable) with(p *probe) Reachable {
	r.CheckedAt, r.Reason = p.at, p.reason
	r.Reachable = p.reason == reasonOK
	if p.status != 0 {
		r.HTTPStatus, r.LatencyMS = &p.status, &p.latency
	}
	switch {
	case r.Warming:
		r.Reason, r.RetryAfter = reasonWarming, after(2)
	case r.Reason == reasonDashboard && p.status < http.StatusInternalServerError: // waiting changes no refusal
	case r.Reason != reasonOK:
		r.RetryAfter = after(5)
	}
	return r
}

const (
	// probeValid is how long the result of a probe is reused.
	probeValid = 2 * time.Second
	// maxProbes bounds the cache. A full cache drops the results that are no longer valid, or else all of them.
	maxProbes = 10_000
)

// probeCache probes each agent at most once in probeValid, however many requests there are.
type probeCache struct {
	prober DashboardProber

	mu     sync.Mutex
	recent map[string]*probe
}

// probe is one probe. Read its fields after done is closed.
type probe struct {
	done    chan struct{}
	began   time.Time
	at      time.Time
	status  int
	latency float64 // milliseconds
	reason  Reason
}

func (c *probeCache) probe(ctx context.Context, a agent.Agent) *probe {
	now := time.Now()
	c.mu.Lock()
	found, ok := c.recent[a.ID]
	if !ok || now.Sub(found.began) >= probeValid {
		found = &probe{done: make(chan struct{}), began: now}
		c.remember(a.ID, found)
		// The prober bounds the probe. Other requests may wait for it after this one has ended.
		go found.run(context.WithoutCancel(ctx), c.prober, a)
	}
	c.mu.Unlock()
	<-found.done
	return found
}

func (c *probeCache) remember(id string, fresh *probe) {
	if len(c.recent) >= maxProbes {
		for known, old := range c.recent {
			if fresh.began.Sub(old.began) >= probeValid {
				delete(c.recent, known)
			}
		}
		if len(c.recent) >= maxProbes {
			clear(c.recent)
		}
	}
	c.recent[id] = fresh
}

func (p *probe) run(ctx context.Context, prober DashboardProber, a agent.Agent) {
	p.reason = reasonConnect
	defer func() {
		if v := recover(); v != nil { // the guard of the route does not see this goroutine
			slog.ErrorContext(ctx, "probe panicked", "agent_id", a.ID, "panic", fmt.Sprintf("%T", v))
		}
		close(p.done)
	}()
	status, err := prober.Dashboard(ctx, a)
	p.at = time.Now().UTC()
	p.latency = float64(time.Since(p.began).Microseconds()) / 1000
	if err == nil {
		p.reason, p.status = reasonOK, status
		if status >= http.StatusBadRequest {
			p.reason = reasonDashboard
		}
		return
	}
	meta := fault.From(err).Meta
	if reason, ok := meta["reason"].(string); ok {
		p.reason = Reason(reason)
	}
	p.status, _ = meta["http_status"].(int)
}
