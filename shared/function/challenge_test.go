package function_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

func TestChallenge_LeadsToTheResourceMetadata(t *testing.T) {
	t.Parallel()
	const document = "https://api.example.com/.well-known/oauth-protected-resource/x"
	for _, c := range []struct {
		authorization, document, want string
		fail                          error
	}{
		{document: document, want: `Bearer resource_metadata="` + document + `"`},
		{want: "Bearer"},
		{authorization: "Bearer abc", document: document},
		{authorization: "Bearer abc", document: document, fail: fault.New(fault.Conflict, "x", "x")},
		{
			authorization: "Bearer abc", document: document, fail: fault.New(fault.Unauthenticated, "x", "x"),
			want: `Bearer resource_metadata="` + document + `"`,
		},
	} {
		handler := function.Route{
			Name: "Forward", Method: http.MethodPost, Path: "/forward", Access: function.Bearer, Status: http.StatusOK,
			ResourceMetadata: c.document,
			Handle: function.Handle(func(context.Context, function.Empty) (function.Raw, error) {
				return function.Raw{ContentType: "text/plain"}, c.fail
			}),
		}.Handler(function.Guard{})
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/forward", nil)
		req.Header.Set("Authorization", c.authorization)
		handler.ServeHTTP(w, req)
		if got := w.Header().Get("WWW-Authenticate"); got != c.want {
			t.Errorf("%q, %v: status %d with WWW-Authenticate %q, want %q", c.authorization, c.fail, w.Code, got,
				c.want)
		}
	}
}
