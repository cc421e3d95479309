package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/idempotency"
)

// jsonMedia is the media type of bodies.
const jsonMedia = "application/json"

// operation describes a route.
func (d *describer) operation(r function.Route) (*operation, error) {
	tag, err := groupOf(r.Path)
	if err != nil {
		return nil, err
	}
	in, err := d.input(r)
	if err != nil {
		return nil, err
	}
	out, err := d.success(r)
	if err != nil {
		return nil, err
	}
	op := &operation{
		OperationID: r.Name, Summary: r.Summary, Description: explain(r, in), Tags: []string{tag},
		Parameters:  in.parameters,
		RequestBody: in.body, Responses: map[string]any{strconv.Itoa(r.Status): out.response},
	}
	if r.Access == function.Public {
		op.Security = &[]requirement{}
	}
	if r.Deprecated != nil {
		if r.Deprecated.Sunset.Before(r.Deprecated.Since.AddDate(1, 0, 0)) {
			return nil, fmt.Errorf("clients must get twelve months, but the sunset is %s",
				r.Deprecated.Sunset.Format(time.DateOnly))
		}
		op.Deprecated, op.Sunset = true, r.Deprecated.Sunset.UTC().Format(time.DateOnly)
	}
	if out.tagged && !r.Mutates() {
		op.Parameters = append(op.Parameters, d.reference(parameterPrefix, ifNoneMatch))
		op.Responses[strconv.Itoa(http.StatusNotModified)] = d.reference(responsePrefix, notModified)
	}
	if repeatable(r) {
		op.Parameters = append(op.Parameters, d.reference(parameterPrefix, idempotency.Header))
	}
	if r.Rehearsal != nil {
		op.Parameters = append(op.Parameters, d.reference(parameterPrefix, function.DryRun))
		if err := d.addRehearsal(op, r, out); err != nil {
			return nil, err
		}
	}
	if err := d.addOtherSuccesses(op, r); err != nil {
		return nil, err
	}
	for _, k := range kinds(r, in) {
		op.Responses[strconv.Itoa(k.Status())] = d.reference(responsePrefix, responseName(k))
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(op.Responses)), isClientError) {
		op.Responses[anyClientError] = d.reference(responsePrefix, refused)
	}
	return op, nil
}

// addOtherSuccesses describes what a route answers in place of its success.
func (d *describer) addOtherSuccesses(op *operation, r function.Route) (err error) {
	names := commonHeaders()
	names["Cache-Control"] = true
	if r.TakesMessages {
		taken := response{Description: "The message takes no answer."}
		if taken.Headers, err = d.headers(names); err != nil {
			return err
		}
		op.Responses[strconv.Itoa(http.StatusAccepted)] = taken
	}
	if r.Redirects {
		names["Location"] = true
		found := response{Description: "The address of what was asked for."}
		if found.Headers, err = d.headers(names); err != nil {
			return err
		}
		op.Responses[strconv.Itoa(http.StatusFound)] = found
	}
	return nil
}

// anyClientError is the range of the statuses of clients' errors.
const anyClientError = "4XX"

func isClientError(status string) bool { return status[0] == anyClientError[0] }

// explain describes a route's access and limits in words.
func explain(r function.Route, in input) string {
	said := map[function.Access]string{
		function.Admin:  "Requires the role `admin`, of a session or of an API key.",
		function.Member: "Allowed for every member of the organization and for every API key.",
		function.User:   "Allowed for every valid token, even without an active organization.",
		function.Bearer: "Requires a token. Each call that the request carries is checked as if it were sent alone.",
		function.Public: "Requires no token.",
	}[r.Access]
	if r.OwnKey {
		said += " The agent itself may call this, too, with its own API key."
	}
	if r.KeyItself != "" {
		said += " An API key may call this on itself, whatever its role is."
	}
	if in.body != nil {
		limit := r.BodyLimit
		if limit == 0 {
			limit = function.DefaultBodyLimit
		}
		said += fmt.Sprintf(" The body must not exceed %d KiB.", limit>>10)
	}
	if r.Deprecated != nil {
		said += " Deprecated: see " + r.Deprecated.Link + "."
	}
	return said
}

// input describes the parts of a request.
type input struct {
	parameters []any
	body       *requestBody
	// named is true if the path has parameters, so the named resource may not exist.
	named bool
	// refusable is true if a parameter may have an invalid value.
	refusable bool
	// conditional is true if the client may send the version that it intends to change.
	conditional bool
}

// input describes the parts of a route's input.
func (d *describer) input(r function.Route) (input, error) {
	t := r.Handle.Input
	given := map[reflect.Type]*jsonschema.Schema{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		// The parts themselves are inline; their types may be components.
		if err := d.schemas.collectNamed(f.Type, given); err != nil {
			return input{}, err
		}
	}
	whole, err := d.schemas.infer(t, given)
	if err != nil {
		return input{}, err
	}
	var in input
	for _, part := range []string{"path", "query", "header"} {
		s := whole.Properties[part]
		if s == nil {
			continue
		}
		for _, name := range s.PropertyOrder {
			p := parameterOf(part, name, s)
			in.parameters = append(in.parameters, p)
			in.named = in.named || part == "path"
			in.refusable = in.refusable || constrained(p.Schema)
			in.conditional = in.conditional || name == "If-Match"
		}
	}
	if err := checkPath(r.Path, whole.Properties["path"]); err != nil {
		return input{}, err
	}
	if s := whole.Properties["body"]; s != nil {
		in.body, err = d.requestBody(r, s, slices.Contains(whole.Required, "body"))
	}
	return in, err
}

func parameterOf(part, name string, s *jsonschema.Schema) parameter {
	schema := *s.Properties[name]
	p := parameter{
		Name: name, In: part, Description: schema.Description, Required: part == "path" ||
			slices.Contains(s.Required, name), Schema: &schema,
	}
	schema.Description = ""
	return p
}

// constrained reports whether some values of a parameter are invalid: a plain string accepts everything.
func constrained(s *jsonschema.Schema) bool {
	return s.Type != "string" || s.Format != "" || s.Pattern != "" || s.MinLength != nil || s.MaxLength != nil ||
		s.Enum != nil
}

// plainPath returns a path as the document has it, which knows no parameters with slashes.
func plainPath(path string) string { return strings.ReplaceAll(path, "...}", "}") }

// checkPath refuses a route whose path and input have different parameters, because its handler would not receive a
// value.
func checkPath(path string, s *jsonschema.Schema) error {
	var names []string
	if s != nil {
		names = s.PropertyOrder
	}
	for _, name := range names {
		if !strings.Contains(plainPath(path), "{"+name+"}") {
			return fmt.Errorf("path %s has no parameter %s", path, name)
		}
	}
	if strings.Count(path, "{") != len(names) {
		return fmt.Errorf("input lacks a parameter of path %s", path)
	}
	return nil
}

func (d *describer) requestBody(r function.Route, s *jsonschema.Schema, required bool) (*requestBody, error) {
	if r.Streams() {
		content := map[string]mediaType{}
		for _, media := range (function.Streamed{}).MediaTypes() {
			content[media] = mediaType{}
		}
		return &requestBody{Required: required, Content: content}, nil
	}
	name := r.Name + "Request"
	d.schemas.named[name] = s
	media := mediaType{Schema: &jsonschema.Schema{Ref: schemaPrefix + name}}
	example, ok, err := exampleOf(r.Handle.Input)
	if ok && err == nil {
		media.Example, err = bodyOf(example)
	}
	return &requestBody{Required: required, Content: map[string]mediaType{jsonMedia: media}}, err
}

// bodyOf returns the body in an example of an input.
func bodyOf(example any) (json.RawMessage, error) {
	b, err := json.Marshal(example)
	if err != nil {
		return nil, err
	}
	var parts struct {
		Body json.RawMessage `json:"body"`
	}
	err = json.Unmarshal(b, &parts)
	return parts.Body, err
}

// exampleOf returns the example of a type, or of a slice if its items have one.
func exampleOf(t reflect.Type) (example any, ok bool, err error) {
	e, ok := reflect.Zero(t).Interface().(function.Exampler)
	if !ok && t.Kind() == reflect.Slice {
		item, ok, err := exampleOf(t.Elem())
		if !ok || err != nil {
			return nil, false, err
		}
		return reflect.Append(reflect.MakeSlice(t, 0, 1), reflect.ValueOf(item)).Interface(), true, nil
	}
	if !ok {
		return nil, false, nil
	}
	example = e.Example()
	if reflect.TypeOf(example) != t {
		return nil, false, fmt.Errorf("the example of %s is a %T: add an Example method to the type itself", t, example)
	}
	return example, true, nil
}
