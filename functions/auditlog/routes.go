// Package auditlog has the routes that read an organization's audit log. It does not write entries; package function
// and the stores do.
package auditlog

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// moment is a time in a query.
type moment struct{ time.Time }

// JSONSchema implements function.Schemer.
func (moment) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date-time"}
}

// UnmarshalJSON implements json.Unmarshaler. A time that the store cannot keep, such as one whose offset leads into the
// year 0, becomes the first or the last that it can.
func (m *moment) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	t, err := function.ParseTime(text)
	if err != nil {
		return err
	}
	first, last := time.Time{}.Add(time.Microsecond), time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	switch {
	case t.Before(first):
		t = first
	case t.After(last):
		t = last
	}
	m.Time = t
	return nil
}

// filter has the query parameters that narrow the log.
type filter struct {
	From     moment    `json:"from,omitzero" jsonschema:"The earliest time, inclusive."`
	To       moment    `json:"to,omitzero" jsonschema:"The latest time, exclusive."`
	ActorID  page.Term `json:"actor_id,omitempty" jsonschema:"The id of the user or API key that made the call."`
	Action   page.Term `json:"action,omitempty" jsonschema:"The operation id, such as StopAgent."`
	TargetID page.Term `json:"target_id,omitempty" jsonschema:"The id of the object of the call."`
	Outcome  page.Term `json:"outcome,omitempty" jsonschema:"Either succeeded or an error code."`
}

func (f filter) audit() audit.Filter {
	return audit.Filter{
		From: f.From.Time, To: f.To.Time, ActorID: string(f.ActorID), Action: string(f.Action),
		TargetID: string(f.TargetID),
		Outcome:  string(f.Outcome),
	}
}

// add adds the filter to a query.
func (f filter) add(q url.Values) {
	for name, value := range map[string]page.Term{
		"actor_id": f.ActorID, "action": f.Action, "target_id": f.TargetID,
		"outcome": f.Outcome,
	} {
		if value != "" {
			q.Set(name, string(value))
		}
	}
	for name, value := range map[string]time.Time{"from": f.From.Time, "to": f.To.Time} {
		if !value.IsZero() {
			q.Set(name, value.UTC().Format(time.RFC3339Nano))
		}
	}
}

const path = "/api/v1/organizations/current/audit-log"

type listInput struct {
	Query struct {
		page.Query
		filter
	} `json:"query"`
}

// self is the address of this page, the base of the link to the next one.
func (in listInput) self() *url.URL {
	q := in.Query.Values()
	in.Query.add(q)
	return &url.URL{Path: path, RawQuery: q.Encode()}
}

// List reads a page of the organization's audit log, newest first.
func List(log audit.Log) function.Route {
	return function.Route{
		Name: "ListAuditLog", Method: http.MethodGet, Path: path,
		Access: function.Admin, Feature: plan.AuditLog, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List audit log entries (Enterprise plan)",
		Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in listInput) (page.Page[audit.View], error) {
			found, err := log.List(ctx, in.Query.audit(), in.Query.Request())
			found.Self = in.self()
			return page.Map(found, audit.Entry.Show), err
		}),
	}
}

type exportInput struct {
	Query filter `json:"query"`
}

// Export is the audit log as lines of JSON.
type Export struct {
	each func(visit func(audit.Entry) error) error
}

// Reply implements function.Reply.
func (e Export) Reply(http.Header) any {
	return function.Raw{ContentType: "application/x-ndjson", Item: audit.View{}, Stream: func(w io.Writer) error {
		line := json.NewEncoder(w)
		line.SetEscapeHTML(false)
		return e.each(func(entry audit.Entry) error { return line.Encode(entry.Show()) })
	}}
}

// maxExport bounds an answer that reads the whole log. How long it takes depends on the log and on the client.
const maxExport = 10 * time.Minute

// ExportAll streams every entry that matches a filter, newest first, one a line. An answer holds one of the slots.
func ExportAll(log audit.Log, slots *ratelimit.Slots) function.Route {
	return function.Route{
		Name: "ExportAuditLog", Method: http.MethodGet, Path: path + "/export",
		Access: function.Admin, Feature: plan.AuditLog, Needs: []function.Need{function.Firestore},
		Holds:  maxExport,
		Status: http.StatusOK, Summary: "Export the audit log as JSON lines (Enterprise plan)",
		Handle: function.Handle(func(ctx context.Context, in exportInput) (Export, error) {
			_, err := function.HoldSlot(ctx, slots)
			return Export{func(visit func(audit.Entry) error) error {
				ctx, cancel := context.WithTimeout(ctx, maxExport)
				defer cancel()
				return log.Each(ctx, in.Query.audit(), visit)
			}}, err
		}),
	}
}
