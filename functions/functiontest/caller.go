package functiontest

import (
	"context"
	"strings"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// AsAdmin calls with the session of an admin of an organization.
func AsAdmin(organizationID string) Option { return WithToken(AdminToken(organizationID)) }

// AsMember calls with the session of a member of an organization.
func AsMember(organizationID string) Option { return WithToken(MemberToken(organizationID)) }

// AsUser calls with a session that has no active organization.
func AsUser() Option { return WithToken(UserToken()) }

// WithToken calls with a bearer token, such as the secret of an API key.
func WithToken(token string) Option { return Header("Authorization", "Bearer "+token) }

// AdminToken is the session token that AsAdmin sends.
func AdminToken(organizationID string) string {
	return sessionToken(organizationID, identity.RoleAdmin)
}

// MemberToken is the session token that AsMember sends.
func MemberToken(organizationID string) string {
	return sessionToken(organizationID, identity.RoleMember)
}

// UserToken is the session token that AsUser sends.
func UserToken() string { return sessionToken("", "") }

// sessionScheme begins every session token of this package.
const sessionScheme = "session:"

func sessionToken(organizationID string, role identity.Role) string {
	return sessionScheme + organizationID + ":" + string(role)
}

// Sessions verifies session tokens by their form alone. The subject of a session is its whole text, so that every
// organization and role has its own user.
type Sessions struct{}

var _ identity.Sessions = Sessions{}

// Verify implements identity.Sessions.
func (Sessions) Verify(_ context.Context, token string) (identity.Claims, error) {
	rest, isSession := strings.CutPrefix(token, sessionScheme)
	organizationID, role, _ := strings.Cut(rest, ":")
	if !isSession {
		return identity.Claims{}, identity.InvalidToken()
	}
	return identity.Claims{
		Issuer: "https://issuer.test", Subject: Subject(organizationID, identity.Role(role)), Email: "ada@example.com",
		Name: "Ada", OrganizationID: organizationID, Role: identity.Role(role),
	}, nil
}

// Subject is the sub claim of the session of an organization and a role.
func Subject(organizationID string, role identity.Role) string {
	return "user_" + organizationID + "_" + string(role)
}

// NewGuard returns a guard that admits the sessions of this package, without a store: every organization exists and is
// on the largest plan, and there are no API keys, limits or audit log.
func NewGuard() function.Guard {
	return function.Guard{
		Authenticator: &identity.Authenticator{
			Sessions: Sessions{}, Keys: noKeys{}, Directory: anyOrganization{}, Now: time.Now,
		},
		Organizations: anyOrganization{},
	}
}

type noKeys struct{}

var _ apikey.Finder = noKeys{}

// Find implements apikey.Finder.
func (noKeys) Find(context.Context, string, document.Ref, ...string) (apikey.Key, *document.Fetched, error) {
	return apikey.Key{}, nil, apikey.NotFound()
}

// Touch implements apikey.Finder.
func (noKeys) Touch(context.Context, apikey.Key) {}

// Move implements apikey.Finder.
func (noKeys) Move(context.Context, string, apikey.Key) {}

type anyOrganization struct{}

var _ organization.Directory = anyOrganization{}

// Ensure implements organization.Directory.
func (anyOrganization) Ensure(context.Context, string, organization.User) (time.Time, error) {
	return time.Time{}, nil
}

// SessionsEnded implements organization.Directory.
func (anyOrganization) SessionsEnded(context.Context, string, string) (time.Time, error) {
	return time.Time{}, nil
}

// Organization implements organization.Directory.
func (anyOrganization) Organization(_ context.Context, id string) (organization.Organization, error) {
	o := organization.New(id, time.Now())
	o.Plan = plan.Enterprise
	return o, nil
}
