package front_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
)

// startAgain starts the front of the same agent in another process, with a clock that is as far.
func startAgain(t *testing.T, former *fixture, i *issuer, port int, change func(*front.Options)) *fixture {
	t.Helper()
	f := start(t, port, func(o *front.Options) {
		if o.KeysURL = i.url; change != nil {
			change(o)
		}
	})
	f.clock.advance(time.Duration(former.clock.offset.Load()))
	return f
}

// TestSession_SurvivesTheProcess: an agent that sleeps gets another front with each pod.
func TestSession_SurvivesTheProcess(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, echoRequest)
	former, i := startWithLinks(t, port)
	content := claims(former.clock.now(), "1")
	content["email"] = "ada@example.com"
	session := signIn(t, former, "/handoff?token="+sign(t, "ES256", i.key, content))
	former.clock.advance(30 * time.Minute)
	_ = former.end() // with a connection that is still open
	f := startAgain(t, former, i, port, nil)
	var pages sync.WaitGroup
	for range 10 {
		pages.Go(func() {
			got := f.arrived(t, "/", session).Header
			if got.Get("X-Forwarded-User") != "user_1" || got.Get("X-Forwarded-Email") != "ada@example.com" ||
				got.Get("X-Forwarded-Auth") != "session" || got.Get("Cookie") != "" {
				t.Errorf("the container sees %v, want the session's person and no cookie", got)
			}
		})
	}
	pages.Wait()
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the control plane was asked about the session %d times, want once", n)
	}
	f.clock.advance(29*time.Minute + 55*time.Second)
	f.wantStatus(t, session, http.StatusOK, "near the end of its hour")
	f.clock.advance(5 * time.Second)
	f.wantStatus(t, session, http.StatusUnauthorized, "after its hour")
	f.wantStatus(t, session, http.StatusUnauthorized, "after its hour, again")
}

// TestSession_OfAFormerProcessNeedsTheControlPlanesConsent: no request gets through before the control plane was asked.
func TestSession_OfAFormerProcessNeedsTheControlPlanesConsent(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, echoRequest)
	former, i := startWithLinks(t, port)
	link := i.link(t, former.clock.now(), "1")
	session := signIn(t, former, link)
	f := startAgain(t, former, i, port, nil)
	i.answerAbout(link, answerJSON(`{"active": false}`))
	f.wantStatus(t, session, http.StatusUnauthorized, "a user without rights")
	i.answerAbout(link, answerStatus(http.StatusServiceUnavailable))
	f.wantStatus(t, session, http.StatusUnauthorized, "the same user during an outage")
	f = startAgain(t, former, i, port, nil)
	f.wantStatus(t, session, http.StatusOK, "any user during an outage")
}

// TestSession_EndsWithTheCredentials changes one credential after the other, and the hostname.
func TestSession_EndsWithTheCredentials(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, echoRequest)
	former, i := startWithLinks(t, port)
	session := signIn(t, former, i.link(t, former.clock.now(), "1"))
	for name, change := range map[string]func(*front.Options){
		"another key":      func(o *front.Options) { o.Credentials.APIKey = "ak_another" },
		"another password": func(o *front.Options) { o.Credentials.Password = "another" },
		"another hostname": func(o *front.Options) { o.Hostname = "" },
	} {
		f := startAgain(t, former, i, port, change)
		f.wantStatus(t, session, http.StatusUnauthorized, name)
	}
	if i.asked.Load() != 0 {
		t.Error("the control plane was asked about a session of other credentials")
	}
}

// TestSession_TakesNoOtherCookie changes a cookie in every part.
func TestSession_TakesNoOtherCookie(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, echoRequest)
	former, i := startWithLinks(t, port)
	value := former.request(t, http.MethodGet, i.link(t, former.clock.now(), "1")).Cookies()[0].Value
	f := startAgain(t, former, i, port, nil)
	parts := strings.Split(value, ".")
	if len(parts) != 6 { // the link's token has three
		t.Fatalf("the cookie has %d parts", len(parts))
	}
	bad := map[string]string{
		"no value": "", "dots": "....", "no seal": strings.Join(parts[:5], "."), "more": value + "x",
		"a long value": value + strings.Repeat("x", 8<<10),
	}
	for n := range parts {
		other := strings.Split(value, ".")
		other[n] = "1" + other[n]
		bad["another part "+string('0'+rune(n))] = strings.Join(other, ".")
	}
	for name, cookie := range bad {
		if got, _ := f.get(t, "/", cookies("__Host-agent_session="+cookie)); got != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, got)
		}
	}
	if i.asked.Load() != 0 {
		t.Error("the control plane was asked about a cookie that is no session's")
	}
	f.wantStatus(t, cookies("__Host-agent_session="+value), http.StatusOK, "the cookie itself")
}

// TestSession_OfAFormerProcessEnds renews one and logs out of another one, whose cookies this process has not seen.
func TestSession_OfAFormerProcessEnds(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, echoRequest)
	former, i := startWithLinks(t, port)
	renewed := signIn(t, former, i.link(t, former.clock.now(), "1"))
	left := signIn(t, former, i.link(t, former.clock.now(), "2"))
	f := startAgain(t, former, i, port, nil)
	second := signIn(t, f, i.link(t, f.clock.now(), "3"), renewed)
	f.wantStatus(t, renewed, http.StatusUnauthorized, "the former cookie of a renewed session")
	f.wantStatus(t, second, http.StatusOK, "the renewed session")
	if got, body := f.get(t, "/logout", left); got != http.StatusOK || !strings.Contains(body, "signed out") {
		t.Errorf("a logout got %d: %s", got, body)
	}
	f.wantStatus(t, left, http.StatusUnauthorized, "after the logout")
}
