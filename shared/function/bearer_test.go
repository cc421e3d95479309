package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
)

// TestBearer_PassesTheTokenOnWithoutReadingCallers calls a route with access Bearer behind a guard that cannot identify
// anyone.
func TestBearer_PassesTheTokenOnWithoutReadingCallers(t *testing.T) {
	t.Parallel()
	var got string
	handler := function.Route{
		Name: "Forward", Method: http.MethodPost, Path: "/forward", Access: function.Bearer, Status: http.StatusOK,
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (function.Raw, error) {
			got = call.From(ctx).Token
			return function.Raw{ContentType: "text/plain", Status: http.StatusAccepted}, nil
		}),
	}.Handler(function.Guard{})
	for _, c := range []struct {
		authorization string
		status        int
		token         string
	}{
		{status: http.StatusUnauthorized},
		{authorization: "Basic YTpi", status: http.StatusUnauthorized},
		{authorization: "Bearer a b", status: http.StatusUnauthorized},
		{authorization: "Bearer so_mistyped", status: http.StatusUnauthorized},
		{authorization: "Bearer abc", status: http.StatusAccepted, token: "abc"},
	} {
		got = ""
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/forward", nil)
		req.Header.Set("Authorization", c.authorization)
		handler.ServeHTTP(w, req)
		if w.Code != c.status || got != c.token {
			t.Errorf("Authorization %q: got %d and the token %q, want %d and %q", c.authorization, w.Code, got,
				c.status, c.token)
		}
		if c.status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("Authorization %q: the refusal does not ask for a token", c.authorization)
		}
	}
}
