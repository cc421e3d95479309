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
	"agents.example/controlplane/shared/provisioning"
)

// Reason is why a dashboard can't be reached, or "ok".
type Reason string

// The reasons; those of a probe that failed are the gateway's.
const (
	reasonOK         Reason = "ok"
	reasonWarming    Reason = "warming"
	reasonNotRunning Reason = "not_running"
	reasonConnect    Reason = "connect"
)

// Values lists the reasons.
func (Reason) Values() []string {
	return []string{"ok", "warming", "not_running", "dns", "tls", "connect", "timeout", "bad_status"}
}

// Reachable tells whether an agent's dashboard answers.
type Reachable struct {
	AgentID         string    `json:"agent_id"`
	Reachable       bool      `json:"reachable"`
	Warming         bool      `json:"dashboard_warming" jsonschema:"True until the pod that was asked for last has answered. A former one may be reachable meanwhile."`
	RotationPending bool      `json:"credential_rotation_pending"`
	DashboardURL    *string   `json:"dashboard_url"`
	HTTPStatus      *int      `json:"http_status" jsonschema:"What the agent's health check answered; null when it did not."`
	LatencyMS       *float64  `json:"latency_ms" jsonschema:"How long the answer took; null without one."`
	Reason          Reason    `json:"reason"`
	CheckedAt       time.Time `json:"checked_at"`
	RetryAfter      *int      `json:"retry_after_seconds" jsonschema:"When to look again; null when there is nothing to wait for."`
}

// AmendSchema adds to the answer's description what its fields' types don't tell.
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

// Reply implements function.Reply: the answer is of the moment.
func (r Reachable) Reply(h http.Header) any {
	h.Set("Cache-Control", "no-store")
	return r
}

// Reachability asks an agent on its own hostname whether it answers. It changes nothing: flags clear when a worker has
// proved what they wait for.
func Reachability(agents agent.Store, gateway provisioning.AgentProber, d agent.Addresses) function.Route {
	probes := &prober{gateway: gateway, recent: map[string]*probe{}}
	return function.Route{
		Name: "GetDashboardReachability", Method: http.MethodGet,
		Path:   "/api/v1/agents/{agent_id}/dashboard-reachability",
		Access: function.Member, Needs: []function.Need{function.Firestore, function.GatewayAccess}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Whether an agent's dashboard answers",
		Handle: function.Handle(func(ctx context.Context, in path) (Reachable, error) {
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return Reachable{}, err
			}
			r := Reachable{AgentID: a.ID, Warming: a.Warming, RotationPending: a.RotationPending,
				CheckedAt: time.Now().UTC()}
			if a.Routed {
				url := a.URL(d, "/")
				r.DashboardURL = &url
			}
			if a.Status != agent.Running || !a.Routed {
				r.Reason, r.RetryAfter = reasonNotRunning, after(10)
				return r, nil
			}
			return r.with(probes.probe(ctx, a)), nil
		}),
	}
}

// after is how many seconds to wait.
func after(seconds int) *int { return &seconds }

// with adds what a probe found.
func (r Reachable) with(p *probe) Reachable {
	r.CheckedAt, r.Reason = p.at, p.reason
	r.Reachable = p.reason == reasonOK
	if p.status != 0 {
		r.HTTPStatus, r.LatencyMS = &p.status, &p.latency
	}
	switch {
	case r.Warming:
		r.Reason, r.RetryAfter = reasonWarming, after(2)
	case r.Reason != reasonOK:
		r.RetryAfter = after(5)
	}
	return r
}

const (
	// probeValid is how long what a probe found is told again.
	probeValid = 2 * time.Second
	// maxProbes bounds what is remembered; a full memory forgets what is too old to be told, and then everything.
	maxProbes = 10_000
)

// prober probes agents, each at most once in probeValid however many ask.
type prober struct {
	gateway provisioning.AgentProber

	mu     sync.Mutex
	recent map[string]*probe
}

// probe is one probe. Its fields may be read when done is closed.
type probe struct {
	done    chan struct{}
	began   time.Time
	at      time.Time
	status  int
	latency float64 // milliseconds
	reason  Reason
}

func (p *prober) probe(ctx context.Context, a agent.Agent) *probe {
	now := time.Now()
	p.mu.Lock()
	found, ok := p.recent[a.ID]
	if !ok || now.Sub(found.began) >= probeValid {
		found = &probe{done: make(chan struct{}), began: now}
		p.remember(a.ID, found)
		go found.run(context.WithoutCancel(ctx), p.gateway, a) // the gateway bounds it; others may wait for the same
	}
	p.mu.Unlock()
	<-found.done
	return found
}

func (p *prober) remember(id string, fresh *probe) {
	if len(p.recent) >= maxProbes {
		for known, old := range p.recent {
			if fresh.began.Sub(old.began) >= probeValid {
				delete(p.recent, known)
			}
		}
		if len(p.recent) >= maxProbes {
			clear(p.recent)
		}
	}
	p.recent[id] = fresh
}

func (p *probe) run(ctx context.Context, gateway provisioning.AgentProber, a agent.Agent) {
	p.reason = reasonConnect
	defer func() {
		if v := recover(); v != nil { // nobody else would catch it here
			slog.ErrorContext(ctx, "a probe panicked", "agent_id", a.ID, "panic", fmt.Sprintf("%T", v))
		}
		close(p.done)
	}()
	err := gateway.Probe(ctx, a)
	p.at = time.Now().UTC()
	p.latency = float64(time.Since(p.began).Microseconds()) / 1000
	if err == nil {
		p.reason, p.status = reasonOK, http.StatusOK
		return
	}
	meta := fault.From(err).Meta
	if reason, ok := meta["reason"].(string); ok {
		p.reason = Reason(reason)
	}
	p.status, _ = meta["http_status"].(int)
}
