// Package fault defines the errors of the control plane: their kinds, the HTTP status of each kind, and which kinds a
// queue retries. It does not render errors (package function) or translate the errors of outside systems (the infra
// packages).
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is an error that a client may see. Detail, Code, Meta and Violations are public; the cause is not.
type Error struct {
	Kind Kind
	// Code is the stable, machine-readable name, such as "agent_not_found". Clients must expect new codes.
	Code string
	// Detail says what happened, to which object, and what to do, in one or two sentences.
	Detail string
	// Meta holds values that a program can act on; nil for none.
	Meta map[string]any
	// Violations lists every violation of an Invalid request.
	Violations []Violation
	// RetryAfter is how long the client should wait before it repeats the request. Zero means a default for RateLimited
	// and Unavailable, and no retry for other kinds.
	RetryAfter time.Duration

	cause error
}

// Violation is one entry of a validation error, in the vocabulary of pydantic v2.
type Violation struct {
	// Loc is the path to the value: "body", "path", "query" or "header", then field names (string) and indexes (int).
	Loc []any `json:"loc" jsonschema:"Where the violation is: a part of the request, and the path to the value in it."`
	// Msg is a sentence for people.
	Msg string `json:"msg" jsonschema:"What is wrong, for people."`
	// Type is the machine-readable kind of violation, such as "missing" or "string_too_short".
	Type string `json:"type" jsonschema:"Names the rule for programs."`
	// Ctx holds the values in Msg; nil for none.
	Ctx map[string]any `json:"ctx,omitempty" jsonschema:"The values of the rule, such as a limit."`
}

// ValueError returns the violation of a rule that the vocabulary has no type for. why is a part of a sentence.
func ValueError(loc []any, why string) Violation {
	return Violation{Loc: loc, Type: "value_error", Msg: "Value error, " + why, Ctx: map[string]any{"error": why}}
}

// New returns an error. format and args make the public detail.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Validation returns the error for a request with violations.
func Validation(violations ...Violation) *Error {
	return &Error{Kind: Invalid, Code: "validation_error", Detail: "The request is not valid.", Violations: violations}
}

// WithCause returns a copy of the error with a cause. Logs contain the cause, responses never do.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithMeta returns a copy of the error with meta.
func (e *Error) WithMeta(meta map[string]any) *Error {
	c := *e
	c.Meta = meta
	return &c
}

// Error implements error. It includes the cause and is for logs, not for clients.
func (e *Error) Error() string {
	s := e.Code + ": " + e.Detail
	if len(e.Violations) > 0 {
		s += fmt.Sprintf(" (%d violations, first at %v: %s)", len(e.Violations), e.Violations[0].Loc,
			e.Violations[0].Type)
	}
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// After returns how long the client should wait before it repeats the request, or zero if a retry is pointless.
func (e *Error) After() time.Duration {
	switch {
	case e.RetryAfter > 0:
		return e.RetryAfter
	case e.Kind == RateLimited || e.Kind == Unavailable:
		return defaultRetryAfter
	default:
		return 0
	}
}

// From returns the Error in err. An expired or canceled context becomes Unavailable, and any other error becomes
// Internal with err as its cause. From(nil) is nil.
func From(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return New(Unavailable, "timeout", "The request timed out. Retry.").WithCause(err)
	default:
		return New(Internal, "internal_error",
			"An internal error occurred. Report the request id to support.").WithCause(err)
	}
}

// Is reports whether err contains an Error of the kind.
func Is(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// Code returns the code of the Error in err, or "" if it contains none.
func Code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
