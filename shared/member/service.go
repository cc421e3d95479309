package member

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// Service lists and changes the members of the caller's organization.
type Service struct {
	Provider Provider
	Records  Records
	Audit    audit.Log
}

// List lists the members, admins first. A member who was added at the identity provider is listed from their first
// session on. Errors: NotFound when members are managed externally, Unavailable.
func (s *Service) List(ctx context.Context) ([]Person, error) {
	return s.members(ctx, identity.From(ctx).OrganizationID)
}

// members lists the members of an organization. A user in candidates is included even if they have no organization.
func (s *Service) members(ctx context.Context, organizationID string, candidates ...string) ([]Person, error) {
	seen, err := s.Records.ListMemberIDs(ctx, organizationID)
	if err != nil {
		return nil, err
	}
	for _, id := range candidates {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	people, err := s.Provider.People(ctx, seen)
	if err != nil {
		return nil, err
	}
	members := slices.DeleteFunc(people, func(p Person) bool {
		joining := p.OrganizationID == "" && slices.Contains(candidates, p.ID)
		return p.OrganizationID != organizationID && !joining
	})
	sortMembers(members)
	return members, nil
}

// Set gives a user a role. A user without an organization becomes a member; a user of another organization is not
// found. Taking the admin role away ends the user's sessions. Errors: NotFound, Conflict for the last admin,
// Unavailable.
func (s *Service) Set(ctx context.Context, id string, role identity.Role) (Person, error) {
	var updated Person
	err := s.changeMember(ctx, id, func(ctx context.Context, p Person, members []Person) error {
		organizationID := identity.From(ctx).OrganizationID
		updated = p
		updated.OrganizationID, updated.Role = organizationID, role
		if updated == p {
			return nil
		}
		if p.Role == identity.RoleAdmin && lastAdmin(members, id) {
			return errLastAdmin("demoted")
		}
		// Record the user first, so that a member can always be listed, even if this process dies now.
		if err := s.Records.RecordMember(ctx, organizationID, id); err != nil {
			return err
		}
		if err := s.Provider.Assign(ctx, id, organizationID, role); err != nil {
			return err
		}
		if p.Role == identity.RoleAdmin {
			if err := s.Provider.Revoke(ctx, id); err != nil {
				return err
			}
		}
		s.record(ctx, p, audit.Change{Field: "role", Old: string(p.Role), New: string(role)})
		return nil
	})
	return updated, err
}

// Remove ends a membership and the member's sessions. Errors: NotFound, Conflict for the last admin, Unavailable.
func (s *Service) Remove(ctx context.Context, id string) error {
	return s.changeMember(ctx, id, func(ctx context.Context, p Person, members []Person) error {
		switch {
		case p.OrganizationID == "":
			return NotFound()
		case p.Role == identity.RoleAdmin && lastAdmin(members, id):
			return errLastAdmin("removed")
		}
		if err := s.Provider.Assign(ctx, id, "", ""); err != nil {
			return err
		}
		if err := s.Provider.Revoke(ctx, id); err != nil {
			return err
		}
		s.record(ctx, p, audit.Change{Field: "role", Old: string(p.Role)})
		return nil
	})
}

// changeMember looks up a user and all members, and applies a change to the user. It holds the organization's lock: if
// two admins remove each other concurrently, one remains.
func (s *Service) changeMember(ctx context.Context, id string,
	apply func(ctx context.Context, p Person, members []Person) error,
) error {
	organizationID := identity.From(ctx).OrganizationID
	// If members are managed externally, fail with that error for any id.
	if _, err := s.Provider.People(ctx, nil); err != nil {
		return err
	}
	return s.Records.WithLock(ctx, organizationID, func(ctx context.Context) error {
		members, err := s.members(ctx, organizationID, id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(members, func(p Person) bool { return p.ID == id })
		if i < 0 {
			return NotFound()
		}
		return apply(ctx, members[i], members)
	})
}

// lastAdmin reports whether no other member than id is an admin.
func lastAdmin(members []Person, id string) bool {
	return !slices.ContainsFunc(members, func(p Person) bool { return p.ID != id && p.Role == identity.RoleAdmin })
}

func errLastAdmin(action string) error {
	return fault.New(fault.Conflict, "last_admin",
		"The last admin of an organization cannot be %s. Make another member an admin first.", action)
}

// record writes the call's audit entry. The change is already made, so a failure is not an error: the server tries
// again because the entry is not marked as written.
func (s *Service) record(ctx context.Context, p Person, change audit.Change) {
	entry, caller, request := audit.CallEntryFrom(ctx), identity.From(ctx), audit.From(ctx)
	target := audit.Target{Type: "member", ID: p.ID, Name: p.Email}
	entry.SetTarget(target)
	id := entry.ID()
	if id == "" {
		id = uuid.NewString()
	}
	err := s.Audit.Append(ctx, audit.Entry{
		ID: id, OrganizationID: caller.OrganizationID, Actor: caller, Action: request.Action, Target: target,
		Outcome: audit.Succeeded, Request: request, Changes: []audit.Change{change},
	})
	if err == nil {
		entry.MarkWritten()
	}
}
