package system_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
)

// getResource calls the route at a path as a client of another host.
func getResource(s system.SignIn, path string) *httptest.ResponseRecorder {
	var served []function.Served
	for _, r := range system.ProtectedResources(s) {
		served = append(served, r.Served(function.Guard{}))
	}
	return get(function.Mux(served), "http://attacker.example"+path, "X-Forwarded-Host", "attacker.example")
}

func TestProtectedResource_NamesTheIdentityProvider(t *testing.T) {
	t.Parallel()
	s := system.SignIn{
		BaseURL: "https://api.example.com", Issuer: "https://issuer.example.com", ClientID: "agentctl-1",
		Scopes: "openid offline_access",
	}
	for path, resource := range map[string]string{"": "https://api.example.com", "/mcp": "https://api.example.com/mcp"} {
		w := getResource(s, "/.well-known/oauth-protected-resource"+path)
		want := map[string]any{
			"resource": resource, "authorization_servers": []any{"https://issuer.example.com"},
			"bearer_methods_supported": []any{"header"}, "scopes_supported": []any{"openid", "offline_access"},
			"resource_documentation": "https://api.example.com/docs", "agentctl_client_id": "agentctl-1",
		}
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v: %s", path, err, w.Body)
		}
		if diff := cmp.Diff(want, got); w.Code != 200 || diff != "" {
			t.Errorf("%q: status %d, document (-want +got):\n%s", path, w.Code, diff)
		}
		if got := w.Header().Get("Cache-Control"); got != "public, max-age=300" {
			t.Errorf("%q: Cache-Control = %q, want five minutes", path, got)
		}
	}
}

func TestProtectedResource_OmitsWhatIsNotConfigured(t *testing.T) {
	t.Parallel()
	const path = "/.well-known/oauth-protected-resource"
	w := getResource(system.SignIn{BaseURL: "https://api.example.com", Issuer: "https://issuer.example.com"}, path)
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if client, has := got["agentctl_client_id"]; has || got["resource"] != "https://api.example.com" {
		t.Errorf("without a client: client %v, document %v; want the API and no client", client, got)
	}
	if w := getResource(system.SignIn{Issuer: "https://issuer.example.com"}, path); w.Code != 404 {
		t.Errorf("without an address: status %d: %s; want 404, because the request's host proves nothing",
			w.Code, w.Body)
	}
}
