package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is an answer of the API that is no success.
type Error struct {
	// Status is the HTTP status, such as 409.
	Status int
	// Code names the error for programs, such as agent_state_conflict. New codes may be added. It is empty if the
	// answer did not come from the API, for example from a load balancer in front of it.
	Code string
	// Detail says what happened and what to do.
	Detail string
	// Violations are all faults of an invalid request.
	Violations []Violation
	// RequestID identifies the request for support.
	RequestID string
	// Meta holds further values of the error, such as allowed_actions.
	Meta map[string]any
	// RetryAfter is how long the API asks to wait before the next attempt; 0 if it does not say.
	RetryAfter time.Duration
	// Body is the body of the answer as it came.
	Body []byte
}

// maxErrorBody bounds what is read of an answer that is no success.
const maxErrorBody = 1 << 20

// Violation is one fault of an invalid request.
type Violation struct {
	// Loc is the path of the faulty value, such as body, env_vars, PORT. Items are strings, and numbers for indexes.
	Loc []any `json:"loc"`
	// Msg describes the fault, and Type names it for programs.
	Msg  string `json:"msg"`
	Type string `json:"type"`
	// Ctx holds the limits that the message mentions.
	Ctx map[string]any `json:"ctx"`
}

// Path returns the location in one word, such as body.env_vars.PORT.
func (v Violation) Path() string {
	parts := make([]string, len(v.Loc))
	for i, l := range v.Loc {
		parts[i] = fmt.Sprint(l)
	}
	return strings.Join(parts, ".")
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Detail)
	if len(e.Violations) > 0 {
		b.Reset()
		for i, v := range e.Violations {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "%s: %s", v.Path(), v.Msg)
		}
	}
	fmt.Fprintf(&b, " (%d", e.Status)
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	b.WriteString(")")
	return b.String()
}

// AsError returns the API's error in err, or nil if it is another error.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// IsNotFound reports whether the API answered that the object does not exist. A page of another server, such as a
// proxy, with the status 404 says nothing about it.
func IsNotFound(err error) bool {
	e := AsError(err)
	return e != nil && e.Status == http.StatusNotFound && e.Code != ""
}

// readError reads the error in an answer.
func readError(r *http.Response, text []byte) *Error {
	e := &Error{
		Status: r.StatusCode, RequestID: r.Header.Get("X-Request-Id"), RetryAfter: retryAfter(r.Header, time.Now()),
		Detail: unknownError(r), Body: text,
	}
	var sent struct {
		Detail json.RawMessage `json:"detail"`
		Code   string          `json:"code"`
		Meta   map[string]any  `json:"meta"`
	}
	// An answer of another server, such as a page of a load balancer, is described by its status.
	if json.Unmarshal(text, &sent) != nil {
		return e
	}
	e.Code, e.Meta = sent.Code, sent.Meta
	var detail string
	if json.Unmarshal(sent.Detail, &detail) == nil && detail != "" {
		e.Detail = detail
	} else if json.Unmarshal(sent.Detail, &e.Violations) == nil && len(e.Violations) > 0 {
		e.Detail = "The request is invalid."
	}
	return e
}

// unknownError describes an answer that is not in the API's format.
func unknownError(r *http.Response) string {
	if to := r.Header.Get("Location"); r.StatusCode >= 300 && r.StatusCode < 400 && to != "" {
		return fmt.Sprintf("The server redirects to %s, which the client does not follow with a token. "+
			"Check the API's base URL.", to)
	}
	return fmt.Sprintf("The server answered without the API's description of the error: %s.",
		cmp.Or(http.StatusText(r.StatusCode), "unknown status"))
}
