package issuer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/issuer"
)

func TestTokenEndpoint_MintsOrRefuses(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{})
	v := verifier(ctx, t, i, "")
	tests := map[string]struct {
		media, body string
		status      int
		want        map[string]any
	}{
		"all fields": {
			media: "application/json; charset=utf-8",
			body:  `{"subject":"user_9","organization":"org_9","role":"admin","claims":{"name":"Nine","exp":4102444800}}`, status: 200,
			want: map[string]any{
				"sub": "user_9", "name": "Nine", "exp": 4102444800.0,
				"o": map[string]any{"id": "org_9", "rol": "admin", "slg": "org-9"},
			},
		},
		"empty body": {
			media: "application/json", body: "", status: 200,
			want: map[string]any{"sub": "user_developer", "o": nil},
		},
		"misspelled field": {media: "application/json", body: `{"organisation":"org_9"}`, status: 400},
		"invalid JSON":     {media: "application/json", body: `{`, status: 400},
		"form":             {media: "application/x-www-form-urlencoded", body: `subject=x`, status: 400},
		"text":             {media: "text/plain", body: `{"subject":"x"}`, status: 415},
		"body too long": {
			media: "application/json", body: `{"subject":"` + strings.Repeat("x", 70<<10) + `"}`,
			status: 400,
		},
		"no content type": {media: "", body: `{}`, status: 415},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := post(t, i.URL()+"/token", test.media, test.body)
			if status != test.status {
				t.Fatalf("status = %d (%s), want %d", status, body, test.status)
			}
			if status != http.StatusOK {
				return
			}
			var answer struct{ Token string }
			if err := json.Unmarshal(body, &answer); err != nil {
				t.Fatal(err)
			}
			got := verify(ctx, t, v, answer.Token)
			for claim, want := range test.want {
				if diff := cmp.Diff(want, got[claim]); diff != "" {
					t.Errorf("claim %s (-want +got):\n%s", claim, diff)
				}
			}
		})
	}
}

func post(t *testing.T, url, media, body string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}
