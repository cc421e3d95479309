package openapi

import (
	"maps"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// answer describes the answer to one kind of error.
type answer struct {
	text string
	// example is an error of the kind; it is rendered as any other.
	example *fault.Error
	// headers beside those that the example is rendered with.
	headers []string
}

// answers is the one table of what is said about errors.
func answers() map[fault.Kind]answer {
	all := refusals()
	maps.Copy(all, protocol())
	return all
}

// refusals are answers to a request that is understood.
func refusals() map[fault.Kind]answer {
	return map[fault.Kind]answer{
		fault.BadRequest: {
			text: "Well-formed, but it can't be done as asked.",
			example: fault.New(fault.BadRequest, "invalid_cursor",
				"The cursor isn't one of this list. Start again without one."),
		},
		fault.Unauthenticated: {
			text:    "No bearer token, or one that is malformed, unknown, revoked or expired. All bad keys are answered alike.",
			example: identity.InvalidToken(),
		},
		fault.PaymentRequired: {
			text: "The plan's capacity is used up, or a payment is due. `meta` says which limit.",
			example: fault.New(fault.PaymentRequired, "plan_capacity_exceeded",
				"The starter plan's limit of agents is reached. Delete an agent or upgrade the plan.").
				WithMeta(map[string]any{"limit": "agents", "current": 3, "max": 3, "plan": "starter",
					"upgrade_to": "startup"}),
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
			headers: []string{"Retry-After"}, // where it passes
		},
		fault.PreconditionFailed: {
			text: "`If-Match` names another version than the present one.",
			example: fault.New(fault.PreconditionFailed, "version_mismatch",
				"The agent has changed since it was read. Read it again."),
		},
	}
}

// protocol are answers to a request that can't be taken as it is, and answers that are not the request's fault.
func protocol() map[fault.Kind]answer {
	return map[fault.Kind]answer{
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
			text: "A transient failure of something behind the service, or provisioning that has to be tried again. The same request may succeed later.",
			example: fault.New(fault.Unavailable, "store_unavailable",
				"The database can't be reached at the moment. Try again in a few seconds."),
		},
		fault.Internal: {text: "A defect of the service. It has been recorded under the request id.",
			example: fault.From(errUnknown)},
	}
}

// errUnknown stands for an error that nobody thought of.
const errUnknown = unknown("unknown")

type unknown string

// Error implements error.
func (u unknown) Error() string { return string(u) }
