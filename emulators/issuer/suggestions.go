package issuer

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// maxSuggestions bounds how many sessions the sign-in page remembers.
const maxSuggestions = 50

// suggestions are the sessions that the sign-in page offers, the last used first. They have no claims.
type suggestions struct {
	mu  sync.Mutex
	all []Session
}

func newSuggestions(first []Session) *suggestions {
	s := &suggestions{}
	for _, session := range first {
		s.add(session)
	}
	return s
}

// use puts a session first.
func (s *suggestions) use(session Session) {
	session = plain(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(s.all, func(other Session) bool { return isSame(session, other) })
	s.all = slices.Insert(others, 0, session)
	s.all = s.all[:min(len(s.all), maxSuggestions)]
}

// add puts a new session last. It ignores those that the sign-in page could not offer: sessions with claims that a
// test made, and invalid ones.
func (s *suggestions) add(session Session) {
	if len(session.Claims) > 0 {
		return
	}
	session = plain(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == maxSuggestions || len(checkSession(session)) > 0 ||
		slices.ContainsFunc(s.all, func(other Session) bool { return isSame(session, other) }) {
		return
	}
	s.all = append(s.all, session)
}

func (s *suggestions) list() []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// plain returns a session with its defaults filled in and without claims.
func plain(session Session) Session {
	p := Session{Subject: cmp.Or(session.Subject, defaultSubject), Organization: session.Organization}
	if p.Organization != "" {
		p.Role = cmp.Or(strings.TrimPrefix(session.Role, "org:"), roleMember)
	}
	return p
}

func isSame(a, b Session) bool {
	return a.Subject == b.Subject && a.Organization == b.Organization && a.Role == b.Role
}
