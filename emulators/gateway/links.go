package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// links lets people in who come by a link of the control plane. It keeps what an agent's image has to keep: links that
// were taken, and the sessions that they began.
type links struct {
	keysURL string

	mu       sync.Mutex
	keys     jose.JSONWebKeySet
	taken    map[string]time.Time // when the link of each jti ends
	sessions map[string]string    // the hostname of each session
}

const (
	sessionCookie = "agent_session"
	linkIssuer    = "agent-control-plane"
	linkLeeway    = 5 * time.Second
	keysTimeout   = 5 * time.Second
)

// open takes a link once and begins a session.
func (l *links) open(w http.ResponseWriter, req *http.Request, host string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if err := l.take(req.Context(), req.URL.Query().Get("token"), host, time.Now()); err != nil {
		http.Error(w, "the link is not good: "+err.Error(), http.StatusUnauthorized)
		return
	}
	session := rand.Text()
	l.mu.Lock()
	l.sessions[session] = host
	l.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: session, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode})
	http.Redirect(w, req, "/", http.StatusSeeOther)
}

// session reports whether a request belongs to a session of the host.
func (l *links) session(req *http.Request, host string) bool {
	cookie, err := req.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[cookie.Value] == host
}

// take verifies a link's token and remembers it. The error says what is wrong with it and never quotes it.
func (l *links) take(ctx context.Context, token, host string, now time.Time) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		return errors.New("it has no token that is signed as it should be")
	}
	key, err := l.key(ctx, parsed.Headers[0].KeyID)
	if err != nil {
		return err
	}
	var claims jwt.Claims
	if parsed.Claims(key, &claims) != nil {
		return errors.New("its signature is wrong")
	}
	expected := jwt.Expected{Issuer: linkIssuer, AnyAudience: jwt.Audience{host}, Time: now}
	if claims.Expiry == nil || claims.IssuedAt == nil || claims.ID == "" ||
		claims.ValidateWithLeeway(expected, linkLeeway) != nil {
		return errors.New("it is of another agent, or its time is over")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, end := range l.taken {
		if now.After(end) {
			delete(l.taken, id)
		}
	}
	if _, twice := l.taken[claims.ID]; twice {
		return errors.New("it was taken before")
	}
	l.taken[claims.ID] = claims.Expiry.Time().Add(linkLeeway)
	return nil
}

// key finds a public key; one that is not known has the keys fetched again.
func (l *links) key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	for fetched := false; ; fetched = true {
		l.mu.Lock()
		found := l.keys.Key(id)
		l.mu.Unlock()
		if len(found) == 1 {
			return &found[0], nil
		}
		if fetched || l.keysURL == "" {
			return nil, errors.New("nobody knows its key")
		}
		keys, err := l.fetch(ctx)
		if err != nil {
			return nil, errors.New("the keys can't be fetched")
		}
		l.mu.Lock()
		l.keys = keys
		l.mu.Unlock()
	}
}

func (l *links) fetch(ctx context.Context) (keys jose.JSONWebKeySet, err error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.keysURL, nil)
	if err != nil {
		return keys, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return keys, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return keys, fmt.Errorf("status %d", res.StatusCode)
	}
	return keys, json.NewDecoder(res.Body).Decode(&keys)
}
