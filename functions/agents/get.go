package agents

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/parallel"
	"agents.example/controlplane/shared/ratelimit"
)

// maxWait is the longest wait for a steady status, in seconds. It is below the minute after which load balancers end a
// call.
const maxWait = 55

// retryWait is when a client should ask again for a wait that found no free slot, in seconds.
const retryWait = 5

// seconds is a wait of at most maxWait. Longer waits are cut.
type seconds int

// JSONSchema implements function.Schemer.
func (seconds) JSONSchema() *jsonschema.Schema {
	least := 0.0
	return &jsonschema.Schema{
		Type: "integer", Minimum: &least, Default: []byte("0"),
		Description: "Wait at most this many seconds until the status is running, paused, stopped or error. " +
			"Values above 55 count as 55. The answer comes immediately, with Retry-After, if too many answers wait " +
			"already.",
	}
}

// UnmarshalJSON implements json.Unmarshaler. It accepts numbers of any size.
func (s *seconds) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		n, err = maxWait, nil
	}
	*s = seconds(min(n, maxWait))
	return err
}

type getInput struct {
	path
	Query struct {
		Wait seconds `json:"wait,omitempty"`
	} `json:"query"`
}

// answer is an agent that a client has waited for. It holds a pointer, because copies would be most of the stack of
// each goroutine that waits.
type answer struct {
	view *agent.View // nil in the zero value, which the API's description renders
	// early means that no slot was free to wait in, so the agent may not be steady yet.
	early bool
}

// Reply implements function.Reply.
func (a answer) Reply(h http.Header) any {
	if a.early {
		h.Set("Retry-After", strconv.Itoa(retryWait))
	}
	if a.view == nil {
		return agent.View{}.Reply(h)
	}
	return a.view.Reply(h)
}

// Example implements function.Exampler. Its headers are those of an early answer.
func (answer) Example() any {
	v, _ := agent.View{}.Example().(agent.View)
	return answer{view: &v, early: true}
}

// Get reads one agent, immediately or as soon as its status is steady. A wait holds one of the slots. An admin's
// session also gets a link that opens the dashboard.
func Get(agents agent.Store, links *handoff.Signer, d agent.Display, slots *ratelimit.Slots) function.Route {
	return function.Route{
		Name: "GetAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}",
		Access: function.Member, Needs: []function.Need{function.Firestore, function.HandoffSign}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get an agent",
		Handle: function.Handle(func(ctx context.Context, in getInput) (answer, error) {
			a, early, err := get(ctx, agents, slots, in)
			if err != nil {
				return answer{}, err
			}
			v, err := showWithLink(ctx, a, links, d)
			return answer{view: v, early: early}, err
		}),
	}
}

func showWithLink(ctx context.Context, a *agent.Agent, links *handoff.Signer, d agent.Display) (*agent.View, error) {
	v := show(ctx, *a, d)
	var err error
	v.DashboardHandoff, err = links.Link(*a, call.From(ctx).Caller, d.Addresses, time.Now())
	return &v, err
}

// get reads the agent, and waits for it if a slot is free. A wait ends early, with the present agent, when the process
// shuts down. early is true if no slot was free.
func get(ctx context.Context, agents agent.Store, slots *ratelimit.Slots, in getInput) (
	_ *agent.Agent, early bool, err error,
) {
	if in.Query.Wait == 0 {
		a, err := read(ctx, agents, in)
		return a, false, err
	}
	a, err := parallel.Apart(func() (*agent.Agent, error) { return read(ctx, agents, in) })
	if err != nil || a.Status.IsSteady() {
		return a, false, err
	}
	caller := call.From(ctx).Caller
	release, ok := slots.Acquire(caller.OrganizationID, caller.Key())
	if !ok {
		return a, true, nil
	}
	defer release()
	wait, cancel := context.WithTimeout(ctx, time.Duration(in.Query.Wait)*time.Second)
	defer cancel()
	wait, stop := function.UntilShutdown(wait)
	defer stop()
	a, err = agents.Await(wait, in.id(), func(a agent.Agent) bool { return a.Status.IsSteady() })
	return a, false, err
}

// read reads the agent. It is separate so that its copy of the agent is not on the stack of a wait.
//
//go:noinline
func read(ctx context.Context, agents agent.Store, in getInput) (*agent.Agent, error) {
	a, err := agents.Get(ctx, in.id())
	return &a, err
}
