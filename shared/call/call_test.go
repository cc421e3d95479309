package call_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
)

func TestFrom_ReturnsTheCallOrAnEmptyOne(t *testing.T) {
	t.Parallel()
	if got := call.From(t.Context()); *got != (call.Call{}) {
		t.Errorf("the call of a context without one = %+v, want an empty one", got)
	}
	c := &call.Call{Token: "t"}
	if got := call.From(call.With(t.Context(), c)); got != c {
		t.Errorf("From = %p, want the call of the context, %p", got, c)
	}
}

// TestDerive_LeavesTheOuterCallAsItIs derives calls that keep what they do not replace.
func TestDerive_LeavesTheOuterCallAsItIs(t *testing.T) {
	t.Parallel()
	entry := audit.NewCallEntry()
	outer := call.Call{Caller: identity.Caller{ID: "ada"}, Request: audit.Request{Action: "A"}, Entry: entry}
	given := outer
	ctx := call.With(t.Context(), &given)
	system, other := identity.Caller{ID: "system"}, audit.Request{Action: "B"}
	if got, want := *call.From(call.As(ctx, system)), (call.Call{
		Caller: system, Request: outer.Request, Entry: entry,
	}); got != want {
		t.Errorf("As = %+v, want %+v", got, want)
	}
	if got, want := *call.From(call.WithRequest(ctx, other)), (call.Call{
		Caller: outer.Caller, Request: other, Entry: entry,
	}); got != want {
		t.Errorf("WithRequest = %+v, want %+v", got, want)
	}
	if given != outer {
		t.Errorf("the outer call became %+v, want %+v", given, outer)
	}
}

// TestWithRequest_BoundsTheFacts gives what an operator may write as a note.
func TestWithRequest_BoundsTheFacts(t *testing.T) {
	t.Parallel()
	r := audit.Request{UserAgent: "operator (" + strings.Repeat("x", 5000) + "\xff)"}
	if got := call.From(call.WithRequest(t.Context(), r)).Request; got != r.Printable() {
		t.Errorf("the facts have %d bytes, want those of Printable", len(got.UserAgent))
	}
}
