package front

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// sessionTime is how long a session lasts.
	sessionTime = 12 * time.Hour
	// maxSessions bounds the sessions; a further one ends the oldest.
	maxSessions = 1024

	// secureCookie is the cookie of a session over HTTPS. Its prefix keeps pages of other hosts from setting it.
	secureCookie = "__Host-agent_session"
	// plainCookie is the cookie of a session over HTTP, which exists on a developer's machine only. Browsers accept
	// the prefix __Host- over HTTPS only.
	plainCookie = "agent_session"
)

// sessions are the sessions that links started. They end with the process.
type sessions struct {
	now func() time.Time

	mu sync.Mutex
	// ends and users have the end and the user of each session, by the digest of its token: a dump of the memory
	// opens no dashboard.
	ends  map[[sha256.Size]byte]time.Time
	users map[[sha256.Size]byte]string
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, ends: map[[sha256.Size]byte]time.Time{}, users: map[[sha256.Size]byte]string{}}
}

// start starts a session and returns its token.
func (s *sessions) start(user string) string {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) >= maxSessions {
		dropOldest(s.ends)
		for id := range s.users {
			if _, lasts := s.ends[id]; !lasts {
				delete(s.users, id)
			}
		}
	}
	id := sha256.Sum256([]byte(token))
	s.ends[id], s.users[id] = s.now().Add(sessionTime), user
	return token
}

// user returns the user of the session to which a request belongs.
func (s *sessions) user(req *http.Request) (string, bool) {
	name, _ := cookieName(req)
	for _, cookie := range req.CookiesNamed(name) {
		id := sha256.Sum256([]byte(cookie.Value))
		s.mu.Lock()
		user, end := s.users[id], s.ends[id]
		s.mu.Unlock()
		if user != "" && s.now().Before(end) {
			return user, true
		}
	}
	return "", false
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
		MaxAge: int(sessionTime / time.Second),
	}
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
