package googleidentity_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/oauth2"
	"google.golang.org/api/option"

	"agents.example/controlplane/infra/googleidentity"
)

func TestEmail_IsTheVerifiedOneOfTheCredentials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status    int
		body      string
		wantEmail string
	}{
		"verified": {
			status: 200, body: `{"email": "ada@example.com", "verified_email": true}`, wantEmail: "ada@example.com",
		},
		"not verified": {status: 200, body: `{"email": "ada@example.com", "verified_email": false}`},
		"no email":     {status: 200, body: `{"id": "1"}`},
		"refused":      {status: 401, body: `{"error": {"code": 401}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			authorization := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				authorization = r.Header.Get("Authorization")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(server.Close)
			got, err := googleidentity.Email(t.Context(), option.WithEndpoint(server.URL),
				option.WithTokenSource(oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "of-ada"})))
			if got != c.wantEmail || (err == nil) != (c.wantEmail != "") {
				t.Errorf("Email = %q, %v, want %q", got, err, c.wantEmail)
			}
			if authorization != "Bearer of-ada" {
				t.Errorf("Authorization = %q, want the token of the credentials", authorization)
			}
		})
	}
}
