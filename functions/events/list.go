// Package events has the routes that read an organization's events, in pages and as a stream. It does not write events;
// the stores do, in the commit of each change.
package events

import (
	"context"
	"net/http"
	"net/url"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// filter has the query parameters that narrow the events.
type filter struct {
	AgentID function.UUID `json:"agent_id,omitempty" jsonschema:"Only events about this agent, which may be deleted."`
	Type    event.Type    `json:"type,omitempty" jsonschema:"Only events of this type."`
}

// event returns the filter for a caller.
func (f filter) event(caller identity.Caller) event.Filter {
	return event.Filter{AgentID: string(f.AgentID), Type: f.Type, MembersOnly: !caller.Admin()}
}

type listInput struct {
	Query struct {
		Limit  page.Limit `json:"limit,omitempty"`
		Cursor string     `json:"cursor,omitempty" jsonschema:"The id of the last event that the client has, or the X-Event-Cursor of a former answer. Without it, the newest events are returned."`
		filter
	} `json:"query"`
}

// self is the address of this page, the base of the link to the next one.
func (in listInput) self() *url.URL {
	q := page.Query{Limit: in.Query.Limit}.Values()
	for name, value := range map[string]string{
		"agent_id": string(in.Query.AgentID), "type": string(in.Query.Type),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return &url.URL{Path: path, RawQuery: q.Encode()}
}

const path = "/api/v1/events"

// listed is a page of events, and the cursor after it.
type listed struct {
	page.Page[event.View]
	cursor event.ID
}

// Reply implements function.Reply. A client that polls continues after the header X-Event-Cursor, which is also set if
// there are no events. The headers of other lists say whether there are more events already.
func (l listed) Reply(h http.Header) any {
	h.Set("X-Event-Cursor", string(l.cursor))
	return l.Page.Reply(h)
}

// Example implements function.Exampler.
func (l listed) Example() any {
	example, _ := l.Page.Example().(page.Page[event.View])
	example.Next = string(example.Items[0].ID)
	return listed{Page: example, cursor: example.Items[0].ID}
}

// List reads the events after a cursor, oldest first, or the newest ones without a cursor.
func List(log event.Log) function.Route {
	return function.Route{
		Name: "ListEvents", Method: http.MethodGet, Path: path,
		Access: function.Member, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor that is not the id of an event, or older than the events that are kept.
		Status: http.StatusOK, Summary: "List events", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listInput) (listed, error) {
			after, err := parseCursor(in.Query.Cursor)
			if err != nil {
				return listed{}, err
			}
			caller := call.From(ctx).Caller
			limit := page.Query{Limit: in.Query.Limit}.Request().Limit
			found, err := log.List(ctx, caller.OrganizationID, in.Query.event(caller), after, limit)
			if err != nil {
				return listed{}, err
			}
			l := listed{Page: page.Page[event.View]{Self: in.self()}, cursor: found.Next}
			for _, e := range found.Events {
				l.Items = append(l.Items, e.Show())
			}
			if found.More {
				l.Next = string(found.Next)
			}
			return l, nil
		}),
	}
}

// parseCursor reads a cursor; none is empty.
func parseCursor(text string) (event.ID, error) {
	if text == "" {
		return "", nil
	}
	return event.ParseID(text)
}
