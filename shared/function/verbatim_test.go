package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/function"
)

// TestVerbatim: a body that somebody signed reaches the handler byte for byte, whatever it is.
func TestVerbatim(t *testing.T) {
	t.Parallel()
	var got string
	r := function.Route{
		Name: "Verbatim", Method: http.MethodPost, Path: "/v", Access: function.Public, Status: http.StatusOK,
		BodyLimit: 100,
		Handle: function.Handle(func(_ context.Context, in struct {
			Body function.Verbatim `json:"body"`
		},
		) (function.None, error) {
			got = string(in.Body)
			return function.None{}, nil
		}),
	}
	for _, body := range []string{"", "{ \"b\" : 1.0,\n \"a\":2 }", "no JSON", "\xff\x00", "null",
		strings.Repeat("x", 100)} {
		got = "not called"
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/v", strings.NewReader(body))
		req.Header.Set("Content-Type", "text/plain")
		r.Handler(function.Guard{}).ServeHTTP(w, req)
		if w.Code != http.StatusOK || got != body {
			t.Errorf("sent %q: %d, the handler got %q", body, w.Code, got)
		}
	}
	w := httptest.NewRecorder()
	r.Handler(function.Guard{}).ServeHTTP(w,
		httptest.NewRequest(http.MethodPost, "/v", strings.NewReader(strings.Repeat("x", 101))))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: %d", w.Code)
	}
}
