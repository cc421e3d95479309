// Package identity knows who a caller is, which role they have in which organization, and how a bearer token is told
// apart. It does not know how a token's signature is verified (infra/oidc) nor how keys are stored (package apikey).
package identity

import "context"

// AuthType says which kind of token a caller came with.
type AuthType string

// The kinds of token.
const (
	Session AuthType = "session"
	APIKey  AuthType = "api_key"
)

// Who acts without a token. No caller of the interface is one of them.
const (
	// Operator is a person with access to the deployment, through the operator's command.
	Operator AuthType = "operator"
	// System is the control plane itself, such as when payment has stopped.
	System AuthType = "system"
)

// Values lists the kinds of token.
func (AuthType) Values() []string { return []string{string(Session), string(APIKey)} }

// Role is what a caller may do in the organization.
type Role string

// The roles. Members are read-only.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Values lists the roles.
func (Role) Values() []string { return []string{string(RoleAdmin), string(RoleMember)} }

// Caller is who makes a request. The zero value is nobody.
type Caller struct {
	Type AuthType
	// ID is the stable id: the user record's for a session, the key record's for an API key.
	ID string
	// Subject is the sub claim of a session; empty for a key.
	Subject string
	Email   string
	Name    string
	// OrganizationID is the active organization; empty for a session without one.
	OrganizationID string
	Role           Role
	// KeyPrefix is the leading part of the API key; empty for a session.
	KeyPrefix string
}

// Admin reports whether the caller may change things in its organization.
func (c Caller) Admin() bool { return c.OrganizationID != "" && c.Role == RoleAdmin }

type callerKey struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller in ctx, or nobody.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
