package fault

import (
	"net/http"
	"time"
)

// Kind classifies an error by what the caller can do about it. It decides the HTTP status and whether a queue
// should deliver the work again.
type Kind uint8

// The kinds, each with its HTTP status.
const (
	Internal           Kind = iota // 500: our bug; logged, never shown
	BadRequest                     // 400: well-formed, but not possible as requested
	Unauthenticated                // 401: no bearer token, or an invalid one
	PaymentRequired                // 402: a larger plan or a payment fixes it
	Forbidden                      // 403: role, plan feature or organization
	NotFound                       // 404: unknown, or in another organization
	MethodNotAllowed               // 405: the path exists, the method does not
	RequestTimeout                 // 408: the body arrived too slowly
	Conflict                       // 409: the current state does not allow it
	PreconditionFailed             // 412: If-Match names a different version
	TooLarge                       // 413: the body is over the limit
	UnsupportedMedia               // 415: the body is not JSON
	Invalid                        // 422: invalid request; carries violations
	RateLimited                    // 429: too many requests; carries RetryAfter
	Unavailable                    // 503: transient; the same request may succeed later
)

// rule is the HTTP status and the retry rule of a kind.
type rule struct {
	status int
	title  string
	// retry is true if the same work may succeed later without any change.
	retry bool
}

// ruleOf returns the rule of a kind. It is the only table of statuses and retries, for routes and workers alike.
func ruleOf(k Kind) rule {
	status := [...]int{
		Internal: http.StatusInternalServerError, BadRequest: http.StatusBadRequest,
		Unauthenticated: http.StatusUnauthorized, PaymentRequired: http.StatusPaymentRequired,
		Forbidden: http.StatusForbidden, NotFound: http.StatusNotFound,
		MethodNotAllowed: http.StatusMethodNotAllowed, RequestTimeout: http.StatusRequestTimeout,
		Conflict: http.StatusConflict, PreconditionFailed: http.StatusPreconditionFailed,
		TooLarge: http.StatusRequestEntityTooLarge, UnsupportedMedia: http.StatusUnsupportedMediaType,
		Invalid: http.StatusUnprocessableEntity, RateLimited: http.StatusTooManyRequests,
		Unavailable: http.StatusServiceUnavailable,
	}[k]
	// Internal errors are also retried: repeating work until it is dead-lettered is better than losing it.
	return rule{
		status: status, title: http.StatusText(status),
		retry: k == Internal || k == RequestTimeout || k == RateLimited || k == Unavailable,
	}
}

// Status returns the HTTP status of the kind.
func (k Kind) Status() int { return ruleOf(k).status }

// Title returns the standard text of the status, which is the title of an RFC 9457 problem.
func (k Kind) Title() string { return ruleOf(k).title }

// Retryable reports whether the same work may succeed later without a change.
func (k Kind) Retryable() bool { return ruleOf(k).retry }

// defaultRetryAfter is the wait that an error without RetryAfter asks for.
const defaultRetryAfter = 5 * time.Second
