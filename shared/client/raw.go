package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Do sends a request that no method of Client sends, and repeats it as the methods do. The path, with a query if there
// is one, is added to the base URL. A body is JSON unless RequestHeader says otherwise; nil sends none. The caller
// closes the body of the answer, which may be a stream. An answer that is no success is an *Error.
func (c *Client) Do(
	ctx context.Context, method, path string, body []byte, options ...CallOption,
) (*http.Response, error) {
	target, err := checkPath(path)
	if err != nil {
		return nil, err
	}
	q, err := c.request(method, target, body, options)
	if err != nil {
		return nil, err
	}
	answer, err := retry(ctx, c.retry, func() (*http.Response, error) { return c.once(ctx, q) })
	if err != nil || q.rehearsal == nil {
		return answer, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, q.decode(text, q.rehearsal)
}

// checkPath returns a path that cannot leave the base URL, because the request carries a token.
func checkPath(path string) (string, error) {
	u, err := url.Parse(path)
	if err != nil {
		return "", errors.New("the path cannot be parsed. It must look like /api/v1/agents?limit=10")
	}
	segments := strings.Split(u.Path, "/")
	switch {
	case u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/"):
		return "", fmt.Errorf("the path %q must begin with one slash, as in /api/v1/agents?limit=10", path)
	case u.Fragment != "":
		return "", fmt.Errorf("the path %q must not have a fragment (#)", path)
	case slices.Contains(segments, ".") || slices.Contains(segments, ".."):
		return "", fmt.Errorf("the path %q must not have . or .. between slashes", path)
	}
	return u.String(), nil
}
