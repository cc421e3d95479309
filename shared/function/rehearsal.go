package function

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"unicode"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/rehearsal"
)

// DryRun is the query parameter that makes a call a rehearsal.
const DryRun = "dry_run"

// Rehearsal shows what a call would do without doing it. A rehearsed call passes the same steps as the real one, except
// that it has no audit entry unless it is forbidden. Its success has the status 200.
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

// dryRunViolations returns the violations of what a request says about dry_run. A flag that means "change nothing" must
// never be overlooked: not in another spelling, not twice, not where there is no rehearsal, and not in a pair that the
// parser of queries drops, such as dry_run=true;a=b.
func (r Route) dryRunViolations(req *http.Request) []Violation {
	if !r.Mutates() {
		return nil
	}
	names := dryRunNames(req.URL.RawQuery)
	if len(names) == 0 {
		return nil
	}
	text, _ := queryValue(req)(DryRun)
	_, ok := parseBool(text)
	loc := []any{"query", DryRun}
	refuse := func(typ, msg string) []Violation { return []Violation{{Loc: loc, Type: typ, Msg: msg}} }
	switch {
	case r.Rehearsal == nil:
		return refuse("extra_forbidden", "Extra inputs are not permitted: this operation has no rehearsal")
	case len(names) > 1:
		return refuse("value_error", "Value error, send "+DryRun+" once")
	case names[0] != DryRun:
		return refuse("extra_forbidden", "Extra inputs are not permitted: the parameter is called "+DryRun)
	case !ok:
		return refuse(wrongType([]string{"boolean"}, loc, text))
	default:
		return nil
	}
}

// dryRunNames lists the parameters of a query that are called dry_run, or something that a person may write for it.
func dryRunNames(query string) (names []string) {
	if !strings.ContainsAny(query, "dD%") { // most queries
		return nil
	}
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		letters := strings.Map(func(c rune) rune {
			if unicode.IsLetter(c) {
				return unicode.ToLower(c)
			}
			return -1
		}, name)
		if letters == "dryrun" {
			names = append(names, name)
		}
	}
	return names
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
