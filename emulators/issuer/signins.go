package issuer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"maps"
	"sync"
	"time"
)

const (
	codeTTL   = time.Minute
	ticketTTL = 10 * time.Minute
	// signInTTL is how long a browser stays signed in, and how long its tokens can be renewed.
	signInTTL = 24 * time.Hour
)

// signIn is one sign-in of a user. The session of its browser, and all codes and refresh tokens that descend from it,
// refer to it.
type signIn struct {
	session Session
	id      string // the claim sid
	at      time.Time
	ended   bool
}

// code is an authorization code.
type code struct {
	*signIn
	redirectURI, challenge, nonce, scope string
	family                               *family
	expires                              time.Time
	used                                 bool
}

// family is the chain of refresh tokens that descend from one code.
type family struct {
	*signIn
	client  string // its ID
	scope   string
	revoked bool
}

type refreshToken struct {
	*family
	used bool
}

// ticket is a one-time link that signs a browser in.
type ticket struct {
	*signIn
	console string
	expires time.Time
	used    bool
}

// signIns holds who is signed in. Its methods are safe for concurrent use.
type signIns struct {
	now         func() time.Time
	suggestions *suggestions

	mu       sync.Mutex
	browsers map[string]*signIn // by cookie
	codes    map[string]*code
	refresh  map[string]*refreshToken // used ones, too, to detect reuse
	tickets  map[string]*ticket
	devices  map[string]*device // by device code
}

func newSignIns(o Options) *signIns {
	return &signIns{
		now: o.Now, suggestions: newSuggestions(o.Suggestions),
		browsers: map[string]*signIn{}, codes: map[string]*code{}, refresh: map[string]*refreshToken{},
		tickets: map[string]*ticket{}, devices: map[string]*device{},
	}
}

// start signs a browser in and returns the value of its cookie.
func (s *signIns) start(session Session) (cookie string, started *signIn) {
	started = &signIn{session: session, id: newSessionID(), at: s.now()}
	return s.bind(started), started
}

// bind connects a new cookie with a sign-in.
func (s *signIns) bind(started *signIn) (cookie string) {
	s.suggestions.use(started.session)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	cookie = rand.Text()
	s.browsers[cookie] = started
	return cookie
}

// ofBrowser returns the sign-in of a cookie.
func (s *signIns) ofBrowser(cookie string) (*signIn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.browsers[cookie]
	return found, ok && s.isCurrent(found)
}

// addCode returns a new authorization code for a request of a client.
func (s *signIns) addCode(of *signIn, request authRequest) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	value := rand.Text()
	s.codes[value] = &code{
		signIn: of, redirectURI: request.RedirectURI, challenge: request.Challenge, nonce: request.Nonce,
		scope: request.Scope, expires: s.now().Add(codeTTL),
		family: &family{signIn: of, client: request.ClientID, scope: request.Scope},
	}
	return value
}

// redeem returns what a code stands for, once. A code that was stolen is presented twice, so that the second
// presentation also revokes the tokens of the first.
func (s *signIns) redeem(by Client, value, redirectURI, verifier string) (*code, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.codes[value]
	if !ok || c.family.client != by.ID {
		return nil, refuse("invalid_grant", "The code is unknown or has expired. Sign in again.")
	}
	if c.used {
		c.family.revoked = true
		return nil, refuse("invalid_grant", "The code was used before. Sign in again.")
	}
	c.used = true
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case !s.now().Before(c.expires) || !s.isCurrent(c.signIn):
		return nil, refuse("invalid_grant", "The code is unknown or has expired. Sign in again.")
	case c.redirectURI != redirectURI:
		return nil, refuse("invalid_grant", "redirect_uri is not the one of the authorization request.")
	case subtle.ConstantTimeCompare([]byte(challenge), []byte(c.challenge)) != 1:
		return nil, refuse("invalid_grant", "code_verifier does not match code_challenge.")
	}
	return c, nil
}

// addRefreshToken returns the next refresh token of a family.
func (s *signIns) addRefreshToken(of *family) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := rand.Text()
	s.refresh[value] = &refreshToken{family: of}
	return value
}

// renew returns the family of a refresh token, once. A second use revokes the family: one of the two users is a thief.
func (s *signIns) renew(by Client, value string) (*family, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, ok := s.refresh[value]
	if !ok || token.client != by.ID || token.revoked || !s.isCurrent(token.signIn) {
		return nil, refuse("invalid_grant", "The refresh token is unknown, revoked or has expired. Sign in again.")
	}
	if token.used {
		token.revoked = true
		return nil, refuse("invalid_grant", "The refresh token was used before. Sign in again.")
	}
	token.used = true
	return token.family, nil
}

// end signs out: the browser with the cookie, and all tokens of its sign-in and of the one with the id.
func (s *signIns) end(cookie, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of, ok := s.browsers[cookie]; ok {
		of.ended = true
	}
	for _, of := range s.browsers {
		of.ended = of.ended || of.id == id
	}
	for _, c := range s.codes {
		c.ended = c.ended || c.id == id
	}
	for _, token := range s.refresh {
		token.ended = token.ended || token.id == id
	}
	s.sweep()
}

// endAll signs every browser out.
func (s *signIns) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.browsers)
	clear(s.codes)
	clear(s.refresh)
	clear(s.tickets)
	clear(s.devices)
}

// isCurrent needs the lock.
func (s *signIns) isCurrent(of *signIn) bool { return !of.ended && s.now().Sub(of.at) < signInTTL }

// sweep forgets what has expired. It needs the lock.
func (s *signIns) sweep() {
	maps.DeleteFunc(s.browsers, func(_ string, of *signIn) bool { return !s.isCurrent(of) })
	maps.DeleteFunc(s.codes, func(_ string, c *code) bool { return !s.now().Before(c.expires) })
	maps.DeleteFunc(s.refresh, func(_ string, t *refreshToken) bool { return t.revoked || !s.isCurrent(t.signIn) })
	maps.DeleteFunc(s.devices, func(_ string, d *device) bool { return !s.now().Before(d.expires.Add(deviceTTL)) })
	maps.DeleteFunc(s.tickets, func(_ string, t *ticket) bool { return !s.now().Before(t.expires) })
}

func newSessionID() string { return "sess_" + compactID() }
