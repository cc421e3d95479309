package member

import (
	"context"
	"slices"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
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
	people, _, err := s.members(ctx, call.From(ctx).Caller.OrganizationID)
	return people, err
}

// members lists the members of an organization, and the ids of users whose sessions must still be ended. A user in
// candidates is included even if they have no organization. The records are newer than what the process knew when it
// admitted the caller, whose own sessions may have been ended since.
func (s *Service) members(ctx context.Context, organizationID string, candidates ...string) (people []Person,
	revocationDue []string, err error,
) {
	records, err := s.Records.ListMembers(ctx, organizationID)
	if err != nil {
		return nil, nil, err
	}
	var seen []string
	for _, r := range records {
		seen = append(seen, r.ID)
		if by := call.From(ctx).Caller; by.Type == identity.Session && by.Subject == r.ID &&
			identity.EndedBy(by.IssuedAt, r.SessionsEnded) {
			return nil, nil, identity.InvalidToken()
		}
		if r.RevocationDue {
			revocationDue = append(revocationDue, r.ID)
		}
	}
	for _, id := range candidates {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	people, err = s.Provider.People(ctx, seen)
	if err != nil {
		return nil, nil, err
	}
	people = slices.DeleteFunc(people, func(p Person) bool {
		joining := p.OrganizationID == "" && slices.Contains(candidates, p.ID)
		return p.OrganizationID != organizationID && !joining
	})
	sortMembers(people)
	return people, revocationDue, nil
}

// Set gives a user a role. A user without an organization becomes a member; a user of another organization is not
// found. Taking the admin role away ends the user's sessions. Errors: NotFound, Conflict for the last admin,
// Unavailable.
func (s *Service) Set(ctx context.Context, id string, role identity.Role) (Person, error) {
	var updated Person
	err := s.changeMember(ctx, id, func(ctx context.Context, c candidate) error {
		updated = c.Person
		updated.OrganizationID, updated.Role = call.From(ctx).Caller.OrganizationID, role
		if updated == c.Person {
			return s.endSessions(ctx, c)
		}
		if c.lastAdmin {
			return errLastAdmin("demoted")
		}
		return s.assign(ctx, c, updated)
	})
	return updated, err
}

// Remove ends a membership and the member's sessions. Errors: NotFound, Conflict for the last admin, Unavailable.
func (s *Service) Remove(ctx context.Context, id string) error {
	return s.changeMember(ctx, id, func(ctx context.Context, c candidate) error {
		switch {
		case c.OrganizationID == "" && c.revocationDue: // an earlier request ended the membership only
			return s.endSessions(ctx, c)
		case c.OrganizationID == "":
			return NotFound()
		case c.lastAdmin:
			return errLastAdmin("removed")
		}
		return s.assign(ctx, c, Person{ID: id})
	})
}

// candidate is the user whose membership a request changes.
type candidate struct {
	Person
	// lastAdmin is true if no other member is an admin.
	lastAdmin bool
	// revocationDue is true if an earlier request took a role away and did not end the user's sessions.
	revocationDue bool
}

// assign gives a user the organization and the role of updated, and ends the user's sessions if that takes a role away.
//
// It records the user first, so that a member can always be listed, and a user whose sessions must end is known, even
// if this process dies now.
func (s *Service) assign(ctx context.Context, c candidate, updated Person) error {
	organizationID := call.From(ctx).Caller.OrganizationID
	record := s.Records.RecordMember
	if updated.OrganizationID == "" || c.Role == identity.RoleAdmin {
		c.revocationDue = true
		record = func(ctx context.Context, organizationID, id string) error {
			return s.Records.EndSessions(ctx, organizationID, id, true)
		}
	}
	if err := call.From(ctx).BeginEntry(ctx, s.Audit,
		audit.Change{Field: "role", Old: string(c.Role), New: string(updated.Role)}); err != nil {
		return err
	}
	if err := record(ctx, organizationID, c.ID); err != nil {
		return err
	}
	if err := s.Provider.Assign(ctx, c.ID, updated.OrganizationID, updated.Role); err != nil {
		return err
	}
	return s.endSessions(ctx, c)
}

// endSessions ends the sessions of a user, if they must end. It ends those that began before the role was taken away,
// and after assign had ended them a first time.
func (s *Service) endSessions(ctx context.Context, c candidate) error {
	if !c.revocationDue {
		return nil
	}
	if err := s.Provider.Revoke(ctx, c.ID); err != nil {
		return err
	}
	return s.Records.EndSessions(ctx, call.From(ctx).Caller.OrganizationID, c.ID, false)
}

// changeMember looks up a user and applies a change to the membership. It holds the organization's lock: if two admins
// remove each other concurrently, one remains.
func (s *Service) changeMember(ctx context.Context, id string, apply func(context.Context, candidate) error) error {
	organizationID := call.From(ctx).Caller.OrganizationID
	// If members are managed externally, fail with that error for any id.
	if _, err := s.Provider.People(ctx, nil); err != nil {
		return err
	}
	return s.Records.WithLock(ctx, organizationID, func(ctx context.Context) error {
		members, revocationDue, err := s.members(ctx, organizationID, id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(members, func(p Person) bool { return p.ID == id })
		if i < 0 {
			return NotFound()
		}
		p := members[i]
		call.From(ctx).Entry.SetTarget(target(p))
		last := p.Role == identity.RoleAdmin && lastAdmin(members, revocationDue, id)
		return apply(ctx, candidate{p, last, slices.Contains(revocationDue, id)})
	})
}

func target(p Person) audit.Target { return audit.Target{Type: "member", ID: p.ID, Name: p.Email} }

// lastAdmin reports whether no other member than id is an admin who can sign in. One of revocationDue does not count: a
// request took the role away and did not learn the outcome, and the identity provider may apply that later.
func lastAdmin(members []Person, revocationDue []string, id string) bool {
	return !slices.ContainsFunc(members, func(p Person) bool {
		return p.ID != id && p.Role == identity.RoleAdmin && !p.Disabled && !slices.Contains(revocationDue, p.ID)
	})
}

func errLastAdmin(action string) error {
	return fault.New(fault.Conflict, "last_admin",
		"The last admin of an organization cannot be %s. Make another member an admin first.", action)
}
