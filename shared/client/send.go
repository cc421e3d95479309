package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// maxBody bounds an answer that is not a stream.
const maxBody = 64 << 20

// call is one operation with its parameters.
type call struct {
	method string
	// path has a %s for each of args.
	path  string
	args  []string
	query url.Values
	body  any
	// held is how long the API may take in addition to patience.
	held time.Duration
}

// setParam sets a query parameter, unless it has its zero value.
func setParam(query url.Values, name string, value any) {
	switch v := value.(type) {
	case time.Time:
		if !v.IsZero() {
			query.Set(name, v.UTC().Format(time.RFC3339Nano))
		}
	case []string:
		query[name] = append(query[name], v...)
	default:
		if !reflect.ValueOf(value).IsZero() {
			query.Set(name, fmt.Sprint(value))
		}
	}
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
	q, err := c.prepare(r, "application/json", options)
	if err != nil {
		return err
	}
	return c.complete(ctx, q, out)
}

// complete sends a request, as often as needed, and decodes the answer into out. Without out, the answer has no body,
// or one in JSON that a later API adds: the page of a proxy is no success.
func (c *Client) complete(ctx context.Context, q *request, out any) error {
	text, err := retry(ctx, c.retry, func() ([]byte, error) { return c.fetch(ctx, q) })
	if err != nil {
		return err
	}
	switch {
	case q.rehearsal != nil:
		out = q.rehearsal
	case out == nil && len(text) == 0:
		return nil
	case out == nil:
		out = &json.RawMessage{}
	}
	return q.decode(text, out)
}

// decode decodes an answer into out.
func (q *request) decode(text []byte, out any) error {
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer to %s %s is not the expected JSON. "+
			"Check that the base URL is that of the API: %w", q.method, q.target, err)
	}
	return nil
}

// open sends a call, as often as needed, and returns a successful answer, whose body is a stream.
func (c *Client) open(ctx context.Context, r call, accept string, options []CallOption) (*http.Response, error) {
	q, err := c.prepare(r, accept, options)
	if err != nil {
		return nil, err
	}
	return retry(ctx, c.retry, func() (*http.Response, error) { return c.once(ctx, q) })
}

// request is what each attempt of a call sends. Repeats send the same idempotency key.
type request struct {
	method, target string
	body           []byte
	header         http.Header
	// rehearsal gets the answer in place of the call's result; nil for a real call.
	rehearsal *Rehearsal
	// answered gets the header of the answer; nil if the caller does not need it.
	answered *http.Header
	// line gets each line of the answer; nil if the caller does not need it.
	line *json.RawMessage
	// patience is how long to wait for an answer.
	patience time.Duration
	// refreshed is true once the token was replaced for this call.
	refreshed bool
}

// prepare checks a call and encodes it.
func (c *Client) prepare(r call, accept string, options []CallOption) (*request, error) {
	path, err := r.escaped()
	if err != nil {
		return nil, err
	}
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	var body []byte
	if r.body != nil {
		if body, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("%s %s: the request cannot be written: %w", r.method, path, err)
		}
		if hasReplacedBytes(body) {
			return nil, fmt.Errorf("%s %s: the request has a text that is not in UTF-8, so it was not sent. "+
				"Encode it, for example with base64", r.method, path)
		}
	}
	q, err := c.request(r.method, path, body, append([]CallOption{RequestHeader("Accept", accept)}, options...))
	if err != nil {
		return nil, err
	}
	q.patience += r.held
	if waits, ok := r.body.(held); ok {
		q.patience += waits.held()
	}
	return q, nil
}

// hasReplacedBytes reports whether package json has replaced bytes of a text that are not UTF-8, such as those of a
// secret. It writes an escape for them, and only for them.
func hasReplacedBytes(body []byte) bool {
	escape := []byte(`\ufffd`)
	// An even number of backslashes in front of it is text.
	return bytes.Contains(body, escape) && bytes.Contains(bytes.ReplaceAll(body, []byte(`\\`), nil), escape)
}

// request returns a request of a path with its query.
func (c *Client) request(method, path string, body []byte, options []CallOption) (*request, error) {
	o := callOptions{header: http.Header{"User-Agent": {c.userAgent}}}
	if method != http.MethodGet && method != http.MethodHead {
		o.header.Set("Idempotency-Key", rand.Text())
	}
	if body != nil {
		o.header.Set("Content-Type", "application/json")
	}
	for _, option := range options {
		option(&o)
	}
	for name, values := range o.header {
		if !isHeaderValue(values[0]) {
			return nil, fmt.Errorf("the header %s has a character that headers cannot have, such as a line break", name)
		}
	}
	if o.rehearsal != nil {
		plain, query, _ := strings.Cut(path, "?")
		if !canBeRehearsed(method, plain) {
			return nil, fmt.Errorf("%s %s cannot be rehearsed, so it was not sent", method, plain)
		}
		path = plain + "?" + strings.TrimPrefix(query+"&dry_run=true", "&")
	}
	return &request{
		method: method, target: c.base.String() + path, body: body, header: o.header, answered: o.responseHeader,
		line: o.line, rehearsal: o.rehearsal, patience: patience,
	}, nil
}

// isHeaderValue reports whether a value can be sent in a header.
func isHeaderValue(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// escaped returns the path with its arguments. An empty argument would name another resource.
func (r call) escaped() (string, error) {
	path := strings.Split(r.path, "%s")
	var b strings.Builder
	for i, literal := range path {
		b.WriteString(literal)
		if i == len(path)-1 {
			break
		}
		if arg := r.args[i]; arg == "" || arg == "." || arg == ".." {
			return "", fmt.Errorf("%s %s: %q is not an id", r.method, strings.ReplaceAll(r.path, "%s", "{id}"), arg)
		}
		b.WriteString(url.PathEscape(r.args[i]))
	}
	return b.String(), nil
}

// fetch sends a request once and reads the answer.
func (c *Client) fetch(ctx context.Context, q *request) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.patience, errNoAnswer{q.patience})
	defer cancel()
	res, err := c.once(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close() //nolint:errcheck // the answer was read
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxBody {
		return nil, permanentError{fmt.Errorf("the answer is longer than %d MiB", maxBody>>20)}
	}
	return text, nil
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
