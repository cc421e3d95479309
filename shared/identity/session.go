package identity

import "context"

// Claims is what a good session token says about its bearer.
type Claims struct {
	// Issuer is the identity provider's URL, exactly as configured.
	Issuer string
	// Subject is the sub claim, 1 to 255 printable ASCII characters. It is unique within the issuer.
	Subject string
	// Email and Name are for display; empty when the token has none.
	Email string
	Name  string
	// OrganizationID is the active organization: letters, digits, '-' and '_'. It is empty for a session without one.
	OrganizationID string
	// Role is the role in OrganizationID; empty when that is.
	Role Role
}

// Sessions verifies the session tokens that the identity provider issues.
type Sessions interface {
	// Verify checks a token's signature and claims, mostly without a network call. Errors: Unauthenticated
	// (InvalidToken) whatever is wrong with the token; Unavailable (identity_provider_unavailable) when the provider's
	// keys could never be fetched.
	Verify(ctx context.Context, token string) (Claims, error)
}
