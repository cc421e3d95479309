package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/function"
)

// serveVerbatim serves a route with a body limit of 100 bytes, which stores its body in got.
func serveVerbatim(got *string) http.Handler {
	type input struct {
		Body function.Verbatim `json:"body"`
	}
	return serveRoutes(function.Guard{}, function.Route{
		Name: "Test", Method: http.MethodPost, Path: "/test", Access: function.Public, Status: http.StatusOK,
		BodyLimit: 100,
		Handle: function.Handle(func(_ context.Context, in input) (function.None, error) {
			*got = string(in.Body)
			return function.None{}, nil
		}),
	})
}

func TestVerbatim_ReachesTheHandlerUnchanged(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "{ \"b\" : 1.0,\n \"a\":2 }", "no JSON", "\xff\x00", "null", strings.Repeat("x", 100),
	} {
		got := "not called"
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/test", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		serveVerbatim(&got).ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Errorf("body %q: status = %d, want 200", body, w.Code)
		}
		if got != body {
			t.Errorf("handler got %q, want %q", got, body)
		}
	}
}

func TestVerbatim_IsDeclaredAsJSON(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]int{
		"": 200, "application/json": 200, "text/plain": 415, "application/x-www-form-urlencoded": 415, "nonsense": 415,
	} {
		var got string
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/test", strings.NewReader("{}"))
		req.Header.Set("Content-Type", contentType)
		serveVerbatim(&got).ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("Content-Type %q: status %d, want %d", contentType, w.Code, want)
		}
	}
}

func TestVerbatim_IsLimited(t *testing.T) {
	t.Parallel()
	var got string
	req := httptest.NewRequest(http.MethodPost, "/test", strings.NewReader(strings.Repeat("x", 101)))
	send(t, serveVerbatim(&got), req).check(t, http.StatusRequestEntityTooLarge, "body_too_large")
}
