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

// tagged is an output with a version.
type tagged struct{ raw bool }

// Reply implements function.Reply.
func (t tagged) Reply(h http.Header) any {
	h.Set("ETag", `"1"`)
	h.Add("Link", `</next>; rel="next"`)
	if t.raw {
		return function.Raw{ContentType: "text/plain", Bytes: []byte("as it is <&>")}
	}
	return echo{"x"}
}

func served(r function.Route) http.Handler {
	r.Name, r.Path, r.Access, r.Status = "Test", "/test", function.Public, http.StatusOK
	return function.Mux([]function.Served{{Method: r.Method, Path: r.Path, Handler: r.Handler(function.Guard{})}})
}

func TestRaw(t *testing.T) {
	t.Parallel()
	h := served(function.Route{Method: http.MethodGet,
		Handle: function.Handle(func(context.Context, function.Empty) (tagged, error) {
			return tagged{raw: true}, nil
		})})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/test", nil))
	if w.Code != 200 || w.Body.String() != "as it is <&>" || w.Header().Get("Content-Type") != "text/plain" ||
		w.Header().Get("Content-Length") != "12" {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
}

// TestNotModified spares readers a body that they have. What changes something answers in full, whatever its client
// knows.
func TestNotModified(t *testing.T) {
	t.Parallel()
	for method, status := range map[string]int{http.MethodGet: 304, http.MethodHead: 304, http.MethodPost: 200} {
		route := method
		if method == http.MethodHead {
			route = http.MethodGet
		}
		h := served(function.Route{Method: route,
			Handle: function.Handle(func(context.Context, function.Empty) (tagged, error) {
				return tagged{}, nil
			})})
		req := httptest.NewRequest(method, "/test", nil)
		req.Header.Set("If-None-Match", `W/"0", W/"1"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != status || w.Header().Get("ETag") != `"1"` || (status == 304) != (w.Body.Len() == 0) {
			t.Errorf("%s: %d %v %q", method, w.Code, w.Header(), w.Body)
		}
	}
}

// TestDeprecation announces the end of a route in every answer, beside the links of the answer itself.
func TestDeprecation(t *testing.T) {
	t.Parallel()
	for status, fail := range map[int]error{200: nil, 409: fault.New(fault.Conflict, "agent_deleting", "No.")} {
		h := served(function.Route{
			Method: http.MethodGet, Handle: function.Handle(func(context.Context, function.Empty) (tagged,
				error) {
				return tagged{}, fail
			}),
			Deprecated: &function.Deprecation{
				Since:  time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
				Sunset: time.Date(2027, time.January, 1, 1, 0, 0, 0, time.FixedZone("", 3600)),
				Link:   "https://docs.example.com/old", Successor: "/api/v2/test",
			},
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/test", nil))
		want := []string{`<https://docs.example.com/old>; rel="deprecation"; type="text/html"`,
			`</api/v2/test>; rel="successor-version"`}
		if status == 200 {
			want = append(want, `</next>; rel="next"`)
		}
		if w.Code != status || w.Header().Get("Deprecation") != "@1767225600" ||
			w.Header().Get("Sunset") != "Fri, 01 Jan 2027 00:00:00 GMT" ||
			!slices.Equal(w.Header().Values("Link"), want) {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}
