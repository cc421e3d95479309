// Package member knows who belongs to an organization, and that one of them is always an admin. It does not know how an
// identity provider keeps them (infra/firebase), nor how anything is stored.
//
// The identity provider is the truth: a membership is what its session tokens will say. Our records only remember who
// was seen in which organization, so that the members can be found without asking about everybody.
package member

import (
	"cmp"
	"context"
	"slices"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// Person is a user as the identity provider has them now.
type Person struct {
	// ID is the provider's, the sub claim of their tokens.
	ID    string
	Email string
	Name  string
	// OrganizationID and Role are what their next token says; empty for a person of no organization.
	OrganizationID string
	Role           identity.Role
}

// Provider keeps the members of organizations in the identity provider.
type Provider interface {
	// People looks persons up; those that don't exist are left out. Errors: NotFound where members are kept elsewhere,
	// Unavailable.
	People(ctx context.Context, ids []string) ([]Person, error)
	// Assign has a person's next token name an organization and a role; an empty organization ends the membership.
	// Errors: NotFound, Unavailable.
	Assign(ctx context.Context, id, organizationID string, role identity.Role) error
	// Revoke ends a person's sessions: no new token is issued for them. Tokens that were issued are good until they
	// expire, an hour at most. Errors: NotFound, Unavailable.
	Revoke(ctx context.Context, id string) error
}

// Records remembers who was seen in which organization.
type Records interface {
	// ListMemberIDs lists the ids of the persons who were seen in an organization. Some may have left since. Errors:
	// Unavailable.
	ListMemberIDs(ctx context.Context, organizationID string) ([]string, error)
	// RecordMember remembers a person in an organization. Errors: Unavailable.
	RecordMember(ctx context.Context, organizationID, id string) error
	// WithLock runs do while nobody else does for the organization. Errors: do's, Conflict while somebody else does,
	// Unavailable.
	WithLock(ctx context.Context, organizationID string, do func(context.Context) error) error
}

// NotFound is the error of a user who does not exist, or is another organization's.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "member_not_found", "Member not found.")
}

// ManagedExternally is the provider of a deployment whose identity provider manages members by itself.
type ManagedExternally struct {
	// Issuer is the identity provider.
	Issuer string
}

var _ Provider = ManagedExternally{}

func (e ManagedExternally) err() error {
	return fault.New(fault.NotFound, "members_managed_elsewhere",
		"Members are managed at the identity provider, %s, not here. Invite them and change their roles there.",
		e.Issuer)
}

// People implements Provider.
func (e ManagedExternally) People(context.Context, []string) ([]Person, error) { return nil, e.err() }

// Assign implements Provider.
func (e ManagedExternally) Assign(context.Context, string, string, identity.Role) error {
	return e.err()
}

// Revoke implements Provider.
func (e ManagedExternally) Revoke(context.Context, string) error { return e.err() }

// sortMembers sorts members: admins first, then by email and id.
func sortMembers(people []Person) {
	slices.SortFunc(people, func(x, y Person) int {
		return cmp.Or(cmp.Compare(x.Role, y.Role), cmp.Compare(x.Email, y.Email), cmp.Compare(x.ID, y.ID))
	})
}
