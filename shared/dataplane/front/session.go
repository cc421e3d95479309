package front

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// maxSessions bounds the sessions; a further one ends the oldest.
	maxSessions = 512
	// checkInterval is how often the control plane is asked about a session that is in use.
	checkInterval = 15 * time.Second
	// maxEnded bounds the sessions that are remembered because they ended before their time.
	maxEnded = 4096
)

// sessions are the sessions that links started. They end by time, with the rights of their user, with a logout and with
// the agent's credentials. A new process of the front accepts the cookies of a former one until their end, and asks the
// control plane first. It does not know which sessions ended in the former process by a logout, by a link that renewed
// them, or for want of room: a copy of such a cookie, which its browser has forgotten, opens the dashboard again until
// the hour of its link is over. The control plane ends those whose user has lost the rights.
type sessions struct {
	now  func() time.Time
	seal seal
	// goesOn asks the control plane whether the session of a link goes on. It is true if there is no answer: without
	// the control plane, sessions end by time.
	goesOn func(ctx context.Context, link string) bool

	mu sync.Mutex
	// byToken has the sessions by the digests of their cookies' values.
	byToken map[digest]*session
	// ended has the end of the time of each session that ended before it.
	ended map[digest]time.Time
	// forgotten is the latest end of the sessions that were dropped from ended. Cookies of former processes are refused
	// until then, because they may be of those sessions.
	forgotten time.Time
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

	token digest // of the cookie's value
	// link is the token of the link. It opens nothing, because it was redeemed.
	link              string
	endsAt, checkedAt time.Time
	inFlight          int
	// timer checks a session that has requests in flight; nil if none is set.
	timer *time.Timer
}

func newSessions(now func() time.Time, s seal, goesOn func(context.Context, string) bool) *sessions {
	return &sessions{
		now: now, seal: s, goesOn: goesOn, byToken: map[digest]*session{}, ended: map[digest]time.Time{},
	}
}

// close ends all sessions.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byToken {
		s.drop(x)
	}
}

// start starts a session for a link's person and returns the value of its cookie. If the browser has a session of the
// same person, start renews that one with all that is in flight, and the former cookie opens nothing any more.
func (s *sessions) start(req *http.Request, who person, link string) (value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	endsAt := now.Add(dataplane.SessionTime)
	value = s.seal.write(link, endsAt)
	x := s.find(req)
	if x != nil && x.person == who {
		s.remove(x)
	} else {
		x = s.add(who)
	}
	x.token, x.link, x.endsAt, x.checkedAt = sha256.Sum256([]byte(value)), link, endsAt, now
	s.byToken[x.token] = x
	return value
}

// add makes a session. The caller sets its fields and its token.
func (s *sessions) add(who person) *session {
	s.makeRoom()
	x := &session{person: who}
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// restore makes the session of a cookie that another process of the front set; nil if the value is of no such cookie,
// or of a session that is over. Its first request waits until the control plane was asked.
func (s *sessions) restore(value string, token digest) *session {
	if _, ended := s.ended[token]; ended {
		return nil
	}
	who, link, endsAt, err := s.seal.read(value)
	if err != nil || !s.now().Before(endsAt) || !s.forgotten.Before(endsAt) {
		return nil
	}
	x := s.add(who)
	x.token, x.link, x.endsAt = token, link, endsAt
	s.byToken[token] = x
	return x
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
		token := sha256.Sum256([]byte(cookie.Value))
		x := s.byToken[token]
		if x == nil {
			x = s.restore(cookie.Value, token)
		}
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
	s.remove(x)
	x.end()
	if x.timer != nil {
		x.timer.Stop()
	}
}

// remove makes a session's cookie open nothing any more.
func (s *sessions) remove(x *session) {
	delete(s.byToken, x.token)
	now := s.now()
	if !now.Before(x.endsAt) {
		return
	}
	if len(s.ended) >= maxEnded {
		s.forget(now)
	}
	s.ended[x.token] = x.endsAt
}

// forget drops the ended sessions whose time is over, and one more if there is none.
func (s *sessions) forget(now time.Time) {
	for token, end := range s.ended {
		if !now.Before(end) {
			delete(s.ended, token)
		}
	}
	if len(s.ended) >= maxEnded {
		if _, end := dropOldest(s.ended); end.After(s.forgotten) {
			s.forgotten = end
		}
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
