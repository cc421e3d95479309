package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// errNoToken is the error of a TokenSource, which is not repeated.
var errNoToken = errors.New("no token for the API")

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
	sleep    func(ctx context.Context, d time.Duration) error
}

// do sends a request until it succeeds, fails for good, or was sent often enough. Every request is safe to repeat: it
// reads, or it has an idempotency key.
func (p retryPolicy) do(ctx context.Context, send func() (*http.Response, error)) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		res, err := send()
		if err == nil || attempt >= p.attempts || !mayPass(ctx, err) {
			return res, err
		}
		if p.sleep(ctx, pause(attempt, err)) != nil {
			return nil, err // the last error says more than that time ran out
		}
	}
}

// mayPass reports whether a request that failed with err may succeed later.
func mayPass(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, errNoToken) {
		return false
	}
	e := AsError(err)
	if e == nil {
		return true // the connection failed
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
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

// retryAfter returns the time in the header Retry-After, in seconds or as a date; 0 if there is none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
