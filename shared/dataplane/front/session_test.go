package front_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
)

// signIn opens a link, and returns what adds the cookie of its session to a request.
func signIn(t *testing.T, f *fixture, link string, prepare ...func(*http.Request)) func(*http.Request) {
	t.Helper()
	res := f.request(t, http.MethodGet, link, prepare...)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("a link is answered with %d and cookies %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) }
}

// wantStatus makes a request in a session.
func (f *fixture) wantStatus(t *testing.T, session func(*http.Request), want int, when string) {
	t.Helper()
	if got, _ := f.get(t, "/", session); got != want {
		t.Errorf("%s: status %d, want %d", when, got, want)
	}
}

// nearCheck is how long after the last check of a session another one is near.
const nearCheck = 15*time.Second - 50*time.Millisecond

// stream is an open stream of a container that does not end it.
type stream struct{ body *bufio.Reader }

func openStream(t *testing.T, f *fixture, prepare ...func(*http.Request)) stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	bounded := func(r *http.Request) { *r = *r.WithContext(ctx) }
	s := stream{bufio.NewReader(f.request(t, http.MethodGet, "/stream", append(prepare, bounded)...).Body)}
	if line, err := s.body.ReadString('\n'); err != nil {
		t.Fatalf("the stream began with %q, %v", line, err)
	}
	return s
}

// wantBroken waits until the front breaks the stream off.
func (s stream) wantBroken(t *testing.T) {
	t.Helper()
	if rest, err := io.ReadAll(s.body); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the stream of a session that is over had %q more and ended with %v, want it broken", rest, err)
	}
}

// serveStream is a container whose streams end with their requests, and which answers all other requests.
func serveStream(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/stream" {
		return
	}
	_, _ = io.WriteString(w, "begun\n")
	_ = http.NewResponseController(w).Flush()
	<-req.Context().Done()
}

// TestSession_EndsWhenTheControlPlaneSaysSo takes away the rights of a user with two sessions at two times: one has a
// stream in flight, the other one is idle.
func TestSession_EndsWhenTheControlPlaneSaysSo(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, serveStream))
	link := i.link(t, f.clock.now(), "1")
	busy, other := signIn(t, f, link), signIn(t, f, i.link(t, f.clock.now(), "2"))
	f.clock.advance(nearCheck)
	stream := openStream(t, f, busy)
	i.answerAbout(link, answerJSON(`{"active": false}`))
	stream.wantBroken(t)
	f.wantStatus(t, busy, http.StatusUnauthorized, "the session that had the stream")
	f.wantStatus(t, other, http.StatusOK, "the session of another link")

	link = i.link(t, f.clock.now(), "3")
	idle := signIn(t, f, link)
	i.answerAbout(link, answerJSON(`{"active": false}`))
	f.wantStatus(t, idle, http.StatusOK, "before the next check")
	f.clock.advance(15 * time.Second)
	f.wantStatus(t, idle, http.StatusUnauthorized, "the first request after the check was due")
	f.wantStatus(t, other, http.StatusOK, "the session of another link")
}

// TestSession_GoesOnWithoutTheControlPlane gives answers that say nothing about the session, until its hour is over.
func TestSession_GoesOnWithoutTheControlPlane(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"an outage":                  answerStatus(http.StatusServiceUnavailable),
		"a release without sessions": answerStatus(http.StatusNotFound),
		"a page of another server":   answerJSON("<html>"),
		"another answer":             answerJSON(`{}`),
		"a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
	} {
		f, i := startWithLinks(t, serveContainer(t, serveStream))
		link := i.link(t, f.clock.now(), "1")
		session := signIn(t, f, link)
		i.answerAbout(link, answer)
		f.clock.advance(nearCheck)
		stream := openStream(t, f, session)
		f.clock.advance(45 * time.Minute)
		f.wantStatus(t, session, http.StatusOK, name)
		if i.asked.Load() == 0 {
			t.Errorf("%s: the control plane was not asked", name)
		}
		f.clock.advance(15 * time.Minute)
		f.wantStatus(t, session, http.StatusUnauthorized, name+", after an hour")
		stream.wantBroken(t)
	}
}

// TestSession_IsCheckedAtMostEvery15Seconds makes requests all the time.
func TestSession_IsCheckedAtMostEvery15Seconds(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, serveStream))
	session := signIn(t, f, i.link(t, f.clock.now(), "1"))
	for range 60 {
		f.clock.advance(time.Second)
		f.wantStatus(t, session, http.StatusOK, "a session in use")
	}
	if n := i.asked.Load(); n < 3 || n > 4 {
		t.Errorf("a session was checked %d times in a minute, want 4", n)
	}
	before := i.asked.Load()
	f.clock.advance(15 * time.Second)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { f.wantStatus(t, session, http.StatusOK, "a page with many parts") })
	}
	all.Wait()
	if n := i.asked.Load() - before; n != 1 {
		t.Errorf("concurrent requests checked a session %d times, want once", n)
	}
}

// TestSession_IsRenewedByALink opens another link in the same browser, for the same user and for another one.
func TestSession_IsRenewedByALink(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, serveStream))
	first := signIn(t, f, i.link(t, f.clock.now(), "1"))
	stream := openStream(t, f, first)
	f.clock.advance(59 * time.Minute)
	second := signIn(t, f, i.link(t, f.clock.now(), "2"), first)
	f.wantStatus(t, first, http.StatusUnauthorized, "the former cookie")
	f.clock.advance(59 * time.Minute)
	f.wantStatus(t, second, http.StatusOK, "the renewed session after two hours")
	f.clock.advance(time.Minute)
	f.wantStatus(t, second, http.StatusUnauthorized, "the renewed session an hour after its link")
	stream.wantBroken(t)
}

// TestLogout_EndsTheSessionOfTheBrowser logs out one of two browsers, which has a stream.
func TestLogout_EndsTheSessionOfTheBrowser(t *testing.T) {
	t.Parallel()
	f, i := startWithLinks(t, serveContainer(t, serveStream))
	mine, other := signIn(t, f, i.link(t, f.clock.now(), "1")), signIn(t, f, i.link(t, f.clock.now(), "2"))
	stream := openStream(t, f, mine)
	elsewhere := func(r *http.Request) {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Dest", "image")
	}
	if got, _ := f.get(t, "/logout", mine, elsewhere); got != http.StatusForbidden {
		t.Errorf("an image of another site's page: status %d, want 403", got)
	}
	f.wantStatus(t, mine, http.StatusOK, "after an image of another site's page")
	res := f.request(t, http.MethodGet, "/logout", mine)
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "signed out") ||
		res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a logout is answered with %d, header %v and %q, %v", res.StatusCode, res.Header, body, err)
	}
	if c := res.Cookies(); len(c) != 1 || c[0].Name != "__Host-agent_session" || c[0].Value != "" || c[0].MaxAge >= 0 {
		t.Errorf("a logout sets the cookies %v, want one that ends the session's", c)
	}
	stream.wantBroken(t)
	f.wantStatus(t, mine, http.StatusUnauthorized, "after the logout")
	f.wantStatus(t, other, http.StatusOK, "the other browser")
}

// TestLogout_IsTheContainersWithoutASession requests the path with a password, and without anything.
func TestLogout_IsTheContainersWithoutASession(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, echoRequest), func(o *front.Options) { o.KeysURL = "" })
	f.arrived(t, "/logout", basic)
	if got, _ := f.get(t, "/logout"); got != http.StatusUnauthorized {
		t.Errorf("without credentials: status %d, want 401", got)
	}
}
