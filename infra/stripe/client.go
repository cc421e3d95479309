package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	stripeURL = "https://api.stripe.com"
	// apiVersion is the version of the API whose forms and objects this package uses. Without it, Stripe would use the
	// version that the account is set to.
	apiVersion = "2026-02-25.clover"
	// maxRetries is how often a call is retried. All tries share one idempotency key, so each may be repeated.
	maxRetries = 2
	// retryWait is how long the first retry waits at most; the second waits twice as long.
	retryWait = time.Second
	// maxAnswer is more than the largest answer that this package asks for.
	maxAnswer = 4 << 20
)

// client calls Stripe's REST API.
type client struct {
	http *http.Client
	url  string
	key  string
}

// call is one call of the API.
type call struct {
	method, path string
	form         url.Values
	// idempotencyKey makes Stripe answer repeated calls without doing more. A POST without one gets a random key.
	idempotencyKey string
}

// apiError is an answer with which Stripe refused a call. Its text leaves out the message, which quotes the request.
type apiError struct {
	status    int
	requestID string
	Type      string `json:"type"`
	Code      string `json:"code"`
	Param     string `json:"param"`
	Message   string `json:"message"`
}

// Error implements error.
func (e *apiError) Error() string {
	return fmt.Sprintf("status %d, type %s, code %s, parameter %s, request %s", e.status, e.Type, e.Code, e.Param,
		e.requestID)
}

// isMissing reports whether Stripe refused a call because something that it names does not exist, or not any more.
func isMissing(err error) bool {
	var refused *apiError
	return errors.As(err, &refused) && refused.Code == "resource_missing"
}

// isUnset reports whether Stripe refused a page of the customer portal because of its settings. Only the text says so.
func isUnset(err error) bool {
	var refused *apiError
	return errors.As(err, &refused) && refused.status == http.StatusBadRequest &&
		(strings.Contains(refused.Message, "portal configuration") ||
			strings.Contains(refused.Message, "portal settings"))
}

// errNoAnswer is an answer that does not have Stripe's form, as proxies send it.
var errNoAnswer = errors.New("the answer is not one of Stripe")

// do makes a call, with retries, and decodes the answer into out. Errors are of type *apiError if Stripe refused the
// call.
func (c *client) do(ctx context.Context, made call, out any) (http.Header, error) {
	if made.method == http.MethodPost && made.idempotencyKey == "" {
		made.idempotencyKey = uuid.NewString()
	}
	for try := 0; ; try++ {
		header, err := c.try(ctx, made, out)
		if err == nil || try == maxRetries || !mayRetry(header, err) || !wait(ctx, retryWait<<try) {
			return header, err
		}
	}
}

// maxKeys is how many idempotency keys may take the place of one in a day.
const maxKeys = 3

// create makes a call with an idempotency key that later requests use, too. Stripe stores its own failures under a key:
// the next key then takes its place for that day. Errors: as of do.
func (c *client) create(ctx context.Context, made call, out any) (http.Header, error) {
	key := made.idempotencyKey
	for n := 2; ; n++ {
		header, err := c.do(ctx, made, out)
		if err == nil || n > maxKeys || !replayed(header) {
			return header, err
		}
		made.idempotencyKey = fmt.Sprintf("%s-%d", key, n)
	}
}

func (c *client) try(ctx context.Context, made call, out any) (http.Header, error) {
	address, body := c.url+made.path, ""
	if form := made.form.Encode(); made.method == http.MethodPost {
		body = form
	} else if form != "" {
		address += "?" + form
	}
	req, err := http.NewRequestWithContext(ctx, made.method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Stripe-Version", apiVersion)
	if made.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Idempotency-Key", made.idempotencyKey)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return res.Header, err
	case res.StatusCode != http.StatusOK:
		return res.Header, refusalIn(res, answer)
	case json.Unmarshal(answer, out) != nil:
		return res.Header, errNoAnswer
	}
	return res.Header, nil
}

// refusalIn returns the error that an answer describes.
func refusalIn(res *http.Response, answer []byte) error {
	var refusal struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(answer, &refusal) != nil || refusal.Error == nil {
		return fmt.Errorf("status %d: %w", res.StatusCode, errNoAnswer)
	}
	refusal.Error.status, refusal.Error.requestID = res.StatusCode, res.Header.Get("Request-Id")
	return refusal.Error
}

// replayed reports whether Stripe repeated a stored answer: that of the first call with this idempotency key.
func replayed(header http.Header) bool { return header.Get("Idempotent-Replayed") == "true" }

// mayRetry reports whether a call may succeed if it is repeated. Stripe knows best. A rate limit is not retried, which
// would make it worse, nor a failure that Stripe stored.
func mayRetry(header http.Header, err error) bool {
	if replayed(header) {
		return false
	}
	switch header.Get("Stripe-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	var refused *apiError
	if !errors.As(err, &refused) {
		return true // Stripe was not reached, or a proxy answered
	}
	return refused.status >= http.StatusInternalServerError || refused.status == http.StatusConflict ||
		refused.Code == "lock_timeout"
}

// wait waits between half and all of a time. It returns false, possibly early, if ctx ends first.
func wait(ctx context.Context, most time.Duration) bool {
	pause := most - rand.N(most/2)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
