package identity

import (
	"context"
	"time"
)

// Claims holds the verified claims of a session token.
type Claims struct {
	// Issuer is the identity provider's URL, exactly as configured.
	Issuer string
	// Subject is the sub claim, 1 to 255 printable ASCII characters. It is unique within the issuer.
	Subject string
	// Email and Name are empty if the token has none. Email is also empty if the provider says that it is not verified.
	// Name is for display: users choose it.
	Email string
	Name  string
	// OrganizationID is the active organization: letters, digits, '-' and '_'. It is empty for a session without one.
	OrganizationID string
	// Role is the role in OrganizationID; empty without an organization.
	Role Role
	// IssuedAt is when the token was issued, in whole seconds; zero if it does not say so.
	IssuedAt time.Time
}

// EndedBy reports whether the end of a user's sessions at a time ended the session with this token. A token that was
// issued in the same second, or that does not say when, counts as older. The zero time ends no session.
func EndedBy(issuedAt, end time.Time) bool {
	return !end.IsZero() && !issuedAt.After(end.Truncate(time.Second))
}

// Sessions verifies the session tokens that the identity provider issues.
type Sessions interface {
	// Verify checks a token's signature and claims, usually without a network call. Errors: Unauthenticated
	// (InvalidToken) for any invalid token; Unavailable (identity_provider_unavailable) if the provider's keys could
	// not be fetched since the process started.
	Verify(ctx context.Context, token string) (Claims, error)
}
