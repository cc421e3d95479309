package function

import (
	"context"
	"encoding/json"
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

	show func(context.Context, *rehearsal.Rehearsal, identity.Caller) (any, error)
}

// Rehearse makes a Rehearsal. show renders what a call recorded, for its caller.
func Rehearse[Out any](
	show func(context.Context, *rehearsal.Rehearsal, identity.Caller) (Out, error),
) *Rehearsal {
	return &Rehearsal{
		Output: reflect.TypeFor[Out](),
		show: func(ctx context.Context, recorded *rehearsal.Rehearsal, caller identity.Caller) (any, error) {
			return show(ctx, recorded, caller)
		},
	}
}

// rehearsed reports whether a request asks for a rehearsal. It reads the parameter exactly as validation does: a value
// that it does not understand is refused, and never taken for a real call.
func (r *Route) rehearsed(req *http.Request) bool {
	if r.Rehearsal == nil {
		return false
	}
	text, _ := lastValue(req.URL.Query())(DryRun)
	on, _ := parseBool(text)
	return on
}

// dryRunViolations returns the violations of what a request says about dry_run. A flag that means "change nothing" must
// never be overlooked: not in another spelling, not twice, not in the body, not where there is no rehearsal, and not in
// a pair that the parser of queries drops, such as dry_run=true;a=b.
func (r *Route) dryRunViolations(req *http.Request, body any) []Violation {
	if !r.Mutates() {
		return nil
	}
	var found []Violation
	refuse := func(part, typ, msg string) {
		found = append(found, Violation{Loc: []any{part, DryRun}, Type: typ, Msg: msg})
	}
	text, _ := lastValue(req.URL.Query())(DryRun)
	_, ok := parseBool(text)
	switch names := dryRunNames(req.URL.RawQuery); {
	case len(names) == 0:
	case r.Rehearsal == nil:
		refuse("query", "extra_forbidden", "Extra inputs are not permitted: this operation has no rehearsal")
	case len(names) > 1:
		refuse("query", "value_error", "Value error, send "+DryRun+" once")
	case names[0] != DryRun:
		refuse("query", "extra_forbidden", "Extra inputs are not permitted: the parameter is called "+DryRun)
	case !ok:
		typ, msg := wrongType([]string{"boolean"}, text)
		refuse("query", typ, msg)
	}
	object, _ := body.(map[string]any)
	for name := range object {
		if resemblesDryRun(name) {
			refuse("body", "extra_forbidden", "Extra inputs are not permitted: "+DryRun+" is a parameter of the query")
			break
		}
	}
	return found
}

// maxEscapes is how often a client may have escaped a name.
const maxEscapes = 3

// dryRunNames lists the parameters of a query that are called dry_run, or something that a person may write for it.
// Queries that programs put together may have a second question mark, or names and signs that are escaped too often.
func dryRunNames(query string) (names []string) {
	if !strings.ContainsAny(query, "dD%") { // most queries
		return nil
	}
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' || c == '?' }) {
		name, _, _ := strings.Cut(pair, "=")
		for range maxEscapes {
			if plain, err := url.QueryUnescape(name); err == nil {
				name, _, _ = strings.Cut(plain, "=")
			}
		}
		if resemblesDryRun(name) {
			names = append(names, name)
		}
	}
	return names
}

// resemblesDryRun reports whether a name has the letters of dry_run.
func resemblesDryRun(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, name) == "dryrun"
}

// otherBody returns the body of a change that takes none, if it is JSON. It only shows whether the client means a
// rehearsal: some APIs take such flags in the body, also of a deletion. Errors: those of readBody.
func (r *Route) otherBody(w http.ResponseWriter, req *http.Request) (any, error) {
	if !r.Mutates() {
		return nil, nil
	}
	text, err := r.readBody(w, req)
	if err != nil {
		return nil, err
	}
	var body any
	_ = json.Unmarshal(text, &body) // other bodies are ignored
	return body, nil
}

// rehearse runs the handler of a route without its effects, and shows what it would have changed.
func (r *Route) rehearse(ctx context.Context, input []byte) (any, error) {
	c := call.From(ctx)
	c.Rehearsal = &rehearsal.Rehearsal{}
	if _, err := r.Handle.call(ctx, input); err != nil {
		return nil, err
	}
	return r.Rehearsal.show(ctx, c.Rehearsal, c.Caller)
}
