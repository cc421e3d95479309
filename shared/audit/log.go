package audit

import (
	"context"
	"time"

	"agents.example/controlplane/shared/page"
)

// Log is the audit log as routes and their server use it. A committed change writes its own entry in the same commit;
// see CallEntry.
type Log interface {
	// Append writes the entry of a call that committed none. It sets CreatedAt if it is zero, and ExpiresAt by the
	// organization's plan. If an entry with the id exists, Append keeps it and succeeds, but replaces the outcome
	// Begun. Errors: Unavailable.
	Append(ctx context.Context, e Entry) error
	// Finish replaces the outcome of an entry that exists, and its changes if there are any. Errors: Unavailable.
	Finish(ctx context.Context, id, outcome string, changes ...Change) error
	// Outcome reads the outcome of an entry; empty if there is none. Errors: Unavailable.
	Outcome(ctx context.Context, id string) (string, error)
	// List reads a page of the caller's organization's entries, newest first. Errors: BadRequest for a bad cursor,
	// Unavailable.
	List(ctx context.Context, f Filter, p page.Request) (page.Page[Entry], error)
	// Each visits the entries that List pages through, and holds one page in memory. It stops at the first error of
	// visit and returns it. Other errors: Unavailable.
	Each(ctx context.Context, f Filter, visit func(Entry) error) error
}

// Filter selects entries. An empty field selects all.
type Filter struct {
	// From is inclusive and To is exclusive, so that adjacent windows list every entry once.
	From time.Time
	To   time.Time

	ActorID  string
	Action   string
	TargetID string
	Outcome  string
}
