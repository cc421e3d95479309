// Package functiontest calls routes in tests. Call runs one route with a caller and a body. The package does not open
// what routes depend on; package backendtest does.
package functiontest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/shared/function"
)

// Response is the answer of a route.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// JSON is the body if it is a JSON object.
	JSON map[string]any
}

// Code returns the error code of the answer; empty for a success.
func (r Response) Code() string {
	code, _ := r.JSON["code"].(string)
	return code
}

// Text returns a field of the JSON object if it is a string.
func (r Response) Text(field string) string {
	text, _ := r.JSON[field].(string)
	return text
}

// Decode decodes the body, for answers that are no JSON object.
func (r Response) Decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, into); err != nil {
		t.Fatalf("the answer is %s: %v", r.Body, err)
	}
}

// Want fails the test if the status or the error code is another one. An empty code means a success.
func (r Response) Want(t testing.TB, status int, code string) Response {
	t.Helper()
	if r.Status != status || r.Code() != code {
		t.Fatalf("answer %d %q, want %d %q: %s", r.Status, r.Code(), status, code, r.Body)
	}
	return r
}

// Request is a call that options put together.
type Request struct {
	ctx      context.Context
	guard    function.Guard
	path     map[string]string
	query    url.Values
	rawQuery string
	header   http.Header
	body     []byte
	bad      error // why the body cannot be encoded
}

// Option sets one part of a call.
type Option func(*Request)

// WithGuard calls the route behind another guard than NewGuard().
func WithGuard(g function.Guard) Option { return func(r *Request) { r.guard = g } }

// WithContext makes the call with a context.
func WithContext(ctx context.Context) Option { return func(r *Request) { r.ctx = ctx } }

// Path sets a path parameter.
func Path(name, value string) Option { return func(r *Request) { r.path[name] = value } }

// Query adds query parameters.
func Query(values url.Values) Option {
	return func(r *Request) {
		for name, list := range values {
			r.query[name] = append(r.query[name], list...)
		}
	}
}

// RawQuery replaces the query by one that is sent as it is.
func RawQuery(query string) Option { return func(r *Request) { r.rawQuery = query } }

// Header sets a header.
func Header(name, value string) Option { return func(r *Request) { r.header.Set(name, value) } }

// Body sends a value as JSON.
func Body(v any) Option {
	return func(r *Request) {
		r.body, r.bad = json.Marshal(v)
		r.header.Set("Content-Type", "application/json")
	}
}

// RawBody sends a body as it is, with the content type of JSON.
func RawBody(body string) Option {
	return func(r *Request) {
		r.body = []byte(body)
		r.header.Set("Content-Type", "application/json")
	}
}

// Call calls a route. Without a caller (AsAdmin, AsMember, AsUser, WithToken) it sends no token.
func Call(t testing.TB, route function.Route, options ...Option) Response {
	t.Helper()
	r := build(t, options)
	handler := function.Mux([]function.Served{route.Served(r.guard)})
	return r.send(handler, route.Method, fillPath(t, route.Path, r.path))
}

// Send sends a request to a handler, such as that of the whole catalogue. The path has no parameters.
func Send(t testing.TB, handler http.Handler, method, path string, options ...Option) Response {
	t.Helper()
	return build(t, options).send(handler, method, path)
}

func build(t testing.TB, options []Option) *Request {
	t.Helper()
	r := &Request{
		ctx: t.Context(), guard: NewGuard(), path: map[string]string{}, query: url.Values{}, header: http.Header{},
	}
	for _, set := range options {
		set(r)
	}
	if r.bad != nil {
		t.Fatalf("encode the body: %v", r.bad)
	}
	return r
}

func (r *Request) send(handler http.Handler, method, path string) Response {
	req := httptest.NewRequestWithContext(r.ctx, method, path, bytes.NewReader(r.body))
	req.Header = r.header
	req.URL.RawQuery = cmp.Or(r.rawQuery, r.query.Encode(), req.URL.RawQuery)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	res := Response{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
	_ = json.Unmarshal(res.Body, &res.JSON) // the body may be a list, or no JSON at all
	return res
}

// Serve serves a handler over TCP until the test ends, with the server of deployed processes.
func Serve(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config = function.NewServer(handler)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// fillPath puts values in place of the parameters of a path.
func fillPath(t testing.TB, path string, values map[string]string) string {
	t.Helper()
	for name, value := range values {
		path = strings.ReplaceAll(path, "{"+name+"...}", value)
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if strings.Contains(path, "{") {
		t.Fatalf("the path %s has a parameter without a value: add functiontest.Path(name, value)", path)
	}
	return path
}

// CheckRefusals calls a route as every caller that an access refuses.
func CheckRefusals(t testing.TB, route function.Route, access function.Access, options ...Option) {
	t.Helper()
	refuses := func(as Option, status int, code string) {
		t.Helper()
		if res := Call(t, route, append(options, as)...); res.Status != status || res.Code() != code {
			t.Errorf("%s answers %d %q, want %d %q", route.Name, res.Status, res.Code(), status, code)
		}
	}
	if access == function.Public {
		return
	}
	refuses(func(*Request) {}, http.StatusUnauthorized, "missing_token")
	refuses(WithToken("garbage"), http.StatusUnauthorized, "invalid_token")
	if access != function.User {
		refuses(AsUser(), http.StatusForbidden, "organization_required")
	}
	if access == function.Admin {
		refuses(AsMember("org-1"), http.StatusForbidden, "role_required")
	}
}
