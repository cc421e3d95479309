package front

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

// testLink is a link's token that no key has signed: cookies are made of verified ones only.
const testLink = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1c2VyXzEifQ.c2lnbmF0dXJl"

func testSessions(t *testing.T) (s *sessions, visit func(value string) *session) {
	t.Helper()
	seal, err := newSeal(Credentials{Username: "u", Password: "p", APIKey: "k"}, "h")
	if err != nil {
		t.Fatal(err)
	}
	s = newSessions(time.Now, seal, func(context.Context, string) bool { return true })
	t.Cleanup(s.close)
	return s, func(value string) *session {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("Cookie", dataplane.SecureCookie+"="+value)
		x := s.enter(req)
		if x != nil {
			s.leave(x)
		}
		return x
	}
}

// TestCookie_FitsIntoABrowser has the longest token of a link.
func TestCookie_FitsIntoABrowser(t *testing.T) {
	t.Parallel()
	s, _ := testSessions(t)
	value := s.seal.write(strings.Repeat("x", maxToken), time.Now())
	cookie := sessionCookie(httptest.NewRequest(http.MethodGet, "/", nil), value)
	if n := len(cookie.String()); n > 4096 || len(value) > maxCookie {
		t.Errorf("the cookie has %d bytes, %d in its value, want at most 4096 and %d", n, len(value), maxCookie)
	}
}

// TestSessions_OfFormerProcessesAreBounded presents more cookies than there may be sessions.
func TestSessions_OfFormerProcessesAreBounded(t *testing.T) {
	t.Parallel()
	s, visit := testSessions(t)
	values := make([]string, maxSessions+1)
	for n := range values {
		values[n] = s.seal.write(testLink, time.Now().Add(time.Hour+time.Duration(n)*time.Second))
		if x := visit(values[n]); x == nil || x.id != "user_1" {
			t.Fatalf("cookie %d opens the session %v", n, x)
		}
	}
	if n := len(s.byToken); n != maxSessions {
		t.Errorf("there are %d sessions, want %d", n, maxSessions)
	}
	if visit(values[0]) != nil || visit(values[1]) == nil {
		t.Error("a further session has not ended the oldest one for good")
	}
}

// TestSessions_ThatEndedStayEnded ends more sessions than are remembered.
func TestSessions_ThatEndedStayEnded(t *testing.T) {
	t.Parallel()
	s, visit := testSessions(t)
	end := time.Now().Add(30 * time.Minute)
	first := s.seal.write(testLink, end)
	later := s.seal.write(testLink, end.Add(time.Minute))
	for n := range maxEnded + 10 {
		value := first
		if n > 0 {
			value = s.seal.write(testLink, end.Add(time.Duration(n)*time.Millisecond))
		}
		x := visit(value)
		if x == nil {
			t.Fatalf("session %d does not begin", n)
		}
		s.mu.Lock()
		s.drop(x)
		s.mu.Unlock()
	}
	if n := len(s.ended); n != maxEnded {
		t.Errorf("%d ended sessions are remembered, want %d", n, maxEnded)
	}
	if _, known := s.ended[sha256.Sum256([]byte(first))]; known || visit(first) != nil {
		t.Errorf("the first ended session is remembered (%t), or goes on", known)
	}
	if visit(later) == nil {
		t.Error("a session that ends later than those is refused")
	}
}
