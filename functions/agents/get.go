package agents

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
	"agents.example/controlplane/shared/identity"
)

// maxWait is the longest wait for a steady status, in seconds. It is below the minute after which load balancers end a
// call.
const maxWait = 55

// seconds is a wait of at most maxWait. Longer waits are cut.
type seconds int

// JSONSchema implements function.Schemer.
func (seconds) JSONSchema() *jsonschema.Schema {
	least := 0.0
	return &jsonschema.Schema{
		Type: "integer", Minimum: &least, Default: []byte("0"),
		Description: "Wait at most this many seconds until the status is running, paused, stopped or error. " +
			"Values above 55 count as 55.",
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

// Get reads one agent, immediately or as soon as its status is steady. An admin's session also gets a link that opens
// the dashboard.
func Get(agents agent.Store, links *handoff.Signer, d agent.Addresses) function.Route {
	return function.Route{
		Name: "GetAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}",
		Access: function.Member, Needs: []function.Need{function.Firestore, function.HandoffSign}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get an agent",
		Handle: function.Handle(func(ctx context.Context, in getInput) (agent.View, error) {
			a, err := get(ctx, agents, in)
			if err != nil {
				return agent.View{}, err
			}
			v := show(ctx, a, d)
			v.DashboardHandoff, err = links.Link(a, identity.From(ctx), d, time.Now())
			return v, err
		}),
	}
}

func get(ctx context.Context, agents agent.Store, in getInput) (agent.Agent, error) {
	a, err := agents.Get(ctx, in.id())
	if err != nil || in.Query.Wait == 0 || a.Status.IsSteady() {
		return a, err
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(in.Query.Wait)*time.Second)
	defer cancel()
	return agents.Await(wait, in.id(), func(a agent.Agent) bool { return a.Status.IsSteady() })
}
