package openapi

import (
	"maps"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// errorResponse describes the response to one kind of error.
type errorResponse struct {
	text string
	// example is an error of the kind, rendered like a real one.
	example *fault.Error
	// headers are set in addition to those of the rendered example.
	headers []string
}

// errorResponses describes the response to every kind of error.
func errorResponses() map[fault.Kind]errorResponse {
	all := requestErrors()
	maps.Copy(all, protocolErrors())
	return all
}

// requestErrors are the responses to well-formed requests.
func requestErrors() map[fault.Kind]errorResponse {
	return map[fault.Kind]errorResponse{
		fault.BadRequest: {
			text: "Well-formed, but it can't be done as asked.",
			example: fault.New(fault.BadRequest, "invalid_cursor",
				"The cursor isn't one of this list. Start again without one."),
		},
		fault.Unauthenticated: {
			text: "No bearer token, or one that is malformed, unknown, revoked or expired. All bad keys are " +
				"answered alike.",
			example: identity.InvalidToken(),
		},
		fault.PaymentRequired: {
			text: "The plan's capacity is used up, or a payment is due. `meta` says which limit.",
			example: fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
				"The starter plan's limit of agents is reached. Delete an agent or upgrade the plan.").
				WithMeta(map[string]any{
					"limit": "agents", "current": 3, "max": 3, "plan": "starter",
					"upgrade_to": "startup",
				}),
		},
		fault.Forbidden: {
			text: "The caller is known, but its role, its plan or the lack of an active organization forbids it.",
			example: fault.New(fault.Forbidden, "role_required",
				"This needs the role org:admin. Members are read-only."),
		},
		fault.NotFound: {
			text:    "There is no such thing, or it is another organization's: the two can't be told apart.",
			example: fault.New(fault.NotFound, "agent_not_found", "Agent not found."),
		},
		fault.Conflict: {
			text: "The present state does not allow it. `meta` says which state, and what it allows.",
			example: fault.New(fault.Conflict, "agent_state_conflict",
				"The agent is paused; restart is not possible in this state.").
				WithMeta(map[string]any{"status": "paused", "allowed_actions": []string{"resume", "stop", "delete"}}),
			headers: []string{"Retry-After"}, // only for temporary conflicts
		},
		fault.PreconditionFailed: {
			text: "`If-Match` names another version than the present one.",
			example: fault.New(fault.PreconditionFailed, "version_mismatch",
				"The agent has changed since it was read. Read it again."),
		},
	}
}

// protocolErrors are the responses to malformed or excessive requests, and to failures of the service.
func protocolErrors() map[fault.Kind]errorResponse {
	return map[fault.Kind]errorResponse{
		fault.TooLarge: {
			text: "The body is too large.",
			example: fault.New(fault.TooLarge, "body_too_large", "The request body is larger than %d bytes.",
				function.DefaultBodyLimit),
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
			text: "Too many requests. An instance counts on its own; the edge's limit holds for all of them together.",
			example: fault.New(fault.RateLimited, "rate_limited",
				"Too many requests: the limit of mutations is 60 in 1m0s. Try again in 5s."),
			headers: []string{"RateLimit", "RateLimit-Policy"},
		},
		fault.Unavailable: {
			text: "A transient failure of something behind the service, or provisioning that has to be tried again. " +
				"The same request may succeed later.",
			example: fault.New(fault.Unavailable, "store_unavailable",
				"The database can't be reached at the moment. Try again in a few seconds."),
		},
		fault.Internal: {
			text:    "A defect of the service. It has been recorded under the request id.",
			example: fault.From(errUnknown),
		},
	}
}

// errUnknown stands for an unexpected error.
const errUnknown = unknown("unknown")

type unknown string

// Error implements error.
func (u unknown) Error() string { return string(u) }
