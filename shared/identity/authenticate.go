package identity

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
)

// InvalidToken returns the error for every invalid bearer token. It does not reveal what is wrong with the token.
func InvalidToken() *fault.Error {
	return fault.New(fault.Unauthenticated, "invalid_token",
		"The bearer token is not valid. It may be mistyped, expired or revoked.")
}

// Authenticator identifies the caller behind a bearer token. A token that begins with apikey.Scheme is an API key; any
// other token is a session.
type Authenticator struct {
	Sessions  Sessions
	Keys      apikey.Finder
	Directory organization.Directory
	// Pepper is the secret key of the hash under which API keys are stored.
	Pepper []byte
	// Now is the clock.
	Now func() time.Time
}

// Authenticate implements function.Authenticator.
func (a *Authenticator) Authenticate(
	ctx context.Context, token string, reads document.Ref,
) (context.Context, Caller, error) {
	if strings.HasPrefix(token, apikey.Scheme) {
		return a.authenticateKey(ctx, token, reads)
	}
	claims, err := a.Sessions.Verify(ctx, token)
	if err != nil {
		return ctx, Caller{}, err
	}
	c := Caller{
		Type: Session, ID: userID(claims), Subject: claims.Subject, Email: claims.Email, Name: claims.Name,
		OrganizationID: claims.OrganizationID, Role: claims.Role,
	}
	user := organization.User{ID: c.ID, Subject: c.Subject, Email: c.Email, Name: c.Name, CreatedAt: a.Now()}
	if err := a.Directory.Ensure(ctx, c.OrganizationID, user); err != nil {
		return ctx, Caller{}, err
	}
	return ctx, c, nil
}

// userID derives the user's id from issuer and subject, so that concurrent requests create the same record.
func userID(c Claims) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.Issuer+"#"+c.Subject)).String()
}

// authenticateKey identifies the caller behind an API key and records the key's use.
func (a *Authenticator) authenticateKey(
	ctx context.Context, token string, reads document.Ref,
) (context.Context, Caller, error) {
	if !apikey.WellFormed(token) {
		return ctx, Caller{}, InvalidToken()
	}
	fetched, k, err := a.Keys.Find(ctx, apikey.Hash(a.Pepper, token), reads)
	switch {
	case fault.Is(err, fault.NotFound):
		return ctx, Caller{}, InvalidToken()
	case err != nil:
		return ctx, Caller{}, err
	case k.Expired(a.Now()):
		slog.DebugContext(ctx, "expired API key refused", "key_prefix", k.Prefix)
		return ctx, Caller{}, InvalidToken()
	}
	a.Keys.Touch(ctx, k)
	c := Caller{
		Type: APIKey, ID: k.ID, Name: k.Name, OrganizationID: k.OrganizationID, Role: RoleAdmin, KeyPrefix: k.Prefix,
	}
	return fetched, c, nil
}
