// Package client calls the public API of the control plane: create agents, wait for them, set their secrets, read
// their logs. It imports only the standard library.
//
// The methods of Client and the types are generated from functions/openapi.json, one method for each operation. The
// rest is what every caller would have to write: calls that failed in a way that passes are repeated safely, lists
// are iterators, errors have one type, and agents and operations can be waited for.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

//go:generate go tool -modfile=../../.ci/tools/go.mod oapi-codegen -config generate/config.yaml ../../functions/openapi.json

// Client calls the API. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	tokens    TokenSource
	http      *http.Client
	userAgent string
	retry     retryPolicy
}

// TokenSource returns the token of the next call: an API key, or a session token that may have to be renewed. An empty
// token sends none.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// Refresher is a TokenSource that can replace a token that the API refused, such as an expired session token. The
// client calls it at most once a call.
type Refresher interface {
	TokenSource
	// Refresh replaces the refused token, unless Token returns another one already. Concurrent calls may pass the same
	// token.
	Refresh(ctx context.Context, refused string) error
}

// TokenUnavailableError is the error of a TokenSource that may have a token later, such as one whose identity provider
// cannot be reached. The client repeats the call, as it does after a lost connection. Any other error ends the call.
type TokenUnavailableError struct{ Err error }

// Error implements error.
func (e *TokenUnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *TokenUnavailableError) Unwrap() error { return e.Err }

// StaticToken is a TokenSource that always returns the same token, such as an API key.
type StaticToken string

// Token implements TokenSource.
func (t StaticToken) Token(context.Context) (string, error) { return string(t), nil }

// Option configures a Client.
type Option func(*Client)

// WithHTTPClient makes the client send its requests with h. The default has no time limit for a whole response,
// because streams are responses, too; contexts limit calls.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h // redirects are not followed, and the caller's client stays as it is
		c.http = &own
	}
}

// WithUserAgent puts a program's name and version in front of the client's own User-Agent, as in "deploy/1.2". The
// organization's audit log shows it.
func WithUserAgent(name string) Option {
	return func(c *Client) { c.userAgent = name + " " + c.userAgent }
}

// WithAttempts makes the client send a request at most n times; 1 repeats nothing. The default is 5.
func WithAttempts(n int) Option {
	return func(c *Client) { c.retry.attempts = max(n, 1) }
}

// WithRetryNotice makes the client call notice before it waits to repeat a request that failed with err, so that a
// program can say why it pauses. Calls may be concurrent.
func WithRetryNotice(notice func(pause time.Duration, err error)) Option {
	return func(c *Client) { c.retry.notice = notice }
}

// New returns a client for the API at baseURL, such as https://api.example.com. The URL must have the scheme https,
// except for loopback addresses, because requests carry a token.
func New(baseURL string, tokens TokenSource, options ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(baseURL, "/"))
	if err != nil {
		return nil, errors.New("the API's base URL cannot be parsed. It must look like https://api.example.com")
	}
	if err := checkBase(base); err != nil {
		return nil, err
	}
	switch tokens {
	case nil:
		tokens = StaticToken("")
	case StaticToken(""):
		return nil, errors.New("the token is empty: set the API key, for example in AGENTS_API_KEY. Calls that need " +
			"no token take nil")
	}
	c := &Client{
		base: base, tokens: tokens, http: &http.Client{}, userAgent: "agents-go/" + version,
		retry: retryPolicy{attempts: 5, sleep: sleep},
	}
	for _, o := range options {
		o(c)
	}
	if c.http.Transport == nil {
		c.http.Transport = defaultTransport()
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func checkBase(u *url.URL) error {
	switch {
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the API's base URL must look like https://api.example.com")
	case u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return fmt.Errorf("the API's base URL must use https, because http shows the token to the network: %s", u)
	}
	return fmt.Errorf("the API's base URL must use https, not %q", u.Scheme)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	header         http.Header
	responseHeader *http.Header
	line           *json.RawMessage
	rehearsal      *Rehearsal
}

// IdempotencyKey makes a call that changes something safe to repeat with the same key for 24 hours, also by another
// process. Without it, every call gets a random key, which makes the client's own repeats safe.
func IdempotencyKey(key string) CallOption {
	return func(o *callOptions) { o.header.Set("Idempotency-Key", key) }
}

// RequestHeader sets a header of the request. The header Authorization is the TokenSource's.
func RequestHeader(name, value string) CallOption {
	return func(o *callOptions) { o.header.Set(name, value) }
}

// IfMatch makes a change of an agent, or of an organization's settings, fail with 412 if the object has another version
// than the one with this ETag.
func IfMatch(etag string) CallOption {
	return func(o *callOptions) { o.header.Set("If-Match", etag) }
}

// ResponseHeader stores the header of a successful response, such as ETag and X-Request-Id.
func ResponseHeader(h *http.Header) CallOption {
	return func(o *callOptions) { o.responseHeader = h }
}

// RawLine stores each line of an answer of lines as the API sent it, before the line's object is returned. A line has
// fields that only a later API knows, too.
func RawLine(line *json.RawMessage) CallOption {
	return func(o *callOptions) { o.line = line }
}

// DryRun rehearses a call that creates or changes an agent: the API checks everything and changes nothing. It stores in
// r what the call would do, and the method returns an empty object. Any other call with this option fails without being
// sent, because the API would carry it out.
func DryRun(r *Rehearsal) CallOption {
	return func(o *callOptions) { o.rehearsal = r }
}

// canBeRehearsed reports whether the API rehearses a call of a path without its query. It rehearses the calls that
// create or change an agent, but not what is done in its container.
func canBeRehearsed(method, path string) bool {
	if method == http.MethodGet || method == http.MethodHead {
		return false
	}
	ofAgent, isOfAgent := strings.CutPrefix(path, "/api/v1/agents/")
	_, action, _ := strings.Cut(ofAgent, "/")
	onlyCarriedOut := action == "credentials/reveal" || action == "exec" || action == "files"
	return path == "/api/v1/agents" || isOfAgent && !onlyCarriedOut
}

// sleep waits until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
