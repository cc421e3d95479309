// Package audit knows the audit log: what an entry holds and where its facts come from. It does not know how entries are stored.
package audit

import (
	"context"
	"time"

	"agents.example/controlplane/shared/identity"
)

// Entry records one mutating call, or one that was refused.
type Entry struct {
	ID             string
	OrganizationID string
	CreatedAt      time.Time
	// ExpiresAt is when the entry's retention ends.
	ExpiresAt time.Time
	Actor     identity.Caller
	// Action is the name of the route, such as "StopAgent".
	Action string
	Target Target
	// Outcome is "succeeded" or the code of the error.
	Outcome string
	Request Request
	Changes []Change
}

// Target is what was acted on.
type Target struct {
	Type string // "agent", "api_key", ...
	ID   string
	Name string
}

// Change is one field that became another value. It never holds the value of a secret.
type Change struct {
	Field string
	Old   string
	New   string
}

// Request says which call an entry belongs to.
type Request struct {
	Action    string
	RequestID string
	IP        string
	UserAgent string
}

type requestKey struct{}

// With returns a context that carries the call's facts.
func With(ctx context.Context, r Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// From returns the call's facts in ctx.
func From(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}

// Succeeded is the outcome of a call that did what it was asked to.
const Succeeded = "succeeded"
