package agents

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

// sleepSpec is a client's request for a policy of sleep.
type sleepSpec struct {
	AfterSeconds function.Nullable[sleepSeconds] `json:"after_seconds,omitzero" jsonschema:"How many seconds the agent must be idle to fall asleep, 300 to 604800: without a request, an open connection, and work that its program tells of; null: it never sleeps."`
	WakeOn       *[]agent.Waker                  `json:"wake_on,omitempty" jsonschema:"What wakes the agent, in addition to calls that resume it; both by default."`
}

// sleepSeconds is how long an agent is idle before it falls asleep.
type sleepSeconds int64

// JSONSchema implements function.Schemer.
func (sleepSeconds) JSONSchema() *jsonschema.Schema {
	least, most := float64(agent.MinSleepSeconds), float64(agent.MaxSleepSeconds)
	return &jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most}
}

// change returns a policy with the request's fields. An agent that sleeps for the first time is woken by everything.
// One that nothing wakes, as its client chose, stays so.
func (s sleepSpec) change(p agent.SleepPolicy) agent.SleepPolicy {
	slept := p.AfterSeconds > 0
	if s.AfterSeconds.Given {
		p.AfterSeconds = 0
		if s.AfterSeconds.Value != nil {
			p.AfterSeconds = int64(*s.AfterSeconds.Value)
		}
	}
	switch {
	case s.WakeOn != nil:
		p.WakeOn = slices.Compact(slices.Sorted(slices.Values(*s.WakeOn)))
	case p.AfterSeconds > 0 && !slept && p.WakeOn == nil:
		p = agent.SleepAfter(p.AfterSeconds)
	}
	return p
}

type sleepInput struct {
	path
	Header struct {
		IfMatch string `json:"If-Match,omitempty" jsonschema:"The ETag of the version to change. If the agent has another version, the call fails with 412."`
		Door    string `json:"X-Agent-Door,omitempty" jsonschema:"Names the closed door of the agent's front, which sends it. Clients leave it out: then the agent falls asleep even though it is in use."`
	} `json:"header"`
}

// Sleep puts an agent to sleep. The agent's front calls it when the agent is idle.
func Sleep(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "SleepAgent", Method: http.MethodPost, Path: fmt.Sprintf(dataplane.PathSleep, "{agent_id}"),
		Access: function.Admin, OwnKey: true,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Put an agent to sleep", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in sleepInput) (agent.View, error) {
			now := time.Now().UTC()
			a, err := agents.Change(ctx, in.id(), unlessChanged(in.Header.IfMatch,
				func(a *agent.Agent) error { return a.FallAsleep(in.Header.Door, now) }))
			return show(ctx, a, d), err
		}),
	}
}
