package agents

import (
	"context"
	"net/http"
	"net/url"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

type listInput struct {
	Query struct {
		page.Query
		Status agent.Status `json:"status,omitempty"`
		Plan   plan.ID      `json:"resource_plan,omitempty"`
		Region page.Term    `json:"region,omitempty"`
		Name   page.Term    `json:"name,omitempty" jsonschema:"Only agents with exactly this name."`
	} `json:"query"`
}

// self is the address of this page, the base of the link to the next one.
func (in listInput) self() *url.URL {
	q := in.Query.Values()
	for name, value := range map[string]string{
		"status": string(in.Query.Status), "resource_plan": string(in.Query.Plan), "region": string(in.Query.Region),
		"name": string(in.Query.Name),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return &url.URL{Path: "/api/v1/agents", RawQuery: q.Encode()}
}

// List reads a page of the organization's agents, newest first.
func List(agents agent.Store, d agent.Addresses) function.Route {
	return function.Route{
		Name: "ListAgents", Method: http.MethodGet, Path: "/api/v1/agents",
		Access: function.Member, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List agents", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listInput) (page.Page[agent.View], error) {
			q := in.Query
			filter := agent.Filter{
				Status: q.Status, Plan: string(q.Plan), Region: string(q.Region),
				Name: string(q.Name),
			}
			found, err := agents.List(ctx, filter, q.Request())
			found.Self = in.self()
			return page.Map(found, func(a agent.Agent) agent.View { return show(ctx, a, d) }), err
		}),
	}
}
