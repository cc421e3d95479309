package front

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// maxSessions bounds the sessions; a further one ends the oldest.
	maxSessions = 512
	// checkInterval is how often the control plane is asked about a session that is in use.
	checkInterval = 15 * time.Second

	// secureCookie is the cookie of a session over HTTPS. Its prefix keeps pages of other hosts from setting it.
	secureCookie = "__Host-agent_session"
	// plainCookie is the cookie of a session over HTTP, which exists on a developer's machine only. Browsers accept
	// the prefix __Host- over HTTPS only.
	plainCookie = "agent_session"
)

// sessions are the sessions that links started. They end by time, with the rights of their user, with a logout and with
// the process.
type sessions struct {
	now func() time.Time
	// goesOn asks the control plane whether the session of a link goes on. It is true if there is no answer: without
	// the control plane, sessions end by time.
	goesOn func(ctx context.Context, link string) bool

	mu sync.Mutex
	// byToken has the sessions by the digest of their token: a dump of the memory opens no dashboard.
	byToken map[digest]*session
}

type digest = [sha256.Size]byte

// session is what a link started.
type session struct {
	person
	// life ends with the session, and ends the requests that are in flight.
	life context.Context
	end  context.CancelFunc
	// checking is held while the control plane is asked.
	checking sync.Mutex

	// These fields are guarded by sessions.mu.

	token digest
	// link is the token of the link. It opens nothing, because it was redeemed.
	link              string
	endsAt, checkedAt time.Time
	inFlight          int
	// timer checks a session that has requests in flight; nil if none is set.
	timer *time.Timer
}

func newSessions(now func() time.Time, goesOn func(context.Context, string) bool) *sessions {
	return &sessions{now: now, goesOn: goesOn, byToken: map[digest]*session{}}
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byToken {
		s.drop(x)
	}
}

// start starts a session for a link's person and returns its token. If the browser has a session of the same person,
// start renews that one with all that is in flight, and the former token opens nothing any more.
func (s *sessions) start(req *http.Request, who person, link string) (token string) {
	token = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(req)
	if x != nil && x.person == who {
		delete(s.byToken, x.token)
	} else {
		s.makeRoom()
		x = &session{person: who}
		x.life, x.end = context.WithCancel(context.Background())
	}
	now := s.now()
	x.token, x.link = sha256.Sum256([]byte(token)), link
	x.endsAt, x.checkedAt = now.Add(dataplane.SessionTime), now
	s.byToken[x.token] = x
	return token
}

// makeRoom ends the session that would end first, if there are maxSessions.
func (s *sessions) makeRoom() {
	if len(s.byToken) < maxSessions {
		return
	}
	var first *session
	for _, x := range s.byToken {
		if first == nil || x.endsAt.Before(first.endsAt) {
			first = x
		}
	}
	s.drop(first)
}

// enter returns the session of a request, which is in flight until leave is called; nil for a request without one. It
// waits for the control plane if that was not asked lately.
func (s *sessions) enter(req *http.Request) *session {
	s.mu.Lock()
	x := s.find(req)
	if x == nil {
		s.mu.Unlock()
		return nil
	}
	x.inFlight++
	checked := s.now().Sub(x.checkedAt) < checkInterval
	if x.timer == nil {
		s.arm(x)
	}
	s.mu.Unlock()
	if !checked {
		s.check(x)
	}
	if x.life.Err() != nil {
		s.leave(x)
		return nil
	}
	return x
}

func (s *sessions) leave(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.inFlight--
}

// logout ends the session of a request, and reports whether it had one.
func (s *sessions) logout(req *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(req)
	if x != nil {
		s.drop(x)
	}
	return x != nil
}

// find returns the session to which a request belongs, or nil.
func (s *sessions) find(req *http.Request) *session {
	name, _ := cookieName(req)
	for _, cookie := range req.CookiesNamed(name) {
		x := s.byToken[sha256.Sum256([]byte(cookie.Value))]
		switch {
		case x == nil:
		case s.now().Before(x.endsAt):
			return x
		default:
			s.drop(x)
		}
	}
	return nil
}

func (s *sessions) drop(x *session) {
	delete(s.byToken, x.token)
	x.end()
	if x.timer != nil {
		x.timer.Stop()
	}
}

// arm sets the timer to when the session must be checked or ends.
func (s *sessions) arm(x *session) {
	next := x.checkedAt.Add(checkInterval)
	if x.endsAt.Before(next) {
		next = x.endsAt
	}
	x.timer = time.AfterFunc(next.Sub(s.now()), func() { s.tick(x) })
}

// tick checks a session that has requests in flight. An idle one is checked with its next request.
func (s *sessions) tick(x *session) {
	s.mu.Lock()
	if x.inFlight == 0 || x.life.Err() != nil {
		x.timer = nil
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.check(x)
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.timer = nil; x.life.Err() == nil {
		s.arm(x)
	}
}

// check ends a session whose time is over, or that the control plane says must end.
func (s *sessions) check(x *session) {
	x.checking.Lock()
	defer x.checking.Unlock()
	s.mu.Lock()
	now, link := s.now(), x.link
	over, checked := !now.Before(x.endsAt), now.Sub(x.checkedAt) < checkInterval
	if over {
		s.drop(x)
	}
	s.mu.Unlock()
	if over || checked {
		return
	}
	goesOn := s.goesOn(x.life, link)
	s.mu.Lock()
	defer s.mu.Unlock()
	x.checkedAt = now
	if !goesOn && x.link == link { // another link has not renewed it
		s.drop(x)
	}
}

// cookieName returns the name of the session's cookie. A router that does not say how the client connected gets the
// secure one.
func cookieName(req *http.Request) (name string, secure bool) {
	if strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "http") {
		return plainCookie, false
	}
	return secureCookie, true
}

// sessionCookie returns the cookie that carries a session's token. SameSite is Lax, because the link is on a page of
// another site, and the redirect that answers it continues that page's navigation: browsers send no Strict cookie with
// it, so the dashboard would ask for the password.
func sessionCookie(req *http.Request, token string) *http.Cookie {
	name, secure := cookieName(req)
	return &http.Cookie{
		Name: name, Value: token, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(dataplane.SessionTime / time.Second),
	}
}

// endedCookie returns the cookie that makes a browser forget its session.
func endedCookie(req *http.Request) *http.Cookie {
	cookie := sessionCookie(req, "")
	cookie.MaxAge = -1
	return cookie
}

// removeSessionCookies removes the front's cookies, and leaves all others as the client wrote them.
func removeSessionCookies(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			name, _, _ := strings.Cut(pair, "=")
			if name = strings.TrimSpace(name); pair != "" && name != secureCookie && name != plainCookie {
				kept = append(kept, pair)
			}
		}
	}
	if len(kept) == 0 {
		h.Del("Cookie")
		return
	}
	h.Set("Cookie", strings.Join(kept, "; "))
}
