package function_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// leaving is an answer whose client leaves after its first bytes.
type leaving struct{}

// Reply implements function.Reply.
func (leaving) Reply(http.Header) any {
	return function.Raw{ContentType: "text/plain", Stream: func(w io.Writer) error {
		_, err := w.Write(make([]byte, 32<<10))
		return cmp.Or(err, io.ErrClosedPipe)
	}}
}

// TestLineBudget_BoundsWhatAFloodIsLogged sends many calls within a second of each kind. Calls of strangers share a
// budget, and the next line has the number of those without one.
func TestLineBudget_BoundsWhatAFloodIsLogged(t *testing.T) { //nolint:paralleltest // captures the process's logger
	route := func(access function.Access, err error) function.Route {
		return function.Route{
			Name: string(access), Method: http.MethodGet, Path: "/" + string(access), Access: access,
			Status: http.StatusOK,
			Handle: function.Handle(func(context.Context, function.Empty) (function.None, error) {
				return function.None{}, err
			}),
		}
	}
	limited := fault.New(fault.RateLimited, "rate_limited", "Slower.")
	crowded := fault.New(fault.Unavailable, "too_many_requests_in_flight", "Retry.")
	left := route(function.Public, nil)
	left.Handle = function.Handle(func(context.Context, function.Empty) (leaving, error) { return leaving{}, nil })
	for name, c := range map[string]struct {
		route               function.Route
		method, path, token string
		want                int // lines of 25 calls
	}{
		"invalid token":      {route: route(function.Member, nil), token: "garbage", want: 10},
		"public":             {route: route(function.Public, nil), want: 10},
		"unknown path":       {route: route(function.Public, nil), path: "/none", want: 10},
		"unknown method":     {route: route(function.Public, nil), method: http.MethodPut, want: 10},
		"too many strangers": {route: route(function.Public, crowded), want: 10},
		"left by a stranger": {route: left, want: 10},
		"over a limit":       {route: route(function.Member, limited), token: "member", want: 10},
		"known caller":       {route: route(function.Member, nil), token: "member", want: 25},
		"refused to a known": {route: route(function.Admin, nil), token: "member", want: 25},
		"failure":            {route: route(function.Public, errors.New("broken")), want: 25},
		"outage":             {route: route(function.Member, nil), token: "outage", want: 25},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			logs := captureLogs(t, "")
			synctest.Test(t, func(t *testing.T) {
				h := serveRoutes(function.Guard{Lines: &function.LineBudget{}}, c.route)
				call := func() {
					req := httptest.NewRequest(cmp.Or(c.method, http.MethodGet), cmp.Or(c.path, c.route.Path), nil)
					req.Header.Set("Authorization", "Bearer "+c.token)
					h.ServeHTTP(httptest.NewRecorder(), req)
				}
				for range 25 {
					call()
				}
				if got := strings.Count(logs.String(), "\n"); got != c.want {
					t.Errorf("%d of 25 calls have a line, want %d", got, c.want)
				}
				<-time.After(time.Second)
				for _, want := range []int{25 - c.want, 0} {
					logs.Reset()
					call()
					var line struct {
						LeftOut int `json:"lines_left_out"`
					}
					if err := json.Unmarshal(logs.Bytes(), &line); err != nil || line.LeftOut != want {
						t.Errorf("the next line has %d lines left out, error %v; want %d", line.LeftOut, err, want)
					}
				}
			})
		})
	}
}

// TestHandler_LogsLongPathsInShortLines: a budget of lines bounds what is logged only if each line is short.
func TestHandler_LogsLongPathsInShortLines(t *testing.T) { //nolint:paralleltest // captures the process's logger
	const long, maxLine = 60 << 10, 8 << 10
	h := serveRoutes(function.Guard{}, function.Route{
		Name: "Test", Method: http.MethodGet, Path: "/test", Access: function.Public, Status: http.StatusOK,
	})
	for name, c := range map[string]struct{ method, path string }{
		"letters":            {path: strings.Repeat("a", long)},
		"invalid UTF-8":      {path: strings.Repeat("%ff", long/3)},
		"control characters": {path: strings.Repeat("%01", long/3)},
		"a long method":      {method: strings.Repeat("A", long), path: "test"},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see above
			logs := captureLogs(t, "")
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(cmp.Or(c.method, http.MethodGet), "/"+c.path, nil))
			if got := logs.Len(); got == 0 || got > maxLine {
				t.Errorf("the line has %d bytes, want 1 to %d", got, maxLine)
			}
		})
	}
}
