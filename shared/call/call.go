// Package call represents one call of the control plane: who makes it, and all else that it carries to its commits. A
// context holds one Call, so whatever a store learns from its context stands in one value.
package call

import (
	"context"
	"io"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/rehearsal"
)

// Call is a request of a client, a command of an operator, or work of the control plane itself. The server fills it in
// while a request passes the steps before its handler. From then on, only Entry, Attempt, Rehearsal, Fetched, Body and
// Answer change, by their methods.
type Call struct {
	// Caller is the zero value until the caller is known.
	Caller  identity.Caller
	Request audit.Request
	// Token is the bearer token of a route that passes it on instead of having its caller identified; otherwise empty.
	Token string
	// Entry is the pending audit entry of the call; nil if the call is not audited as a whole.
	Entry *audit.CallEntry
	// Attempt is nil for a call without an Idempotency-Key.
	Attempt *idempotency.Attempt
	// Rehearsal records what the call would change; nil for a real call.
	Rehearsal *rehearsal.Rehearsal
	// Fetched is the document that was read together with the caller's API key; nil for none.
	Fetched *document.Fetched
	// Body is the body of a request that is read while it arrives; nil for other calls.
	Body *Body
	// Answer waits for what the call has begun; nil for a call without an answer.
	Answer *Answer
}

// Body is the body of a request, which is read while it arrives.
type Body struct {
	io.ReadCloser
	// MediaType is that of the client, without parameters; empty if it sent none.
	MediaType string
	// Length is in bytes; negative if the client does not say.
	Length int64
}

type contextKey struct{}

// With returns a context of the call c.
func With(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the call of a context; an empty one if the context has none.
func From(ctx context.Context) *Call {
	if c, ok := ctx.Value(contextKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// Derive returns a context of a copy of the call that edit has changed.
func Derive(ctx context.Context, edit func(*Call)) context.Context {
	c := *From(ctx)
	edit(&c)
	return With(ctx, &c)
}

// WithRequest returns a context of the same call with other facts about it, which are made printable.
func WithRequest(ctx context.Context, r audit.Request) context.Context {
	return Derive(ctx, func(c *Call) { c.Request = r.Printable() })
}

// BeginEntry writes the audit entry of the call before the call does what no commit writes together with its entry, so
// that nothing is done without one. The server completes the entry at the end of the call. If the process dies, the
// entry keeps the outcome begun. Errors: Unavailable.
func (c *Call) BeginEntry(ctx context.Context, log audit.Log, changes ...audit.Change) error {
	if c.Entry == nil {
		return nil
	}
	err := log.Append(ctx, audit.Entry{
		ID: c.Entry.ID(), OrganizationID: c.Caller.OrganizationID, Actor: c.Caller, Action: c.Request.Action,
		Target: c.Entry.Target(), Outcome: audit.Begun, Request: c.Request,
		Changes: append(c.Entry.Facts(), changes...),
	})
	if err != nil {
		return err
	}
	c.Entry.Begin()
	c.Entry.Claim()
	c.Entry.MarkWritten()
	return nil
}

// AsSystem returns a context of the same call, made by a part of the control plane.
func AsSystem(ctx context.Context, part, organizationID string) context.Context {
	return As(ctx, identity.Caller{
		Type: identity.System, ID: part, OrganizationID: organizationID, Role: identity.RoleAdmin,
	})
}

// As returns a context of the same call, made by another caller.
func As(ctx context.Context, caller identity.Caller) context.Context {
	return Derive(ctx, func(c *Call) { c.Caller = caller })
}
