package openapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

const (
	// notModified is the only response that is neither a success nor an error.
	notModified = "NotModified"
	// refused is the response of operations that refuse no request themselves.
	refused = "Refused"
)

// repeatable reports whether a route accepts an Idempotency-Key: it changes data of an organization, and its body is
// held in memory.
func repeatable(r function.Route) bool {
	return r.Mutates() && !r.Streams() && (r.Access == function.Admin || r.Access == function.Member)
}

// kinds lists the kinds of errors that a route may return: those implied by its properties and those it declares.
func kinds(r function.Route, in input) []fault.Kind {
	k := append(slices.Clone(r.Errors), fault.Internal)
	switch r.Access {
	case function.Admin, function.Member:
		k = append(k, fault.Unauthenticated, fault.Forbidden, fault.RateLimited, fault.Unavailable)
	case function.User, function.Bearer:
		k = append(k, fault.Unauthenticated, fault.RateLimited, fault.Unavailable)
	case function.Public:
	}
	if len(r.Needs) > 0 {
		k = append(k, fault.Unavailable)
	}
	if in.named {
		k = append(k, fault.NotFound)
	}
	if in.body != nil {
		k = append(k, fault.BadRequest, fault.RequestTimeout, fault.TooLarge, fault.UnsupportedMedia)
	}
	if in.body != nil || in.refusable || r.Rehearsal != nil {
		k = append(k, fault.Invalid)
	}
	if repeatable(r) {
		k = append(k, fault.BadRequest, fault.RequestTimeout, fault.TooLarge, fault.Invalid)
	}
	if in.conditional {
		k = append(k, fault.PreconditionFailed)
	}
	slices.Sort(k)
	return slices.Compact(k)
}

// responseName returns the component name of the response to a kind of error.
func responseName(k fault.Kind) string { return strings.ReplaceAll(k.Title(), " ", "") }

// responses describes the responses that operations refer to.
func (d *describer) responses() (map[string]response, error) {
	if err := d.errorSchemas(); err != nil {
		return nil, err
	}
	all := map[string]response{}
	for kind, a := range errorResponses() {
		name := responseName(kind)
		if !d.used[responsePrefix+name] {
			continue
		}
		rendered := recorder{header: http.Header{}}
		function.WriteError(&rendered, exampleRequestID, a.example)
		names := commonHeaders()
		for _, h := range []string{"RateLimit", "RateLimit-Policy", "Vary"} { // of calls that had got so far
			names[h] = false
		}
		for h := range rendered.header {
			names[h] = true
		}
		for _, h := range a.headers {
			names[h] = false
		}
		delete(names, "Content-Type")
		delete(names, "Content-Length")
		described, err := d.headers(names)
		if err != nil {
			return nil, err
		}
		schema := problem
		if kind == fault.Invalid {
			schema = validation
		}
		all[name] = response{Description: a.text, Headers: described, Content: map[string]mediaType{
			jsonMedia: {
				Schema:  &jsonschema.Schema{Ref: schemaPrefix + schema},
				Example: json.RawMessage(rendered.body),
			},
		}}
	}
	if d.used[responsePrefix+notModified] {
		names := commonHeaders()
		names["ETag"], names["Cache-Control"] = true, true
		for _, h := range []string{
			"RateLimit", "RateLimit-Policy", "Vary", // and those of pages:
			"Content-Security-Policy", "Cross-Origin-Opener-Policy", "Permissions-Policy", "Referrer-Policy",
		} {
			names[h] = false
		}
		described, err := d.headers(names)
		if err != nil {
			return nil, err
		}
		all[notModified] = response{Description: "The client already has the current version.", Headers: described}
	}
	if d.used[responsePrefix+refused] {
		all[refused] = response{
			Description: "The operation itself refuses no request. The server refuses one that is not valid HTTP or " +
				"whose header is too large, and a load balancer may refuse a flood of requests with 429. " +
				"The body is not JSON.",
		}
	}
	return all, nil
}

// exampleRequestID is the request id in the examples of errors.
const exampleRequestID = "5f3c9a0e-6f0b-4d8b-9d51-0c6c7f1f2a3b"

// The schemas of error bodies.
const (
	problem    = "Problem"
	validation = "HTTPValidationError"
	violation  = "ValidationError"
)

// errorSchemas describes the two bodies of errors from their Go types: one with a message, one with a list of
// violations.
func (d *describer) errorSchemas() error {
	body, err := d.schemas.infer(reflect.TypeFor[function.Problem](), nil)
	if err != nil {
		return err
	}
	entry, err := d.schemas.infer(reflect.TypeFor[fault.Violation](), nil)
	if err != nil {
		return err
	}
	entry.Properties["loc"].Items = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "integer"}}}
	list := body.CloneSchemas()
	body.Description = "The body of every error except a validation error. It is also a problem according to RFC 9457."
	body.Properties["detail"] = &jsonschema.Schema{Type: "string", Description: "What happened, and what to do."}
	list.Description = "The body of a validation error."
	list.Properties["detail"] = &jsonschema.Schema{
		Type: "array", Items: &jsonschema.Schema{Ref: schemaPrefix + violation},
		Description: "Every violation in the request.",
	}
	d.schemas.named[problem], d.schemas.named[validation], d.schemas.named[violation] = body, list, entry
	return nil
}

// recorder records a response.
type recorder struct {
	header http.Header
	body   []byte
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}
