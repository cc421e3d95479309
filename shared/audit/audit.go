// Package audit knows the audit log: what an entry holds, where its facts come from, and that a call has one entry. It
// does not know how entries are stored, nor who may read them.
package audit

import (
	"context"
	"strings"
	"time"

	"agents.example/controlplane/shared/identity"
)

// Entry records one mutating call, or one that was refused.
type Entry struct {
	// ID was chosen for the call, so that nothing writes a second entry of it.
	ID             string
	OrganizationID string
	CreatedAt      time.Time
	// ExpiresAt is when the entry's retention ends. From then on it is not shown, whether it has been deleted yet or
	// not.
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

// Target is what was acted on, as far as it is known: a call that was refused early may have named nothing that exists.
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

// With returns a context that carries the call's facts. What a client wrote is made legible, because a store may refuse
// bytes that are no UTF-8, and an entry without end.
func With(ctx context.Context, r Request) context.Context {
	r.IP, r.UserAgent = printable(r.IP), printable(r.UserAgent)
	return context.WithValue(ctx, requestKey{}, r)
}

// maxText is how many bytes of a header are kept: more than any browser sends.
const maxText = 512

func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// From returns the call's facts in ctx.
func From(ctx context.Context) Request {
	r, _ := ctx.Value(requestKey{}).(Request)
	return r
}

// Succeeded is the outcome of a call that did what it was asked to.
const Succeeded = "succeeded"
