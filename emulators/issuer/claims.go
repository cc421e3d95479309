package issuer

import (
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	// notBeforeSkew is how long before its issue a token is good already: clocks differ.
	notBeforeSkew = 10 * time.Second
	pushTTL       = time.Hour
)

// Session says whose session token to mint.
type Session struct {
	// Subject is the user's id; empty is "user_developer".
	Subject string `json:"subject"`
	// Organization is the id of the active organization; empty is a session without one.
	Organization string `json:"organization"`
	// Role in the organization, "admin" or "member", with or without "org:"; empty is "member".
	Role string `json:"role"`
	// Claims replace or add claims; the value nil removes one.
	Claims map[string]any `json:"claims"`
}

// Claims are those of a session token issued now. They may be changed and given to Mint.
func (i *Issuer) Claims(session Session) map[string]any {
	now := time.Now()
	subject := session.Subject
	if subject == "" {
		subject = "user_developer"
	}
	claims := map[string]any{
		"iss": i.url, "sub": subject, "sid": "sess_" + compactID(), "jti": compactID(), "sts": "active", "v": 2,
		"iat": now.Unix(), "nbf": now.Add(-notBeforeSkew).Unix(), "exp": now.Add(i.options.TTL).Unix(),
		"email": subject + "@example.com", "name": strings.ReplaceAll(subject, "_", " "),
	}
	if i.options.AuthorizedParty != "" {
		claims["azp"] = i.options.AuthorizedParty
	}
	if session.Organization != "" {
		role := strings.TrimPrefix(session.Role, "org:")
		if role == "" {
			role = "member"
		}
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
func (i *Issuer) Session(session Session) (string, error) { return i.Mint(i.Claims(session)) }

// Push mints the token that a Pub/Sub push carries: email is the service account that the subscription pushes as.
func (i *Issuer) Push(audience, email string) (string, error) {
	now := time.Now()
	return i.Mint(map[string]any{
		"iss": i.url, "aud": audience, "azp": email, "sub": email, "email": email, "email_verified": true,
		"iat": now.Unix(), "exp": now.Add(pushTTL).Unix(),
	})
}

func compactID() string { return strings.ReplaceAll(uuid.NewString(), "-", "") }
