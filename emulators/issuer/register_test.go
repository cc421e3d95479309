package issuer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/issuer"
)

// register registers an application, and returns the answer and its client id.
func (b browser) register(metadata string) (reply, string) {
	b.t.Helper()
	address, body := b.issuer.URL()+"/register", strings.NewReader(metadata)
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, address, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a := b.do(r)
	var registered struct {
		ID string `json:"client_id"`
	}
	if a.status == http.StatusCreated {
		if err := json.Unmarshal([]byte(a.body), &registered); err != nil || registered.ID == "" {
			b.t.Fatalf("the answer %s has no client id: %v", a.body, err)
		}
	}
	return a, registered.ID
}

func TestRegister_RefusesOtherRedirectURIs(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	for uri, want := range map[string]int{
		"https://assistant.example/callback": http.StatusCreated, "http://localhost:6274/oauth/callback": http.StatusCreated,
		"http://127.0.0.1/callback": http.StatusCreated, "editor://extension/callback": http.StatusCreated,
		"http://assistant.example/callback": http.StatusBadRequest, "javascript:alert(1)": http.StatusBadRequest,
		"https://assistant.example/#x": http.StatusBadRequest, "https://user@assistant.example/": http.StatusBadRequest,
		"https:///callback": http.StatusBadRequest, "/callback": http.StatusBadRequest, "": http.StatusBadRequest,
		"https://assistant.example/" + strings.Repeat("x", 2000): http.StatusBadRequest,
	} {
		if got, _ := b.register(fmt.Sprintf(`{"redirect_uris": [%q]}`, uri)); got.status != want {
			t.Errorf("%.60s: status %d, want %d: %s", uri, got.status, want, got.body)
		}
	}
	for metadata, code := range map[string]string{
		`{`: "invalid_client_metadata", `{}`: "invalid_redirect_uri",
		`{"redirect_uris": [` + strings.Repeat(`"https://a.example/",`, 10) + `"https://a.example/"]}`:  "invalid_redirect_uri",
		`{"redirect_uris": ["https://a.example/"], "token_endpoint_auth_method": "client_secret_post"}`: "invalid_client_metadata",
	} {
		if got, _ := b.register(metadata); got.status != http.StatusBadRequest || !strings.Contains(got.body, code) {
			t.Errorf("%.60s: %d %s, want 400 %s", metadata, got.status, got.body, code)
		}
	}
}

// TestRegister_ClientReturnsToItsOwnAddress signs a registered application in at its redirect URI, with another port
// too, and nowhere else. The user is asked although the browser is signed in.
func TestRegister_ClientReturnsToItsOwnAddress(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	_, id := b.register(`{"redirect_uris": ["http://localhost:6274/oauth/callback"], "client_name": "Inspector <1>"}`)
	form := func(redirect string) url.Values {
		return request(map[string]string{"client_id": id, "redirect_uri": redirect})
	}
	for redirect, want := range map[string]int{
		"http://localhost:6274/oauth/callback": http.StatusOK, "http://localhost:1/oauth/callback": http.StatusOK,
		"http://localhost:6274/": http.StatusBadRequest, "http://127.0.0.1:6274/oauth/callback": http.StatusBadRequest,
		"https://localhost:6274/oauth/callback": http.StatusBadRequest, "http://127.0.0.1:8080/console": http.StatusBadRequest,
	} {
		page := b.send("/authorize?"+form(redirect).Encode(), nil)
		if page.status != want || page.header.Get("Location") != "" {
			t.Errorf("%s: status %d, want the page with status %d", redirect, page.status, want)
		}
	}
	const redirect = "http://localhost:6274/oauth/callback"
	chosen := form(redirect)
	chosen.Set("subject", "user_1")
	back, err := url.Parse(b.send("/authorize", chosen).header.Get("Location"))
	if err != nil || back.Host != "localhost:6274" || back.Query().Get("code") == "" {
		t.Fatalf("the browser goes to %v (%v), want a code at the redirect URI", back, err)
	}
	of := map[string]string{"client_id": id, "redirect_uri": redirect}
	if r := b.exchange(back.Query().Get("code"), of); r.status != http.StatusOK {
		t.Errorf("the exchange has the status %d: %s, want tokens", r.status, r.body)
	}
	page := b.send("/authorize?"+form(redirect).Encode(), nil)
	if page.status != http.StatusOK || !strings.Contains(page.body, "Inspector &lt;1&gt;") ||
		!strings.Contains(page.body, "http://localhost:6274") {
		t.Errorf("a signed-in user gets %d %s, want the question who the application is for", page.status, page.body)
	}
}

// TestRegister_KeepsTheNewest registers more applications than the issuer remembers.
func TestRegister_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	const redirect = "https://assistant.example/callback"
	var ids []string
	for range 101 {
		_, id := b.register(`{"redirect_uris": ["` + redirect + `"]}`)
		ids = append(ids, id)
	}
	for n, want := range map[int]int{0: http.StatusBadRequest, 1: http.StatusOK, 100: http.StatusOK} {
		of := request(map[string]string{"client_id": ids[n], "redirect_uri": redirect})
		if page := b.send("/authorize?"+of.Encode(), nil); page.status != want {
			t.Errorf("client %d: status %d, want %d", n, page.status, want)
		}
	}
}
