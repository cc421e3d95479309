package front

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// linkIssuer is the iss claim of the control plane's links.
	linkIssuer = "agent-control-plane"
	// linkType is the type of a link's token. The same keys sign statements and receipts, which have other types.
	linkType = "JWT"
	// linkLeeway is the difference of two clocks that is allowed.
	linkLeeway = 5 * time.Second
	// maxLinkTime is the longest accepted time between iat and exp. It bounds how long a redeemed link is remembered.
	maxLinkTime = 5 * time.Minute
	// maxRedeemed bounds the links that are remembered. Only the control plane's signature adds one.
	maxRedeemed = 4096
	// maxToken bounds what is parsed.
	maxToken = 2048
	// maxUser bounds the subject and the e-mail address, which become headers of every request in the session.
	maxUser = 256
)

// person is whom a link names.
type person struct {
	id string
	// email is empty if the link has none, or one that no header can carry.
	email string
}

// name returns what people call the person by.
func (p person) name() string { return cmp.Or(p.email, p.id) }

// linkClaims are the claims that the front reads of a link. Links of former releases have no e-mail address.
type linkClaims struct {
	jwt.Claims
	Email string `json:"email"`
}

func (c linkClaims) person() person {
	p := person{id: c.Subject}
	if len(c.Email) <= maxUser && printable(c.Email) {
		p.email = c.Email
	}
	return p
}

// links redeems the links with which the control plane opens the dashboard. A link is redeemed once: the front
// remembers the redeemed ones until they expire, and refuses links that are older than its process, because the former
// process may have redeemed them.
type links struct {
	hostname string
	now      func() time.Time
	started  time.Time
	keys     *keys

	mu       sync.Mutex
	redeemed map[string]time.Time // end of each redeemed link, by its jti
}

func newLinks(keysURL, source, hostname string, now func() time.Time) *links {
	return &links{
		hostname: hostname, now: now, started: now(), keys: newKeys(keysURL, source, now),
		redeemed: map[string]time.Time{},
	}
}

func (l *links) close() { l.keys.client.CloseIdleConnections() }

// goesOn asks the control plane whether the session of a redeemed link goes on. It does if there is no answer.
func (l *links) goesOn(ctx context.Context, token string) bool {
	base, found := strings.CutSuffix(l.keys.url, dataplane.PathKeys)
	if !found {
		return true
	}
	body := `{"token": "` + token + `"}` // verified, so it has no other characters than base64url and dots
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+dataplane.PathIntrospect, strings.NewReader(body))
	if err != nil {
		return true
	}
	req.Header.Set("Content-Type", "application/json")
	answer := struct{ Active bool }{Active: true}
	err = l.keys.get(req, &answer)
	return err != nil || answer.Active
}

// redeem verifies the token of a link and returns the person. The error does not quote the token.
func (l *links) redeem(ctx context.Context, token string) (who person, err error) {
	if len(token) > maxToken {
		return person{}, errors.New("its token is too long")
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return person{}, errors.New("its token is not signed with ES256")
	}
	if kind, ok := parsed.Headers[0].ExtraHeaders[jose.HeaderType]; ok && kind != linkType {
		return person{}, errors.New("its token is not that of a link")
	}
	key, err := l.keys.find(ctx, parsed.Headers[0].KeyID)
	if err != nil {
		return person{}, err
	}
	var claims linkClaims
	if parsed.Claims(key, &claims) != nil {
		return person{}, errors.New("its signature is wrong")
	}
	now := l.now()
	if err := l.checkClaims(claims.Claims, now); err != nil {
		return person{}, err
	}
	return claims.person(), l.remember(claims.Claims, now)
}

func (l *links) checkClaims(claims jwt.Claims, now time.Time) error {
	expected := jwt.Expected{Issuer: linkIssuer, AnyAudience: jwt.Audience{l.hostname}, Time: now}
	switch {
	case claims.Expiry == nil || claims.IssuedAt == nil || claims.ID == "" || l.hostname == "",
		len(claims.Subject) > maxUser || !printable(claims.Subject),
		claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > maxLinkTime:
		return errors.New("its claims are incomplete")
	case claims.ValidateWithLeeway(expected, linkLeeway) != nil:
		return errors.New("it belongs to another agent, or has expired")
	case claims.IssuedAt.Time().Add(linkLeeway).Before(l.started):
		return errors.New("it is older than the agent's last restart")
	}
	return nil
}

// remember records that a link is redeemed. It fails if it was before.
func (l *links) remember(claims jwt.Claims, now time.Time) error {
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
	if len(l.redeemed) >= maxRedeemed {
		return errors.New("too many links were used in the last minutes")
	}
	l.redeemed[claims.ID] = claims.Expiry.Time().Add(linkLeeway)
	return nil
}
