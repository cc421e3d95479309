package function

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/rehearsal"
)

// DryRun is the query parameter that makes a call a rehearsal.
const DryRun = "dry_run"

// Rehearsal shows what a call would do without doing it. A rehearsed call passes the same steps as the real one, except
// that it has no audit entry. Its success has the status 200.
type Rehearsal struct {
	// Output is the type of the answer.
	Output reflect.Type

	show func(*rehearsal.Rehearsal, identity.Caller) (any, error)
}

// Rehearse makes a Rehearsal. show renders what a call recorded, for its caller.
func Rehearse[Out any](show func(*rehearsal.Rehearsal, identity.Caller) (Out, error)) *Rehearsal {
	return &Rehearsal{
		Output: reflect.TypeFor[Out](),
		show: func(recorded *rehearsal.Rehearsal, caller identity.Caller) (any, error) {
			return show(recorded, caller)
		},
	}
}

// rehearsed reports whether a request asks for a rehearsal. It reads the parameter exactly as validation does: a value
// that it does not understand is refused, and never taken for a real call.
func (r Route) rehearsed(req *http.Request) bool {
	if r.Rehearsal == nil {
		return false
	}
	text, _ := queryValue(req)(DryRun)
	on, _ := parseBool(text)
	return on
}

// dryRunViolations returns the violation of a parameter dry_run that is not a boolean. The parser of queries drops what
// it cannot decode, such as dry_run=true;a=b, which must not become a real call.
func (r Route) dryRunViolations(req *http.Request) []Violation {
	text, present := queryValue(req)(DryRun)
	if _, err := url.ParseQuery(req.URL.RawQuery); err != nil {
		present = present || strings.Contains(req.URL.RawQuery, DryRun)
	}
	if _, ok := parseBool(text); r.Rehearsal == nil || !present || ok {
		return nil
	}
	loc := []any{"query", DryRun}
	typ, msg := wrongType([]string{"boolean"}, loc, text)
	return []Violation{{Loc: loc, Type: typ, Msg: msg}}
}

// rehearse runs the handler of a route without its effects, and shows what it would have changed.
func (r Route) rehearse(ctx context.Context, input []byte) (any, error) {
	c := call.From(ctx)
	c.Rehearsal = &rehearsal.Rehearsal{}
	if _, err := r.Handle.call(ctx, input); err != nil {
		return nil, err
	}
	return r.Rehearsal.show(c.Rehearsal, c.Caller)
}
