// Package identity describes callers, with their role and organization, and identifies the caller behind a bearer
// token. It does not verify the signatures of session tokens (infra/oidc) or store API keys (package apikey).
package identity

import (
	"time"

	"agents.example/controlplane/shared/role"
)

// AuthType is the kind of token that a caller sent.
type AuthType string

// The kinds of token.
const (
	Session AuthType = "session"
	APIKey  AuthType = "api_key"
)

// Agent is an agent, with the API key that its own front checks. It may call the few routes that say so, for itself.
const Agent AuthType = "agent"

// The actors without a token. API callers never have one of these types.
const (
	// Operator is a person who uses the operator command.
	Operator AuthType = "operator"
	// System is the control plane itself. Example: it stops agents after a missed payment.
	System AuthType = "system"
)

// Values lists the kinds of token of people and programs, without Agent, Operator and System.
func (AuthType) Values() []string { return []string{string(Session), string(APIKey)} }

// Role is what a caller may do in the organization. API keys have a role, too, and this package reads API keys.
type Role = role.Role

// The roles. Members are read-only.
const (
	RoleAdmin  = role.Admin
	RoleMember = role.Member
)

// Caller is the sender of a request. The zero value is an unauthenticated caller.
type Caller struct {
	Type AuthType
	// ID is the id of the user record for a session, of the key record for an API key, or of the agent.
	ID string
	// Subject is the sub claim of a session; empty for a key.
	Subject string
	Email   string
	Name    string
	// OrganizationID is the active organization; empty for a session without one.
	OrganizationID string
	Role           Role
	// KeyPrefix is the beginning of the API key; empty for a session.
	KeyPrefix string
	// IssuedAt is when a session's token was issued; zero for a key.
	IssuedAt time.Time
}

// Key names the caller in limits: it differs for two callers, also if a key and a user had the same id.
func (c Caller) Key() string { return string(c.Type) + " " + c.ID }

// Admin reports whether the caller may change things in its organization.
func (c Caller) Admin() bool { return c.OrganizationID != "" && c.Role == RoleAdmin }
