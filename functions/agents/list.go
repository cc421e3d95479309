package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

type listInput struct {
	Query struct {
		page.Query
		Status agent.Status `json:"status,omitempty" jsonschema:"Only agents with this status."`
		Plan   plan.ID      `json:"resource_plan,omitempty" jsonschema:"Only agents on this plan."`
		Region page.Term    `json:"region,omitempty" jsonschema:"Only agents in this region."`
		Name   page.Term    `json:"name,omitempty" jsonschema:"Only agents with exactly this name."`
		// Image and Version are those of the agents' records, and not what their pods run at the moment.
		Image   page.Term `json:"image,omitempty" jsonschema:"Only agents with this image, by its id."`
		Version page.Term `json:"version,omitempty" jsonschema:"Only agents with this version of their image."`
	} `json:"query"`
}

// self is the address of this page, the base of the link to the next one.
func (in listInput) self() *url.URL {
	q := in.Query.Values()
	for name, value := range map[string]string{
		"status": string(in.Query.Status), "resource_plan": string(in.Query.Plan), "region": string(in.Query.Region),
		"name": string(in.Query.Name), "image": string(in.Query.Image), "version": string(in.Query.Version),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return &url.URL{Path: "/api/v1/agents", RawQuery: q.Encode()}
}

// listed is a page of agents with its entity tag.
type listed struct {
	page.Page[agent.View]
	entityTag string
}

// Reply implements function.Reply.
func (l listed) Reply(h http.Header) any {
	h.Set("ETag", l.entityTag)
	return l.Page.Reply(h)
}

// Example implements function.Exampler.
func (l listed) Example() any {
	example, _ := l.Page.Example().(page.Page[agent.View])
	return listed{Page: example, entityTag: entityTagOf(page.Page[agent.View]{}, false)}
}

// entityTagOf returns the entity tag of a page. It is weak, because it covers the entity tags of the agents instead of
// the bytes of the body. It covers what the caller may see, because a member becomes an admin without a change of an
// agent.
func entityTagOf(found page.Page[agent.View], admin bool) string {
	hash := sha256.New()
	_, _ = fmt.Fprintf(hash, "%t %q", admin, found.Next) // a hash takes every write
	for _, v := range found.Items {
		_, _ = fmt.Fprintf(hash, " %s %s", v.ID, v.EntityTag())
	}
	return `W/"` + hex.EncodeToString(hash.Sum(nil)[:12]) + `"`
}

// List reads a page of the organization's agents, newest first.
func List(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "ListAgents", Method: http.MethodGet, Path: "/api/v1/agents",
		Access: function.Member, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List agents", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listInput) (listed, error) {
			q := in.Query
			filter := agent.Filter{
				Status: q.Status, Plan: string(q.Plan), Region: string(q.Region),
				Name: string(q.Name), Image: string(q.Image), Version: string(q.Version),
			}
			found, err := agents.List(ctx, filter, q.Request())
			if err != nil {
				return listed{}, err
			}
			found.Self = in.self()
			caller := call.From(ctx).Caller
			shown := page.Map(found, d.For(ctx, caller))
			return listed{Page: shown, entityTag: entityTagOf(shown, caller.Admin())}, nil
		}),
	}
}
