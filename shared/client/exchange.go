package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// patience is how long a request waits for an answer. The API holds a request for a minute at most, unless its body
// says how long it may take, see held, or its call does.
const patience = 2 * time.Minute

// longestSilence is more than an answer is silent that goes on to arrive: the API ends most within 10 minutes.
const longestSilence = 11 * time.Minute

// held is a body that says how long the API may hold its request.
type held interface{ held() time.Duration }

// errNoAnswer is the error of a request whose answer did not come in time. Its connection may be dead.
type errNoAnswer struct{ patience time.Duration }

// Error implements error.
func (e errNoAnswer) Error() string { return fmt.Sprintf("no answer within %s", e.patience) }

// errSilent is the cause of an answer that broke off because nothing more of it arrived.
type errSilent struct{}

// Error implements error.
func (errSilent) Error() string { return fmt.Sprintf("nothing arrived for %s", longestSilence) }

// once sends a request once, and again if the token had to be replaced. An answer that is no success is an *Error.
func (c *Client) once(ctx context.Context, q *request) (*http.Response, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	res, err := c.exchange(ctx, q, token)
	refresher, ok := c.tokens.(Refresher)
	if e := AsError(err); !ok || q.refreshed || e == nil || e.Status != http.StatusUnauthorized {
		return res, err
	}
	if failed := refresher.Refresh(ctx, token); isUnavailable(failed) {
		return nil, fmt.Errorf("the token could not be replaced: %w", failed) // without the 401, which is permanent
	} else if failed != nil {
		return nil, fmt.Errorf("%w; the token could not be replaced: %w", err, permanentError{failed})
	}
	q.refreshed = true
	if token, err = c.token(ctx); err != nil {
		return nil, err
	}
	return c.exchange(ctx, q, token)
}

// isUnavailable reports whether a TokenSource may have a token later.
func isUnavailable(err error) bool {
	_, unavailable := errors.AsType[*TokenUnavailableError](err)
	return unavailable
}

// token returns the token to send. Errors never hold the token, and are permanent unless it is only unavailable.
func (c *Client) token(ctx context.Context) (string, error) {
	token, err := c.tokens.Token(ctx)
	if err != nil {
		err = fmt.Errorf("there is no token for the API: %w", err)
		if !isUnavailable(err) {
			err = permanentError{err}
		}
		return "", err
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", permanentError{invalidToken{}}
	}
	return token, nil
}

// invalidToken is the error of a token that cannot be sent.
type invalidToken struct{}

// Error implements error.
func (invalidToken) Error() string {
	return "the API token has a space, a line break or another character that a token cannot have. " +
		"Check how it was copied or read from its file"
}

// exchange sends a request with a token and returns a successful answer.
func (c *Client) exchange(ctx context.Context, q *request, token string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(q.patience, func() { cancel(errNoAnswer{q.patience}) })
	defer late.Stop()
	req, err := http.NewRequestWithContext(ctx, q.method, q.target, bytes.NewReader(q.body))
	if err != nil {
		cancel(nil)
		return nil, permanentError{err}
	}
	req.Header = q.header.Clone()
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		err = withCause(ctx, err)
		cancel(nil)
		return nil, err
	}
	res.Body = &answerBody{ReadCloser: res.Body, request: q, context: ctx, cancel: cancel}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		if q.answered != nil {
			*q.answered = res.Header
		}
		return res, nil
	}
	defer res.Body.Close() //nolint:errcheck // the answer is an error already
	// The status is known, so an answer that breaks off is no other error.
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	return nil, readError(res, text)
}

// withCause returns the error of a request with the reason for which this package canceled its context.
func withCause(ctx context.Context, err error) error {
	cause, isLate := context.Cause(ctx).(errNoAnswer) //nolint:errorlint // the cause is the value itself
	if failed, ok := errors.AsType[*url.Error](err); ok && isLate {
		failed.Err = cause
	}
	return err
}

// answerBody is the body of an answer. Closing it releases the request's context.
type answerBody struct {
	io.ReadCloser
	request *request
	context context.Context //nolint:containedctx // that of the request
	cancel  context.CancelCauseFunc
}

// Read implements io.Reader. A connection that is lost in the answer is the same kind of error as one that is lost
// before it, also if it is lost without a word.
func (b *answerBody) Read(p []byte) (int, error) {
	dead := time.AfterFunc(longestSilence, func() { b.cancel(errSilent{}) })
	n, err := b.ReadCloser.Read(p)
	dead.Stop()
	cause, isSilent := context.Cause(b.context).(errSilent) //nolint:errorlint // the cause is the value itself
	if err != nil && isSilent {
		err = cause
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = &url.Error{Op: b.request.method, URL: b.request.target, Err: fmt.Errorf("the answer broke off: %w", err)}
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
