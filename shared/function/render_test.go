package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// versioned is an output with an ETag and a Link.
type versioned struct{ raw bool }

// Reply implements function.Reply.
func (v versioned) Reply(h http.Header) any {
	h.Set("ETag", `"1"`)
	h.Add("Link", `</next>; rel="next"`)
	if v.raw {
		return function.Raw{ContentType: "text/plain", Bytes: []byte("as it is <&>")}
	}
	return echo{"x"}
}

func TestRaw_IsSentUnchanged(t *testing.T) {
	t.Parallel()
	h := servePublic(http.MethodGet, function.Handle(func(context.Context, function.Empty) (versioned, error) {
		return versioned{raw: true}, nil
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/test", nil))
	if w.Code != 200 {
		t.Errorf("status = %d, want 200", w.Code)
	}
	if got := w.Body.String(); got != "as it is <&>" {
		t.Errorf("body = %q, want %q", got, "as it is <&>")
	}
	checkHeader(t, w.Header(), "Content-Type", "text/plain")
	checkHeader(t, w.Header(), "Content-Length", "12")
}

// TestRoute_AnswersReadsOfAKnownVersionWith304 sends the current ETag with every request. A mutating call answers in
// full.
func TestRoute_AnswersReadsOfAKnownVersionWith304(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, routeMethod string
		wantStatus          int
		wantBody            string
	}{
		{method: http.MethodGet, routeMethod: http.MethodGet, wantStatus: 304},
		{method: http.MethodHead, routeMethod: http.MethodGet, wantStatus: 304},
		{method: http.MethodPost, routeMethod: http.MethodPost, wantStatus: 200, wantBody: "{\"text\":\"x\"}\n"},
	} {
		t.Run(c.method, func(t *testing.T) {
			t.Parallel()
			h := servePublic(c.routeMethod, function.Handle(func(context.Context, function.Empty) (versioned, error) {
				return versioned{}, nil
			}))
			req := httptest.NewRequest(c.method, "/test", nil)
			req.Header.Set("If-None-Match", `W/"0", W/"1"`)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != c.wantStatus {
				t.Errorf("status = %d, want %d", w.Code, c.wantStatus)
			}
			if got := w.Body.String(); got != c.wantBody {
				t.Errorf("body = %q, want %q", got, c.wantBody)
			}
			checkHeader(t, w.Header(), "ETag", `"1"`)
		})
	}
}

func TestDeprecation_IsAnnouncedInEveryResponse(t *testing.T) {
	t.Parallel()
	deprecationLinks := []string{
		`<https://docs.example.com/old>; rel="deprecation"; type="text/html"`,
		`</api/v2/test>; rel="successor-version"`,
	}
	for name, c := range map[string]struct {
		handlerErr error
		wantStatus int
		wantLinks  []string
	}{
		"success": {handlerErr: nil, wantStatus: 200, wantLinks: append(slices.Clone(deprecationLinks),
			`</next>; rel="next"`)},
		"error": {
			handlerErr: fault.New(fault.Conflict, "agent_deleting", "No."), wantStatus: 409,
			wantLinks: deprecationLinks,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := serveRoutes(function.Guard{}, function.Route{
				Name: "Test", Method: http.MethodGet, Path: "/test", Access: function.Public, Status: http.StatusOK,
				Handle: function.Handle(func(context.Context, function.Empty) (versioned, error) {
					return versioned{}, c.handlerErr
				}),
				Deprecated: &function.Deprecation{
					Since:  time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
					Sunset: time.Date(2027, time.January, 1, 1, 0, 0, 0, time.FixedZone("", 3600)),
					Link:   "https://docs.example.com/old", Successor: "/api/v2/test",
				},
			})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/test", nil))
			if w.Code != c.wantStatus {
				t.Errorf("status = %d, want %d", w.Code, c.wantStatus)
			}
			checkHeader(t, w.Header(), "Deprecation", "@1767225600")
			checkHeader(t, w.Header(), "Sunset", "Fri, 01 Jan 2027 00:00:00 GMT")
			if got := w.Header().Values("Link"); !slices.Equal(got, c.wantLinks) {
				t.Errorf("Link = %q, want %q", got, c.wantLinks)
			}
		})
	}
}
