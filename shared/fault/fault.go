// Package fault is the one vocabulary of errors. It knows kinds, their HTTP statuses and which of them a queue retries.
// It does not know how an error is rendered (package function) nor how an outside system's errors map to it (each infra
// package).
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Error is an error that may be shown to a client: Detail, Code, Meta and Violations are public, the cause is not.
type Error struct {
	Kind Kind
	// Code is the stable, machine-readable name, such as "agent_not_found". It is an open set.
	Code string
	// Detail says what happened, to what, and what to do, in one or two sentences.
	Detail string
	// Meta holds figures a program can act on. It is nil when there are none.
	Meta map[string]any
	// Violations lists every violation of an Invalid request.
	Violations []Violation
	// RetryAfter is when the same request may succeed; zero means the default of RateLimited and Unavailable, and never
	// for other kinds.
	RetryAfter time.Duration

	cause error
}

// Violation is one entry of a validation error, in the vocabulary of pydantic v2.
type Violation struct {
	// Loc is the path to the value: "body", "path", "query" or "header", then field names (string) and indexes (int).
	Loc []any `json:"loc"`
	// Msg is a sentence for a person.
	Msg string `json:"msg"`
	// Type is the machine-readable kind of violation, such as "missing" or "string_too_short".
	Type string `json:"type"`
	// Ctx holds the figures of Msg. It is nil when there are none.
	Ctx map[string]any `json:"ctx,omitempty"`
}

// New makes an error. format and args make the public detail.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Validation makes the error of a request with violations.
func Validation(violations ...Violation) *Error {
	return &Error{Kind: Invalid, Code: "validation_error", Detail: "The request is not valid.", Violations: violations}
}

// WithCause returns a copy of the error with a cause, which is logged and never shown.
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

// After is how long the client should wait before it tries again, or zero where trying again is pointless.
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

// From finds the Error in err. A context's end becomes Unavailable; anything unknown becomes Internal with err as its
// cause. From of nil is nil.
func From(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return New(Unavailable, "timeout", "The request took too long. Try again.").WithCause(err)
	default:
		return New(Internal, "internal_error",
			"Something went wrong on our side. It has been recorded under the request id.").WithCause(err)
	}
}

// Is reports whether err holds an Error of the kind.
func Is(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// Code returns the code of the Error in err, or "" when there is none.
func Code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
