package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxBody bounds what is read of an answer that is not a stream.
const maxBody = 64 << 20

// call is one operation with its parameters.
type call struct {
	method string
	// path has a %s for each of args.
	path  string
	args  []string
	query url.Values
	body  any
}

// setParam sets a query parameter, unless it has its zero value.
func setParam[T comparable](query url.Values, name string, value T) {
	var zero T
	if value == zero {
		return
	}
	if t, ok := any(value).(time.Time); ok {
		query.Set(name, t.UTC().Format(time.RFC3339Nano))
		return
	}
	query.Set(name, fmt.Sprint(value))
}

// sendFor sends a call whose answer is one object.
func sendFor[T any](ctx context.Context, c *Client, r call, options []CallOption) (*T, error) {
	var out T
	if err := c.send(ctx, r, &out, options); err != nil {
		return nil, err
	}
	return &out, nil
}

// sendForList sends a call whose answer is a list in one page.
func sendForList[T any](ctx context.Context, c *Client, r call, options []CallOption) ([]T, error) {
	out, err := sendFor[[]T](ctx, c, r, options)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// send sends a call and decodes its answer into out, which may be nil.
func (c *Client) send(ctx context.Context, r call, out any, options []CallOption) error {
	res, err := c.open(ctx, r, "application/json", options)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // the answer was read
	if out == nil || res.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("%s %s: the answer cannot be read: %w", r.method, r.path, err)
	}
	return nil
}

// open sends a call, as often as needed, and returns a successful answer.
func (c *Client) open(ctx context.Context, r call, accept string, options []CallOption) (*http.Response, error) {
	o := callOptions{header: http.Header{"Accept": {accept}}}
	if r.method != http.MethodGet {
		o.header.Set("Idempotency-Key", rand.Text())
	}
	for _, option := range options {
		option(&o)
	}
	path, err := r.escaped()
	if err != nil {
		return nil, err
	}
	target := *c.base
	target.RawPath, target.RawQuery = c.base.EscapedPath()+path, r.query.Encode()
	if target.Path, err = url.PathUnescape(target.RawPath); err != nil {
		return nil, err
	}
	var body []byte
	if r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("%s %s: the request cannot be written: %w", r.method, r.path, err)
		}
		o.header.Set("Content-Type", "application/json")
	}
	o.header.Set("User-Agent", c.userAgent)
	res, err := c.retry.do(ctx, func() (*http.Response, error) {
		return c.once(ctx, r.method, target.String(), body, o.header)
	})
	if err != nil {
		return nil, err
	}
	if o.responseHeader != nil {
		*o.responseHeader = res.Header
	}
	return res, nil
}

// escaped returns the path with its arguments. An empty argument would name another resource.
func (r call) escaped() (string, error) {
	path := r.path
	for _, arg := range r.args {
		if arg == "" || arg == "." || arg == ".." {
			return "", fmt.Errorf("%s %s: %q is not an id", r.method, r.path, arg)
		}
		path = strings.Replace(path, "%s", url.PathEscape(arg), 1)
	}
	return path, nil
}

// once sends a request once. An answer that is no success is an *Error.
func (c *Client) once(
	ctx context.Context, method, target string, body []byte, header http.Header,
) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone()
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return nil, errors.Join(errNoToken, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close() //nolint:errcheck // the answer is an error already
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, err
	}
	return nil, readError(res, text)
}

// cloneWith returns a copy of the parameters with another value of one.
func cloneWith(query url.Values, name, value string) url.Values {
	changed := url.Values{}
	for k, v := range query {
		changed[k] = v
	}
	changed.Set(name, value)
	return changed
}
