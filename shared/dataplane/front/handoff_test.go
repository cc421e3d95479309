package front_test

import (
	"cmp"
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/handoff"
)

// startWithLinks starts a front that accepts an issuer's links.
func startWithLinks(t *testing.T, port int) (*fixture, *issuer) {
	t.Helper()
	i := newIssuer(t)
	return start(t, port, func(o *front.Options) { o.KeysURL = i.url }), i
}

// TestHandoff_AsksFromThePodsAddress: a gate on the way knows agents by it.
func TestHandoff_AsksFromThePodsAddress(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for _, source := range []string{"127.0.0.7", ""} {
		f := start(t, serveContainer(t, echoRequest), func(o *front.Options) { o.KeysURL, o.Source = i.url, source })
		link := i.link(t, f.clock.now(), "from "+source)
		if res := f.request(t, http.MethodGet, link); res.StatusCode != http.StatusSeeOther {
			t.Fatalf("from %q: status %d", source, res.StatusCode)
		}
		if got, want := i.from.Load(), cmp.Or(source, "127.0.0.1"); got != want {
			t.Errorf("asked from %v, want %s", got, want)
		}
	}
}

func TestHandoff_StartsASession(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[string]http.Cookie{
		"https": {Name: "__Host-agent_session", Secure: true}, "http": {Name: "agent_session"},
		"": {Name: "__Host-agent_session", Secure: true},
	} {
		f, i := startWithLinks(t, serveContainer(t, echoRequest))
		over := header("X-Forwarded-Proto", scheme)
		res := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1"), over)
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" ||
			res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Fatalf("over %q: status %d, header %v", scheme, res.StatusCode, res.Header)
		}
		c := res.Cookies()[0]
		if c.Name != want.Name || c.Secure != want.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" ||
			c.SameSite != http.SameSiteLaxMode {
			t.Errorf("over %q: cookie %v", scheme, c)
		}
		session := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) }
		arrived := f.arrived(t, "/", over, session).Header
		if arrived.Get("X-Forwarded-User") != "user_1" || arrived.Get("Cookie") != "" {
			t.Errorf("over %q: user %q and cookie %q arrived", scheme, arrived.Get("X-Forwarded-User"),
				arrived.Get("Cookie"))
		}
		if got, _ := f.get(t, "/v1/models", over, session); got != http.StatusUnauthorized {
			t.Errorf("over %q: the API answers a session with %d, want 401", scheme, got)
		}
		if got, _ := f.get(t, "/auth/check", over, session); got != http.StatusUnauthorized {
			t.Errorf("over %q: /auth/check answers a session with %d, want 401", scheme, got)
		}
		f.clock.advance(time.Hour - time.Second)
		f.arrived(t, "/", over, session)
		f.clock.advance(time.Second)
		if got, _ := f.get(t, "/", over, session); got != http.StatusUnauthorized {
			t.Errorf("over %q: after an hour status %d, want 401", scheme, got)
		}
	}
}

func TestHandoff_PlainCookieIsNoneOverHTTPS(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, echoRequest))
	res := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1"), header("X-Forwarded-Proto", "http"))
	token := res.Cookies()[0].Value
	if got, _ := f.get(t, "/", header("Cookie", "agent_session="+token)); got != http.StatusUnauthorized {
		t.Errorf("status %d, want 401: a page of another host may have set the cookie", got)
	}
}

func TestHandoff_RefusesWhatIsNoValidLink(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	private, _ := i.key.Key.(*ecdsa.PrivateKey)
	coordinates, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	symmetric := jose.JSONWebKey{Key: coordinates, KeyID: i.key.KeyID}
	now := f.clock.now()
	for name, c := range map[string]struct {
		algorithm jose.SignatureAlgorithm
		key       jose.JSONWebKey
		change    func(map[string]any)
	}{
		"for another agent":    {change: func(c map[string]any) { c["aud"] = "other.agents.test" }},
		"for no agent":         {change: func(c map[string]any) { delete(c, "aud") }},
		"from another issuer":  {change: func(c map[string]any) { c["iss"] = "https://evil.test" }},
		"expired":              {change: func(c map[string]any) { c["exp"] = now.Add(-10 * time.Second).Unix() }},
		"issued in the future": {change: func(c map[string]any) { c["iat"] = now.Add(time.Hour).Unix() }},
		"older than the front": {change: func(c map[string]any) { c["iat"] = now.Add(-30 * time.Second).Unix() }},
		"without an expiry":    {change: func(c map[string]any) { delete(c, "exp") }},
		"valid for a day":      {change: func(c map[string]any) { c["exp"] = now.Add(24 * time.Hour).Unix() }},
		"without a start":      {change: func(c map[string]any) { delete(c, "iat") }},
		"without an ID":        {change: func(c map[string]any) { delete(c, "jti") }},
		"without a user":       {change: func(c map[string]any) { delete(c, "sub") }},
		"with a bad user":      {change: func(c map[string]any) { c["sub"] = "a\r\nX: y" }},
		"of another key":       {key: newKey(t, i.key.KeyID)},
		"of an unknown key":    {key: newKey(t, "unknown")},
		"signed symmetrically": {algorithm: jose.HS256, key: symmetric},
	} {
		content := claims(now, "one")
		if c.change != nil {
			c.change(content)
		}
		if c.key.Key == nil {
			c.key = i.key
		}
		if c.algorithm == "" {
			c.algorithm = jose.ES256
		}
		token := sign(t, c.algorithm, c.key, content)
		res := f.request(t, http.MethodGet, "/handoff?token="+token, from("192.0.2."+string('0'+rune(len(name)%10))))
		if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) > 0 {
			t.Errorf("a link %s: status %d, cookies %v; want 401", name, res.StatusCode, res.Cookies())
		}
	}
	for _, token := range []string{"", "x", "eyJhbGciOiJub25lIn0.e30.", strings.Repeat("x", 10_000)} {
		if got, _ := f.get(t, "/handoff?token="+token); got != http.StatusUnauthorized {
			t.Errorf("token %.20q: status %d, want 401", token, got)
		}
	}
}

// TestHandoff_RefusesOtherTokensOfTheControlPlane sends what the control plane's key signed for other purposes, even if
// its claims were those of a link.
func TestHandoff_RefusesOtherTokensOfTheControlPlane(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	private, err := json.Marshal(i.key)
	if err != nil {
		t.Fatal(err)
	}
	var key handoff.Key
	if err := key.EnvDecode(string(private)); err != nil {
		t.Fatal(err)
	}
	now := f.clock.now()
	receipt, err := handoff.NewSigner(key).DeletionReceipt(agent.DeletionRecord{
		Deletion:    agent.Deletion{NamespaceGoneAt: now, VolumeGoneAt: now, SecretsGoneAt: now},
		CompletedAt: now,
	}, now)
	if err != nil || receipt == nil {
		t.Fatalf("receipt %v, %v", receipt, err)
	}
	for name, token := range map[string]string{
		"receipt": *receipt,
		"receipt with the claims of a link": signAs(t, handoff.ReceiptType, jose.ES256, i.key,
			claims(now, "receipt")),
		"statement with the claims of a link": signAs(t, handoff.SealType, jose.ES256, i.key, claims(now, "seal")),
	} {
		if got, _ := f.get(t, "/handoff?token="+token); got != http.StatusUnauthorized {
			t.Errorf("a %s: status %d, want 401", name, got)
		}
	}
	for i, token := range []string{
		signAs(t, "", jose.ES256, i.key, claims(now, "plain")), sign(t, jose.ES256, i.key, claims(now, "link")),
	} {
		if got, _ := f.get(t, "/handoff?token="+token); got != http.StatusSeeOther {
			t.Errorf("link %d: status %d, want 303", i, got)
		}
	}
}

func TestHandoff_RedeemsALinkOnce(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	link := i.link(t, f.clock.now(), "1")
	if res := f.request(t, http.MethodHead, link); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: status %d, want 405", res.StatusCode)
	}
	if got, _ := f.get(t, link); got != http.StatusSeeOther {
		t.Fatalf("status %d, want 303", got)
	}
	for range 3 {
		if got, _ := f.get(t, link); got != http.StatusUnauthorized {
			t.Errorf("later: status %d, want 401", got)
		}
		f.clock.advance(30 * time.Second)
	}
	if got := i.fetches.Load(); got != 1 {
		t.Errorf("the keys were fetched %d times, want once", got)
	}
}

func TestHandoff_RedeemsALinkOnceConcurrently(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	link := i.link(t, f.clock.now(), "1")
	statuses := make(chan int, 16)
	for range cap(statuses) {
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+link, nil)
			res, err := f.client.Do(req)
			if err != nil {
				statuses <- 0
				return
			}
			_ = res.Body.Close()
			statuses <- res.StatusCode
		}()
	}
	redeemed := 0
	for range cap(statuses) {
		if <-statuses == http.StatusSeeOther {
			redeemed++
		}
	}
	if redeemed != 1 {
		t.Errorf("the link was redeemed %d times, want once", redeemed)
	}
}

func TestHandoff_WithoutKeysRefusesEveryLink(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := start(t, refusingPort(t), nil)
	if got, _ := f.get(t, i.link(t, f.clock.now(), "1")); got != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", got)
	}
}

// TestKeys_FollowTheIssuer rotates the key, makes up key IDs, and stops the issuer.
func TestKeys_FollowTheIssuer(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	open := func(what, id string, want int) {
		t.Helper()
		if got, _ := f.get(t, i.link(t, f.clock.now(), id), from("192.0.2."+id)); got != want {
			t.Errorf("%s: status %d, want %d", what, got, want)
		}
	}
	former := i.key
	open("the first key", "1", http.StatusSeeOther)
	i.rotate(newKey(t, "second"))
	open("a new key, seconds after a fetch", "2", http.StatusUnauthorized)
	f.clock.advance(10 * time.Second)
	open("a new key, later", "3", http.StatusSeeOther)
	for range 10 {
		i.key = newKey(t, "made up")
		open("a made-up key", "4", http.StatusUnauthorized)
	}
	if got := i.fetches.Load(); got != 2 {
		t.Errorf("the keys were fetched %d times, want twice: unknown keys must not cause a fetch each", got)
	}
	i.key = former
	open("a withdrawn key", "5", http.StatusUnauthorized)
	i.rotate(newKey(t, "third"))
	f.clock.advance(10 * time.Second)
	open("the third key", "6", http.StatusSeeOther)
	i.down.Store(true)
	f.clock.advance(time.Hour)
	open("a known key while the issuer is down", "7", http.StatusSeeOther)
}

func TestKeys_WithdrawnKeyEndsToWork(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, refusingPort(t))
	f.get(t, i.link(t, f.clock.now(), "1"))
	withdrawn := i.key
	i.rotate(newKey(t, "second"))
	i.key = withdrawn
	f.clock.advance(11 * time.Minute)
	if got, _ := f.get(t, i.link(t, f.clock.now(), "2")); got != http.StatusUnauthorized {
		t.Errorf("status %d, want 401", got)
	}
}

// TestHandoff_AcceptsTheControlPlanesLinks fails when the two sides no longer agree.
func TestHandoff_AcceptsTheControlPlanesLinks(t *testing.T) {
	t.Parallel()
	if got := claims(time.Now(), "")["iss"]; got != handoff.Issuer {
		t.Errorf("the tests use the issuer %s, want %s", got, handoff.Issuer)
	}
	if handoff.Lifetime > 5*time.Minute {
		t.Errorf("links are valid for %v, more than the front accepts", handoff.Lifetime)
	}
}

func TestFront_RefusesRequestsOfOtherSitesPages(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, func(http.ResponseWriter, *http.Request) {}))
	c := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1")).Cookies()[0]
	session := func(r *http.Request) { r.AddCookie(c) }
	none := func(*http.Request) {}
	upgrade := func(r *http.Request) {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	}
	evil, own := header("Origin", "https://evil.test"), header("Origin", "https://"+hostname)
	sibling := header("Sec-Fetch-Site", "same-site")
	fetch := func(site, mode, destination string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", destination)
		}
	}
	for name, c := range map[string]struct {
		method string
		path   string
		as     func(*http.Request)
		of     func(*http.Request)
		with   func(*http.Request)
		want   int
	}{
		"own form":                   {method: "POST", path: "/", as: session, of: own, with: none, want: 200},
		"program":                    {method: "POST", path: "/", as: session, of: none, with: none, want: 200},
		"another site's form":        {method: "POST", path: "/", as: session, of: evil, with: none, want: 403},
		"another site's form, Basic": {method: "POST", path: "/", as: basic, of: evil, with: none, want: 403},
		"another agent's page":       {method: "DELETE", path: "/", as: session, of: sibling, with: none, want: 403},
		"another site's link":        {method: "GET", path: "/", as: session, of: evil, with: none, want: 200},
		"another agent's link": {
			method: "GET", path: "/", as: session, of: fetch("same-site", "navigate", "document"), with: none,
			want: 200,
		},
		"another site's link, Basic": {
			method: "GET", path: "/", as: basic, of: fetch("cross-site", "navigate", "document"), with: none, want: 200,
		},
		"another agent's frame": {
			method: "GET", path: "/", as: session, of: fetch("same-site", "navigate", "iframe"), with: none, want: 403,
		},
		"another agent's script": {
			method: "GET", path: "/", as: session, of: fetch("same-site", "no-cors", "script"), with: none, want: 403,
		},
		"another agent's fetch": {
			method: "GET", path: "/", as: session, of: fetch("same-site", "cors", "empty"), with: none, want: 403,
		},
		"another site's image, Basic": {
			method: "GET", path: "/", as: basic, of: fetch("cross-site", "no-cors", "image"), with: none, want: 403,
		},
		"own script": {
			method: "GET", path: "/", as: session, of: fetch("same-origin", "no-cors", "script"), with: none, want: 200,
		},
		"the address bar": {
			method: "GET", path: "/", as: session, of: fetch("none", "navigate", "document"), with: none, want: 200,
		},
		"another site's WebSocket":    {method: "GET", path: "/", as: session, of: evil, with: upgrade, want: 403},
		"another agent's WebSocket":   {method: "GET", path: "/", as: session, of: sibling, with: upgrade, want: 403},
		"own WebSocket":               {method: "GET", path: "/", as: session, of: own, with: upgrade, want: 200},
		"another site's use of a key": {method: "POST", path: "/v1/x", as: bearer, of: evil, with: none, want: 200},
	} {
		if res := f.request(t, c.method, c.path, c.as, c.of, c.with); res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, c.want)
		}
	}
}

// TestHandoff_CountsNoAttemptOfAnotherSitesPage sends what an image on another site's page makes a browser send.
func TestHandoff_CountsNoAttemptOfAnotherSitesPage(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, echoRequest))
	for _, to := range []string{"image", "iframe", "empty", "script"} {
		for range 10 { // together twice as many as may fail
			if got, _ := f.get(t, "/handoff?token=x", header("Sec-Fetch-Dest", to)); got != http.StatusForbidden {
				t.Fatalf("a bad link as %s: status %d, want 403", to, got)
			}
		}
		if got, _ := f.get(t, i.link(t, f.clock.now(), to), header("Sec-Fetch-Dest", to)); got != http.StatusForbidden {
			t.Errorf("a good link as %s: status %d, want 403", to, got)
		}
	}
	if got, _ := f.get(t, i.link(t, f.clock.now(), "image"), header("Sec-Fetch-Dest", "document")); got !=
		http.StatusSeeOther {
		t.Errorf("the user's link after that: status %d, want 303", got)
	}
}
