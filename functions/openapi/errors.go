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
	"agents.example/controlplane/shared/identity"
)

// notModified is the name of the one answer beside successes and errors.
const notModified = "NotModified"

// kinds lists the kinds of errors that a route may answer with: those that follow from what it is, and those that it names.
func kinds(r function.Route, in input) []fault.Kind {
	k := append(slices.Clone(r.Errors), fault.Internal)
	switch r.Access {
	case function.Admin, function.Member:
		k = append(k, fault.Unauthenticated, fault.Forbidden, fault.RateLimited, fault.Unavailable)
	case function.User:
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
		k = append(k, fault.BadRequest, fault.TooLarge, fault.UnsupportedMedia)
	}
	if in.body != nil || in.refusable {
		k = append(k, fault.Invalid)
	}
	slices.Sort(k)
	return slices.Compact(k)
}

// responseName names the component of a kind's answer.
func responseName(k fault.Kind) string { return strings.ReplaceAll(k.Title(), " ", "") }

// answer describes the answer to one kind of error.
type answer struct {
	text string
	// example is an error of the kind; it is rendered as any other.
	example *fault.Error
	// headers beside those that the example is rendered with.
	headers []string
}

func answers() map[fault.Kind]answer {
	return map[fault.Kind]answer{
		fault.BadRequest: {
			text:    "Well-formed, but it can't be done as asked.",
			example: fault.New(fault.BadRequest, "invalid_cursor", "The cursor isn't one of this list. Start again without one."),
		},
		fault.Unauthenticated: {
			text:    "No bearer token, or one that is malformed, unknown, revoked or expired. All bad keys are answered alike.",
			example: identity.InvalidToken(),
		},
		fault.PaymentRequired: {
			text: "The plan's capacity is used up, or a payment is due. `meta` says which limit.",
			example: fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
				"The starter plan's limit of agents is reached. Delete an agent or upgrade the plan.").
				WithMeta(map[string]any{"limit": "agents", "current": 3, "max": 3, "plan": "starter", "upgrade_to": "startup"}),
		},
		fault.Forbidden: {
			text:    "The caller is known, but its role, its plan or the lack of an active organization forbids it.",
			example: fault.New(fault.Forbidden, "role_required", "This needs the role org:admin. Members are read-only."),
		},
		fault.NotFound: {
			text:    "There is no such thing, or it is another organization's: the two can't be told apart.",
			example: fault.New(fault.NotFound, "agent_not_found", "Agent not found."),
		},
		fault.Conflict: {
			text: "The present state does not allow it. `meta` says which state, and what it allows.",
			example: fault.New(fault.Conflict, "agent_state_conflict", "The agent is paused; restart is not possible in this state.").
				WithMeta(map[string]any{"status": "paused", "allowed_actions": []string{"resume", "stop", "delete"}}),
		},
		fault.PreconditionFailed: {
			text:    "`If-Match` names another version than the present one.",
			example: fault.New(fault.PreconditionFailed, "version_mismatch", "The agent has changed since it was read. Read it again."),
		},
		fault.TooLarge: {
			text:    "The body is too large.",
			example: fault.New(fault.TooLarge, "body_too_large", "The request body is larger than %d bytes.", function.DefaultBodyLimit),
		},
		fault.UnsupportedMedia: {
			text: "The body is declared to be something else than JSON.",
			example: fault.New(fault.UnsupportedMedia, "unsupported_media_type",
				"The request body must be JSON: send it with Content-Type: application/json."),
		},
		fault.Invalid: {
			text: "The request is not valid. `detail` lists everything that is wrong with it.",
			example: fault.Validation(fault.Violation{
				Loc: []any{"path", "agent_id"}, Msg: "Input should be a valid UUID", Type: "uuid_parsing",
			}),
		},
		fault.RateLimited: {
			text:    "Too many requests. An instance counts on its own; the edge's limit holds for all of them together.",
			example: fault.New(fault.RateLimited, "rate_limited", "Too many requests: the limit of mutations is 60 in 1m0s. Try again in 5s."),
			headers: []string{"RateLimit", "RateLimit-Policy"},
		},
		fault.Unavailable: {
			text:    "A transient failure of something behind the service, or provisioning that has to be tried again. The same request may succeed later.",
			example: fault.New(fault.Unavailable, "store_unavailable", "The database can't be reached at the moment. Try again in a few seconds."),
		},
		fault.Internal: {text: "A defect of the service. It has been recorded under the request id.", example: fault.From(errUnknown)},
	}
}

// errUnknown stands for an error that nobody thought of.
const errUnknown = unknown("unknown")

type unknown string

// Error implements error.
func (u unknown) Error() string { return string(u) }

// responses describes the answers that operations refer to.
func (d *describer) responses() (map[string]response, error) {
	if err := d.errorSchemas(); err != nil {
		return nil, err
	}
	all := map[string]response{}
	for kind, a := range answers() {
		name := responseName(kind)
		if !d.used[responsePrefix+name] {
			continue
		}
		rendered := recorder{header: http.Header{}}
		function.WriteError(&rendered, exampleRequestID, a.example)
		names := map[string]bool{"X-Request-Id": true}
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
			jsonMedia: {Schema: &jsonschema.Schema{Ref: schemaPrefix + schema}, Example: json.RawMessage(rendered.body)},
		}}
	}
	if d.used[responsePrefix+notModified] {
		described, err := d.headers(map[string]bool{"X-Request-Id": true, "ETag": true})
		if err != nil {
			return nil, err
		}
		all[notModified] = response{Description: "The client has the present version.", Headers: described}
	}
	return all, nil
}

// exampleRequestID stands in the examples of errors.
const exampleRequestID = "5f3c9a0e-6f0b-4d8b-9d51-0c6c7f1f2a3b"

// The schemas of error bodies.
const (
	problem    = "Problem"
	validation = "HTTPValidationError"
	violation  = "ValidationError"
)

// errorSchemas describes the two bodies of errors from the types that render them: one with a sentence, one with a list of violations.
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
	body.Description = "Every error but a validation error. It is also a problem of RFC 9457."
	body.Properties["detail"] = &jsonschema.Schema{Type: "string", Description: "What happened, and what to do."}
	list.Description = "The error of a request that is not valid."
	list.Properties["detail"] = &jsonschema.Schema{
		Type: "array", Items: &jsonschema.Schema{Ref: schemaPrefix + violation}, Description: "Every violation.",
	}
	d.schemas.named[problem], d.schemas.named[validation], d.schemas.named[violation] = body, list, entry
	return nil
}

// recorder keeps an answer.
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
