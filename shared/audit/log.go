package audit

import (
	"context"
	"time"

	"agents.example/controlplane/shared/page"
)

// Log is the audit log as routes and what serves them see it. Changes write their own entry, in the same commit: see
// Trail.
type Log interface {
	// Append writes the entry of a call that committed none. It fills in CreatedAt where it is zero, and ExpiresAt by
	// the plan of the organization. An entry with the id that exists already is left as it is, and that is a success.
	// Errors: Unavailable.
	Append(ctx context.Context, e Entry) error
	// List reads a page of the entries of the caller's organization, newest first. Errors: BadRequest for a bad cursor,
	// Unavailable.
	List(ctx context.Context, f Filter, p page.Request) (page.Page[Entry], error)
	// Each visits the entries that List pages through, and holds a page of them at a time. It ends with the first error
	// of visit. Further errors: Unavailable.
	Each(ctx context.Context, f Filter, visit func(Entry) error) error
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	// From is the first moment, and To the moment after the last, so that windows that follow each other have every
	// entry once.
	From time.Time
	To   time.Time

	ActorID  string
	Action   string
	TargetID string
	Outcome  string
}
