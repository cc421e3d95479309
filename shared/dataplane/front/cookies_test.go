package front_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane/front"
)

// cookies sends a Cookie header as another agent's page can arrange it in a browser.
func cookies(pairs ...string) func(*http.Request) { return header("Cookie", strings.Join(pairs, "; ")) }

// TestSession_IgnoresCookiesOfOtherAgents sends what pages of other agents may set for the parent domain: sessions of
// their own agent, and this agent's session under other names.
func TestSession_IgnoresCookiesOfOtherAgents(t *testing.T) {
	t.Parallel()
	const name = "__Host-agent_session="
	issuer := newIssuer(t)
	other := start(t, serveContainer(t, echoRequest), func(o *front.Options) {
		o.KeysURL, o.Credentials.APIKey = issuer.url, "ak_another"
	})
	foreign := other.request(t, http.MethodGet, issuer.link(t, other.clock.now(), "1")).Cookies()[0].Value
	f, i := startWithLinks(t, serveContainer(t, echoRequest))
	opened := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1"), cookies(name+foreign))
	if opened.StatusCode != http.StatusSeeOther {
		t.Fatalf("a link with another agent's cookie: status %d, want 303", opened.StatusCode)
	}
	own := opened.Cookies()[0].Value
	if own == foreign {
		t.Error("the session has the token that the browser sent")
	}
	for what, pair := range map[string]string{
		"another agent's session":    name + foreign,
		"the name over HTTP":         "agent_session=" + own,
		"another prefix":             "__Secure-agent_session=" + own,
		"the prefix in small type":   "__host-agent_session=" + own,
		"no token":                   name,
		"another agent's and HTTP's": name + foreign + "; agent_session=" + own,
	} {
		if got, _ := f.get(t, "/", cookies(pair)); got != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", what, got)
		}
	}
	// Cookies with longer paths come first.
	shadowed := append(strings.Split(strings.Repeat(name+foreign+" ", 25), " ")[:25], name+own)
	if got := f.arrived(t, "/", cookies(shadowed...)).Header; got.Get("X-Forwarded-User") != "user_1" ||
		got.Get("Cookie") != "" {
		t.Errorf("behind other agents' cookies: user %q and cookie %q arrived, want user_1 and none",
			got.Get("X-Forwarded-User"), got.Get("Cookie"))
	}
}

// TestFront_LargeCookiesFailAlone sends as many cookies as another agent's page can set, and requests of other clients
// on the same connections.
func TestFront_LargeCookiesFailAlone(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, echoRequest))
	opened := f.request(t, http.MethodGet, i.link(t, f.clock.now(), "1")).Cookies()[0]
	session := opened.Name + "=" + opened.Value
	bomb := "bomb=" + strings.Repeat("x", 4000)
	many := func(n int) []string { return append(strings.Split(strings.Repeat(bomb+" ", n), " ")[:n], session) }
	for range 3 {
		if got, _ := f.get(t, "/", cookies(many(5)...)); got != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("20 kB of cookies: status %d, want 431", got)
		}
		for what, prepare := range map[string]func(*http.Request){
			"the session in another browser": cookies(session), "a client with a password": basic,
			"the session with fewer cookies": cookies(many(3)...),
		} {
			if got, _ := f.get(t, "/", prepare); got != http.StatusOK {
				t.Errorf("%s: status %d, want 200", what, got)
			}
		}
	}
}
