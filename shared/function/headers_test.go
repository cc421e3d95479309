package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/function"
)

// tagged is an output with an entity tag, and with its own rule for caches if cache is set.
type tagged struct {
	Text  string `json:"text"`
	cache string
}

// Reply implements function.Reply.
func (t tagged) Reply(h http.Header) any {
	h.Set("ETag", `"1"`)
	if t.cache != "" {
		h.Set("Cache-Control", t.cache)
	}
	return t
}

// TestHandler_ForbidsCaching: no cache stores an answer to an authenticated call, or an error.
func TestHandler_ForbidsCaching(t *testing.T) {
	t.Parallel()
	route := func(path string, access function.Access, cache string) function.Route {
		return function.Route{
			Name: "Test", Method: http.MethodGet, Path: path, Access: access, Status: http.StatusOK,
			Handle: function.Handle(func(context.Context, function.Empty) (tagged, error) {
				return tagged{cache: cache}, nil
			}),
		}
	}
	h := serveRoutes(function.Guard{}, route("/own", function.User, ""), route("/public", function.Public, ""),
		route("/cached", function.Public, "public, max-age=300"))
	for name, c := range map[string]struct {
		path, token, knows string
		status             int
		cache              string
	}{
		"authenticated":               {path: "/own", token: "admin", status: 200, cache: "no-store"},
		"authenticated, not modified": {path: "/own", token: "admin", knows: `"1"`, status: 304, cache: "no-store"},
		"not authenticated":           {path: "/own", token: "wrong", status: 401, cache: "no-store"},
		"unknown path":                {path: "/none", status: 404, cache: "no-store"},
		"public":                      {path: "/public", status: 200, cache: ""},
		"public with a rule":          {path: "/cached", status: 200, cache: "public, max-age=300"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRequest(http.MethodGet, c.path, c.token, "")
			req.Header.Set("If-None-Match", c.knows)
			res := send(t, h, req)
			if res.status != c.status {
				t.Errorf("status = %d, want %d", res.status, c.status)
			}
			checkHeader(t, res.header, "Cache-Control", c.cache)
		})
	}
}

// TestHandler_SetsSecurityHeaders: browsers guess no media types, and keep to HTTPS once they have used it.
func TestHandler_SetsSecurityHeaders(t *testing.T) {
	t.Parallel()
	const hsts = "max-age=31536000"
	for name, c := range map[string]struct {
		path, token, scheme string
		hsts                string
	}{
		"success":         {path: "/authenticated", token: "admin", scheme: "https", hsts: hsts},
		"refusal":         {path: "/authenticated", token: "wrong", scheme: "https", hsts: hsts},
		"unknown path":    {path: "/none", scheme: "https", hsts: hsts},
		"worker":          {path: "/workers/Work", token: "wrong", scheme: "https", hsts: hsts},
		"plain HTTP":      {path: "/public", scheme: "http", hsts: ""},
		"unknown scheme":  {path: "/public", scheme: "", hsts: ""},
		"doubtful scheme": {path: "/public", scheme: "http, https", hsts: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := newRequest(http.MethodPost, c.path, c.token, validBody)
			req.Header.Set("X-Forwarded-Proto", c.scheme)
			res := send(t, slowRoutes(), req)
			checkHeader(t, res.header, "X-Content-Type-Options", "nosniff")
			checkHeader(t, res.header, "Strict-Transport-Security", c.hsts)
		})
	}
}

// TestHandler_JoinsTheLinesOfAHeader: a list of versions may be in several lines, and none is no missing condition.
func TestHandler_JoinsTheLinesOfAHeader(t *testing.T) {
	t.Parallel()
	type input struct {
		Header struct {
			IfMatch string `json:"If-Match,omitempty"`
		} `json:"header"`
	}
	h := serveRoutes(function.Guard{}, function.Route{
		Name: "Test", Method: http.MethodGet, Path: "/test", Access: function.Public, Status: http.StatusOK,
		Handle: function.Handle(func(_ context.Context, in input) (tagged, error) {
			return tagged{Text: in.Header.IfMatch}, nil
		}),
	})
	for _, row := range []struct {
		lines []string
		want  string
	}{
		{want: `{"text":""}`},
		{lines: []string{`"1"`}, want: `{"text":"\"1\""}`},
		{lines: []string{`"1"`, `"2"`}, want: `{"text":"\"1\", \"2\""}`},
		{lines: []string{""}, want: `{"text":","}`},
	} {
		req := httptest.NewRequest(http.MethodGet, "/test", nil)
		req.Header["If-Match"] = row.lines
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if got := strings.TrimSpace(w.Body.String()); got != row.want {
			t.Errorf("If-Match in the lines %q: got %s, want %s", row.lines, got, row.want)
		}
	}
}
