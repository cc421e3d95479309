package issuer

import (
	"cmp"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// notBeforeSkew is how long before its issue a token becomes valid, to allow for clock skew.
	notBeforeSkew = 10 * time.Second
	pushTTL       = time.Hour

	defaultSubject = "user_developer"
	roleAdmin      = "admin"
	roleMember     = "member"
)

// Session describes the session token to mint.
type Session struct {
	// Subject is the user id. Empty means "user_developer".
	Subject string `json:"subject"`
	// Organization is the id of the active organization. Empty means a session without one.
	Organization string `json:"organization"`
	// Role in the organization, "admin" or "member", with or without "org:". Empty means "member".
	Role string `json:"role"`
	// Claims replace or add claims. A nil value removes one.
	Claims map[string]any `json:"claims"`
}

// Claims returns the claims of a session token issued now. The caller may change them and pass them to Mint.
func (i *Issuer) Claims(session Session) map[string]any {
	now := i.options.Now()
	subject := cmp.Or(session.Subject, defaultSubject)
	claims := map[string]any{
		"iss": i.url, "sub": subject, "sid": "sess_" + compactID(), "jti": compactID(), "sts": "active", "v": 2,
		"iat": now.Unix(), "nbf": now.Add(-notBeforeSkew).Unix(), "exp": now.Add(i.options.TTL).Unix(),
		"email": subject + "@example.com", "name": i.nameOf(subject),
	}
	if i.options.AuthorizedParty != "" {
		claims["azp"] = i.options.AuthorizedParty
	}
	if session.Organization != "" {
		role := cmp.Or(strings.TrimPrefix(session.Role, "org:"), roleMember)
		claims["o"] = map[string]any{
			"id": session.Organization, "rol": role,
			"slg": strings.ToLower(strings.ReplaceAll(session.Organization, "_", "-")),
		}
	}
	maps.Copy(claims, session.Claims)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Session mints a session token.
func (i *Issuer) Session(session Session) (string, error) {
	i.signIns.suggestions.add(session)
	return i.Mint(i.Claims(session))
}

// Push mints the token of a Pub/Sub push; email is the service account of the subscription.
func (i *Issuer) Push(audience, email string) (string, error) {
	now := i.options.Now()
	return i.Mint(map[string]any{
		"iss": i.url, "aud": audience, "azp": email, "sub": email, "email": email, "email_verified": true,
		"iat": now.Unix(), "exp": now.Add(pushTTL).Unix(),
	})
}

// nameOf returns the name claim of a user.
func (i *Issuer) nameOf(subject string) string {
	return cmp.Or(i.options.Names[subject], strings.ReplaceAll(subject, "_", " "))
}

func compactID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
