package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Pauses between attempts.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 8 * time.Second
	// longestRetryAfter is how long the API may ask to wait. A call that would have to wait longer fails.
	longestRetryAfter = time.Minute
)

// retryPolicy repeats requests.
type retryPolicy struct {
	attempts int
	// outage is how long a call is repeated after its first failure, if its attempts take less. One that is sent once
	// is not.
	outage time.Duration
	sleep  func(ctx context.Context, d time.Duration) error
	// notice hears of each repeat before the pause; nil is none.
	notice func(pause time.Duration, err error)
}

// retry calls send until it succeeds, fails for good, or was called often enough. Every request is safe to repeat: it
// reads, or it has an idempotency key.
func retry[T any](ctx context.Context, p retryPolicy, send func() (T, error)) (T, error) {
	var last error
	var failing time.Time
	for attempt := 1; ; attempt++ {
		answer, err := send()
		if last != nil && err != nil && ctx.Err() != nil && AsError(err) == nil {
			return answer, outOfTime(last, err) // the attempt was cut short, and met nothing itself
		}
		if attempt == 1 {
			failing = time.Now()
		}
		over := attempt >= p.attempts && (p.attempts == 1 || time.Since(failing) >= p.outage)
		if err == nil || over || !mayPass(ctx, err) {
			return answer, err
		}
		last = err
		rest := pause(attempt, err)
		if p.notice != nil {
			p.notice(rest, err)
		}
		if ended := p.sleep(ctx, rest); ended != nil {
			return answer, outOfTime(err, ended)
		}
	}
}

// outOfTime is the error of a call that failed with err, and whose context ended before a repeat was answered.
func outOfTime(err, ended error) error {
	return fmt.Errorf("%w; no time was left to repeat the call: %w", err, ended)
}

// permanentError is an error that a repeat of the same request meets again.
type permanentError struct{ error }

// Unwrap returns the error's cause.
func (e permanentError) Unwrap() error { return e.error }

// mayPass reports whether a request that failed with err may succeed later.
func mayPass(ctx context.Context, err error) bool {
	if _, permanent := errors.AsType[permanentError](err); permanent || ctx.Err() != nil {
		return false
	}
	if _, wrongCertificate := errors.AsType[*tls.CertificateVerificationError](err); wrongCertificate {
		return false
	}
	e := AsError(err)
	if e == nil {
		return true // the connection failed
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return e.RetryAfter <= longestRetryAfter
	case http.StatusConflict:
		return e.Code == "idempotency_in_progress" && e.RetryAfter <= longestRetryAfter
	}
	return false
}

// pause returns how long to wait after the attempt that failed with err: what the API asks for and up to a quarter
// more, or else a random time that doubles, so that clients which failed together do not return together.
func pause(attempt int, err error) time.Duration {
	if e := AsError(err); e != nil && e.RetryAfter > 0 {
		return e.RetryAfter + rand.N(e.RetryAfter/4+1)
	}
	longest := min(firstPause<<(attempt-1), maxPause)
	return longest/2 + rand.N(longest/2+1)
}

// retryAfter returns the time in the header Retry-After, in seconds or as a date; 0 if there is none. A date is that of
// the server's clock, which the header Date shows.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	// A number that is out of range is returned as the greatest one.
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
