// Package member lists and changes the members of an organization, and makes sure that one of them is an admin. It does
// not talk to an identity provider (infra/firebase does) and does not store records.
//
// The identity provider is the source of truth: a membership is the claims of the next session token. The records only
// remember which users were seen in an organization, so that listing members need not look up every user.
package member

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// Person is a user as the identity provider currently describes them.
type Person struct {
	// ID is the provider's id, the sub claim of the user's tokens.
	ID    string
	Email string
	Name  string
	// OrganizationID and Role are the claims of the user's next token; empty for a user without an organization.
	OrganizationID string
	Role           identity.Role
	// Disabled means that the provider lets the user not sign in.
	Disabled bool
}

// Provider reads and writes memberships in the identity provider.
type Provider interface {
	// People looks up users and leaves out those that do not exist. Errors: NotFound when members are managed
	// externally, Unavailable.
	People(ctx context.Context, ids []string) ([]Person, error)
	// Assign sets the organization and role of a user's next token. An empty organization ends the membership. Errors:
	// NotFound, Unavailable.
	Assign(ctx context.Context, id, organizationID string, role identity.Role) error
	// Revoke ends a user's sessions: they get no new tokens. Issued tokens keep their signatures; Records.EndSessions
	// has them refused. Errors: NotFound, Unavailable.
	Revoke(ctx context.Context, id string) error
}

// Record is what is known of a user who was seen in an organization.
type Record struct {
	ID string
	// RevocationDue is true from before a role is taken away until the user's sessions are ended. If the process dies
	// in between, or the identity provider fails, a repeated request ends them.
	RevocationDue bool
	// SessionsEnded is when the user's sessions in the organization were last ended; zero for never.
	SessionsEnded time.Time
}

// Records remembers which users were seen in which organization.
type Records interface {
	// ListMembers lists the users seen in an organization. Some may have left since. Errors: Unavailable.
	ListMembers(ctx context.Context, organizationID string) ([]Record, error)
	// RecordMember records that a user was seen in an organization. Errors: Unavailable.
	RecordMember(ctx context.Context, organizationID, id string) error
	// EndSessions ends the sessions in the organization that a user has now: their tokens are refused from then on. It
	// also records whether the identity provider must still end them, and that the user was seen. Errors: Unavailable.
	EndSessions(ctx context.Context, organizationID, id string, due bool) error
	// WithLock runs do while it holds the organization's lock. Errors: those of do, Conflict while another caller holds
	// the lock, Unavailable.
	WithLock(ctx context.Context, organizationID string, do func(context.Context) error) error
}

// NotFound is the error for a user who does not exist or belongs to another organization.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "member_not_found", "Member not found.")
}

// ManagedExternally is the Provider of a deployment whose members are managed at the identity provider only.
type ManagedExternally struct {
	// Issuer is the identity provider.
	Issuer string
}

var _ Provider = ManagedExternally{}

func (m ManagedExternally) err() error {
	return fault.New(fault.NotFound, "members_managed_elsewhere",
		"Members are managed at the identity provider, %s. Invite members and change their roles there.",
		m.Issuer)
}

// People implements Provider.
func (m ManagedExternally) People(context.Context, []string) ([]Person, error) { return nil, m.err() }

// Assign implements Provider.
func (m ManagedExternally) Assign(context.Context, string, string, identity.Role) error {
	return m.err()
}

// Revoke implements Provider.
func (m ManagedExternally) Revoke(context.Context, string) error { return m.err() }

// sortMembers sorts admins first, then by email and id.
func sortMembers(people []Person) {
	slices.SortFunc(people, func(x, y Person) int {
		return cmp.Or(cmp.Compare(x.Role, y.Role), cmp.Compare(x.Email, y.Email), cmp.Compare(x.ID, y.ID))
	})
}
