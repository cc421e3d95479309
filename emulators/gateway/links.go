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

// links redeems the control plane's dashboard links. It stores what an agent's image must store: the redeemed links and
// the sessions that they began.
type links struct {
	keysURL string

	mu       sync.Mutex
	keys     jose.JSONWebKeySet
	redeemed map[string]time.Time // expiry of each redeemed link, by its jti
	sessions map[string]string    // hostname of each session
}

const (
	sessionCookie = "agent_session"
	linkIssuer    = "agent-control-plane"
	linkLeeway    = 5 * time.Second
	keysTimeout   = 5 * time.Second
)

// startSession redeems a link and begins a session.
func (l *links) startSession(w http.ResponseWriter, req *http.Request, host string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if err := l.redeem(req.Context(), req.URL.Query().Get("token"), host, time.Now()); err != nil {
		http.Error(w, "the link is refused: "+err.Error(), http.StatusUnauthorized)
		return
	}
	session := rand.Text()
	l.mu.Lock()
	l.sessions[session] = host
	l.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: session, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, req, "/", http.StatusSeeOther)
}

// hasSession reports whether a request belongs to a session of the host.
func (l *links) hasSession(req *http.Request, host string) bool {
	cookie, err := req.Cookie(sessionCookie)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions[cookie.Value] == host
}

// redeem verifies a link's token, which it accepts once. The error never quotes the token.
func (l *links) redeem(ctx context.Context, token, host string, now time.Time) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		return errors.New("its token is not signed with an accepted algorithm")
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
		return errors.New("it belongs to another agent, or has expired")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, end := range l.redeemed {
		if now.After(end) {
			delete(l.redeemed, id)
		}
	}
	if _, twice := l.redeemed[claims.ID]; twice {
		return errors.New("it was used before")
	}
	l.redeemed[claims.ID] = claims.Expiry.Time().Add(linkLeeway)
	return nil
}

// key finds a public key. It fetches the keys again if it does not know the key.
func (l *links) key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	for fetched := false; ; fetched = true {
		l.mu.Lock()
		found := l.keys.Key(id)
		l.mu.Unlock()
		if len(found) == 1 {
			return &found[0], nil
		}
		if fetched || l.keysURL == "" {
			return nil, errors.New("its key is unknown")
		}
		keys, err := l.fetch(ctx)
		if err != nil {
			return nil, errors.New("the public keys cannot be fetched")
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
