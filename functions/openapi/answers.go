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
			text: "The request is well-formed but cannot be processed.",
			example: fault.New(fault.BadRequest, "invalid_cursor",
				"The cursor does not belong to this list. Start again without a cursor."),
		},
		fault.Unauthenticated: {
			text: "The bearer token is missing, malformed, unknown, revoked or expired. " +
				"All invalid tokens get the same response.",
			example: identity.InvalidToken(),
		},
		fault.PaymentRequired: {
			text: "The plan's capacity or that of all free plans is exhausted, or a payment is due. `meta` names the limit, " +
				"or in `resource_plan` the smallest size whose agents may run the image.",
			example: fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
				"The starter plan's limit for agents is reached. Delete an agent or upgrade the plan.").
				WithMeta(map[string]any{
					"limit": "agents", "current": 3, "max": 3, "plan": "starter",
					"upgrade_to": "startup",
				}),
		},
		fault.Forbidden: {
			text: "The caller is authenticated, but lacks the role, the plan feature or the active organization.",
			example: fault.New(fault.Forbidden, "role_required",
				"This operation requires the role admin. Members and API keys with the role member are read-only."),
		},
		fault.NotFound: {
			text:    "The object does not exist or belongs to another organization; both get the same response.",
			example: fault.New(fault.NotFound, "agent_not_found", "Agent not found."),
		},
		fault.Conflict: {
			text: "The current state does not allow the operation. `meta` shows the state and what it allows.",
			example: fault.New(fault.Conflict, "agent_state_conflict",
				"The agent is paused; restart is not possible in this status. See meta.allowed_actions.").
				WithMeta(map[string]any{"status": "paused", "allowed_actions": []string{"resume", "stop", "delete"}}),
			headers: []string{"Retry-After"}, // only for temporary conflicts
		},
		fault.PreconditionFailed: {
			text: "`If-Match` does not name the current version.",
			example: fault.New(fault.PreconditionFailed, "version_mismatch",
				"The agent has changed since the version in If-Match. Get the agent again and retry."),
		},
	}
}

// protocolErrors are the responses to malformed or excessive requests, and to failures of the service.
func protocolErrors() map[fault.Kind]errorResponse {
	return map[fault.Kind]errorResponse{
		fault.RequestTimeout: {
			text: "The request body arrived too slowly. The description has the limit.",
			example: fault.New(fault.RequestTimeout, "request_timeout",
				"The request body arrived too slowly. Send the request again."),
		},
		fault.TooLarge: {
			text: "The request body is too large.",
			example: fault.New(fault.TooLarge, "body_too_large", "The request body exceeds the limit of %d bytes.",
				function.DefaultBodyLimit),
		},
		fault.UnsupportedMedia: {
			text: "The request body is not declared as JSON.",
			example: fault.New(fault.UnsupportedMedia, "unsupported_media_type",
				"The request body must be JSON. Send it with Content-Type: application/json."),
		},
		fault.Invalid: {
			text: "The request is not valid. `detail` lists every violation.",
			example: fault.Validation(fault.Violation{
				Loc: []any{"path", "agent_id"}, Msg: "Input should be a valid UUID", Type: "uuid_parsing",
			}),
		},
		fault.RateLimited: {
			text: "Too many requests. `meta.limit` names the limit; the description lists all of them.",
			example: fault.New(fault.RateLimited, "rate_limited",
				"Too many requests. The limit for mutations is 60 in 60 s. Retry in 5 s."),
			headers: []string{"RateLimit", "RateLimit-Policy"},
		},
		fault.Unavailable: {
			text: "A dependency is temporarily unavailable, or provisioning must be retried. " +
				"The same request may succeed later.",
			example: fault.New(fault.Unavailable, "store_unavailable",
				"The database is temporarily unavailable. Retry in a few seconds."),
		},
		fault.Internal: {
			text:    "An internal error occurred. Report the request id to support.",
			example: fault.From(errUnknown),
		},
	}
}

// errUnknown stands for an unexpected error.
const errUnknown = unknown("unknown")

type unknown string

// Error implements error.
func (u unknown) Error() string { return string(u) }
