package fault

import (
	"net/http"
	"time"
)

// Kind classifies an error by what the caller can do about it. It decides the HTTP status and whether a queue
// should deliver the work again.
type Kind uint8

// The kinds, each with the one HTTP status it answers with.
const (
	Internal           Kind = iota // 500: a defect of ours; its text is logged and never shown
	BadRequest                     // 400: well-formed, but can't be done as asked
	Unauthenticated                // 401: no bearer token, or one that is not good
	PaymentRequired                // 402: a larger plan or a payment fixes it
	Forbidden                      // 403: role, plan feature or organization
	NotFound                       // 404: unknown, or another organization's
	MethodNotAllowed               // 405: the path exists, the method does not
	Conflict                       // 409: the present state does not allow it
	PreconditionFailed             // 412: If-Match names another version
	TooLarge                       // 413: the body is over the limit
	UnsupportedMedia               // 415: the body is not JSON
	Invalid                        // 422: validation; carries violations
	RateLimited                    // 429: too many requests; carries when to come back
	Unavailable                    // 503: transient; the same request may succeed later
)

// rule is what one kind means to HTTP and to a queue.
type rule struct {
	status int
	title  string
	// retry says that the same work may succeed later without anybody changing anything.
	retry bool
}

// rules is the one table that ties kinds to statuses and to the retry rule, for routes and workers alike.
func rules(k Kind) rule {
	status := [...]int{
		Internal: http.StatusInternalServerError, BadRequest: http.StatusBadRequest,
		Unauthenticated: http.StatusUnauthorized,
		PaymentRequired: http.StatusPaymentRequired, Forbidden: http.StatusForbidden, NotFound: http.StatusNotFound,
		MethodNotAllowed: http.StatusMethodNotAllowed, Conflict: http.StatusConflict,
		PreconditionFailed: http.StatusPreconditionFailed,
		TooLarge:           http.StatusRequestEntityTooLarge, UnsupportedMedia: http.StatusUnsupportedMediaType,
		Invalid: http.StatusUnprocessableEntity, RateLimited: http.StatusTooManyRequests,
		Unavailable: http.StatusServiceUnavailable,
	}[k]
	// An internal error is retried, too: a defect that loses work is worse than one that repeats it until it is
	// dead-lettered.
	return rule{status: status, title: http.StatusText(status), retry: k == Internal || k == RateLimited ||
		k == Unavailable}
}

// Status is the HTTP status the kind answers with.
func (k Kind) Status() int { return rules(k).status }

// Title is the standard text of the status, the title of an RFC 9457 problem.
func (k Kind) Title() string { return rules(k).title }

// Retryable reports whether the same work may succeed later without a change.
func (k Kind) Retryable() bool { return rules(k).retry }

// defaultRetryAfter is how long a client is asked to wait when an error does not know better.
const defaultRetryAfter = 5 * time.Second
