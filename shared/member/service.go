package member

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// Service is where the members of the caller's organization are seen and changed.
type Service struct {
	Provider Provider
	Records  Records
	Audit    audit.Log
}

// List lists the members, admins first. A member whose membership was made elsewhere is in it from the first session
// on. Errors: NotFound where members are kept elsewhere, Unavailable.
func (r *Service) List(ctx context.Context) ([]Person, error) {
	return r.members(ctx, identity.From(ctx).OrganizationID)
}

func (r *Service) members(ctx context.Context, organizationID string, also ...string) ([]Person, error) {
	seen, err := r.Records.ListMemberIDs(ctx, organizationID)
	if err != nil {
		return nil, err
	}
	for _, id := range also {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	people, err := r.Provider.People(ctx, seen)
	if err != nil {
		return nil, err
	}
	members := slices.DeleteFunc(people, func(p Person) bool {
		joining := p.OrganizationID == "" && slices.Contains(also, p.ID)
		return p.OrganizationID != organizationID && !joining
	})
	sortMembers(members)
	return members, nil
}

// Set gives a member a role. A user of no organization becomes a member; one of another organization is not found. A
// role that is lower ends the member's sessions. Errors: NotFound, Conflict for the last admin, Unavailable.
func (r *Service) Set(ctx context.Context, id string, role identity.Role) (Person, error) {
	var now Person
	err := r.changeMember(ctx, id, func(ctx context.Context, p Person, members []Person) error {
		organizationID := identity.From(ctx).OrganizationID
		now = p
		now.OrganizationID, now.Role = organizationID, role
		if now == p {
			return nil
		}
		if p.Role == identity.RoleAdmin && lastAdmin(members, id) {
			return errLastAdmin("demoted")
		}
		// Remembered first: who is a member can always be found.
		if err := r.Records.RecordMember(ctx, organizationID, id); err != nil {
			return err
		}
		if err := r.Provider.Assign(ctx, id, organizationID, role); err != nil {
			return err
		}
		if p.Role == identity.RoleAdmin {
			if err := r.Provider.Revoke(ctx, id); err != nil {
				return err
			}
		}
		r.record(ctx, p, audit.Change{Field: "role", Old: string(p.Role), New: string(role)})
		return nil
	})
	return now, err
}

// Remove ends a membership, and the member's sessions. Errors: NotFound, Conflict for the last admin, Unavailable.
func (r *Service) Remove(ctx context.Context, id string) error {
	return r.changeMember(ctx, id, func(ctx context.Context, p Person, members []Person) error {
		switch {
		case p.OrganizationID == "":
			return NotFound()
		case p.Role == identity.RoleAdmin && lastAdmin(members, id):
			return errLastAdmin("removed")
		}
		if err := r.Provider.Assign(ctx, id, "", ""); err != nil {
			return err
		}
		if err := r.Provider.Revoke(ctx, id); err != nil {
			return err
		}
		r.record(ctx, p, audit.Change{Field: "role", Old: string(p.Role)})
		return nil
	})
}

// changeMember looks a person up, together with all members, and changes them, while nobody else changes a member of the
// organization: of two admins who remove each other at once, one remains.
func (r *Service) changeMember(ctx context.Context, id string,
	apply func(ctx context.Context, p Person, members []Person) error) error {
	organizationID := identity.From(ctx).OrganizationID
	// Where members are kept elsewhere, that is the answer, whoever is asked for.
	if _, err := r.Provider.People(ctx, nil); err != nil {
		return err
	}
	return r.Records.WithLock(ctx, organizationID, func(ctx context.Context) error {
		members, err := r.members(ctx, organizationID, id)
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

// lastAdmin reports whether nobody but a member is an admin.
func lastAdmin(members []Person, id string) bool {
	return !slices.ContainsFunc(members, func(p Person) bool { return p.ID != id && p.Role == identity.RoleAdmin })
}

func errLastAdmin(what string) error {
	return fault.New(fault.Conflict, "last_admin",
		"The last admin of an organization can't be %s. Make somebody else an admin first.", what)
}

// record writes the call's audit entry. The change is made: where the entry can't be written now, whoever serves the
// call tries again.
func (r *Service) record(ctx context.Context, p Person, change audit.Change) {
	trail, caller, request := audit.CallEntryFrom(ctx), identity.From(ctx), audit.From(ctx)
	target := audit.Target{Type: "member", ID: p.ID, Name: p.Email}
	trail.SetTarget(target)
	id := trail.ID()
	if id == "" {
		id = uuid.NewString()
	}
	err := r.Audit.Append(ctx, audit.Entry{
		ID: id, OrganizationID: caller.OrganizationID, Actor: caller, Action: request.Action, Target: target,
		Outcome: audit.Succeeded, Request: request, Changes: []audit.Change{change},
	})
	if err == nil {
		trail.MarkWritten()
	}
}
