package organizations_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
)

// memberFixture is an organization with the admin ada and the member bob. The users eve and zoe are of org-2 and of
// none.
type memberFixture struct {
	*backendtest.Backend
	service *member.Service
}

func newMemberFixture(t *testing.T) memberFixture {
	t.Helper()
	b := backendtest.New(t)
	for _, p := range []member.Person{
		{ID: "ada", Email: "ada@example.com", Name: "Ada", OrganizationID: "org-1", Role: identity.RoleAdmin},
		{ID: "bob", OrganizationID: "org-1", Role: identity.RoleMember},
		{ID: "eve", OrganizationID: "org-2", Role: identity.RoleAdmin},
		{ID: "zoe"},
	} {
		b.Firebase.Persons[p.ID] = p
		if p.OrganizationID == "" {
			continue
		}
		if err := b.MemberRecords.RecordMember(t.Context(), p.OrganizationID, p.ID); err != nil {
			t.Fatal(err)
		}
	}
	return memberFixture{b, &member.Service{Provider: b.Members, Records: b.MemberRecords, Audit: b.Audit}}
}

func (f memberFixture) set(t *testing.T, user string, role identity.Role) functiontest.Response {
	t.Helper()
	return f.Call(t, organizations.SetMember(f.service), functiontest.AsAdmin("org-1"),
		functiontest.Path("user_id", user), functiontest.Body(map[string]identity.Role{"role": role}))
}

func (f memberFixture) remove(t *testing.T, user string) functiontest.Response {
	t.Helper()
	return f.Call(t, organizations.RemoveMember(f.service), functiontest.AsAdmin("org-1"),
		functiontest.Path("user_id", user))
}

func TestMembers_CheckTheirCallers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, organizations.ListMembers(nil), function.Member)
	functiontest.CheckRefusals(t, organizations.SetMember(nil), function.Admin, functiontest.Path("user_id", "bob"))
	functiontest.CheckRefusals(t, organizations.RemoveMember(nil), function.Admin, functiontest.Path("user_id", "bob"))
}

func TestListMembers_ShowsAdminsFirst(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	var views []organizations.MemberView
	f.Call(t, organizations.ListMembers(f.service), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "").
		Decode(t, &views)
	if len(views) != 2 || views[0].UserID != "ada" || views[1].UserID != "bob" {
		t.Fatalf("members = %+v, want ada and bob", views)
	}
	if views[0].Email == nil || *views[0].Email != "ada@example.com" || views[0].Role != identity.RoleAdmin {
		t.Errorf("ada = %+v, want the admin ada@example.com", views[0])
	}
	if views[1].Email != nil || views[1].Name != nil {
		t.Errorf("bob = %+v, want no email and no name", views[1])
	}
}

func TestListMembers_NamesTheProviderThatManagesMembers(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	f.service.Provider = member.ManagedExternally{Issuer: "https://issuer.test"}
	f.Call(t, organizations.ListMembers(f.service), functiontest.AsMember("org-1")).
		Want(t, http.StatusNotFound, "members_managed_elsewhere")
}

func TestSetMember_ChangesRolesAndAddsUsers(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	if got := f.set(t, "bob", identity.RoleAdmin).Want(t, http.StatusOK, "").Text("role"); got != "admin" {
		t.Errorf("role = %s, want admin", got)
	}
	f.set(t, "zoe", identity.RoleMember).Want(t, http.StatusOK, "")
	if got := f.Firebase.Persons["zoe"]; got.OrganizationID != "org-1" || got.Role != identity.RoleMember {
		t.Errorf("zoe = %+v, want a member of org-1", got)
	}
	if len(f.Firebase.Revoked) > 0 {
		t.Errorf("the sessions of %v were ended, want none: no role became lower", f.Firebase.Revoked)
	}
}

func TestSetMember_EndsTheSessionsOfAFormerAdmin(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	f.set(t, "bob", identity.RoleAdmin).Want(t, http.StatusOK, "")
	f.set(t, "ada", identity.RoleMember).Want(t, http.StatusOK, "")
	if !slices.Equal(f.Firebase.Revoked, []string{"ada"}) {
		t.Errorf("the sessions of %v were ended, want those of ada", f.Firebase.Revoked)
	}
}

func TestMembers_KeepTheLastAdmin(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	f.set(t, "ada", identity.RoleMember).Want(t, http.StatusConflict, "last_admin")
	f.remove(t, "ada").Want(t, http.StatusConflict, "last_admin")
	f.Firebase.Persons["bob"] = member.Person{
		ID: "bob", OrganizationID: "org-1", Role: identity.RoleAdmin, Disabled: true, // who cannot sign in
	}
	f.remove(t, "ada").Want(t, http.StatusConflict, "last_admin")
	f.Firebase.Persons["bob"] = member.Person{ID: "bob", OrganizationID: "org-1", Role: identity.RoleAdmin}
	// A request to remove bob did not learn whether the identity provider did so.
	if err := f.MemberRecords.EndSessions(t.Context(), "org-1", "bob", true); err != nil {
		t.Fatal(err)
	}
	f.remove(t, "ada").Want(t, http.StatusConflict, "last_admin")
	f.set(t, "bob", identity.RoleAdmin).Want(t, http.StatusOK, "")
	f.remove(t, "ada").Want(t, http.StatusNoContent, "")
}

func TestMembers_DoNotFindUsersOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	for _, user := range []string{"eve", "unknown"} {
		f.set(t, user, identity.RoleMember).Want(t, http.StatusNotFound, "member_not_found")
		f.remove(t, user).Want(t, http.StatusNotFound, "member_not_found")
	}
}

func TestSetMember_RefusesAnUnknownRole(t *testing.T) {
	t.Parallel()
	newMemberFixture(t).set(t, "bob", "owner").Want(t, http.StatusUnprocessableEntity, "validation_error")
}

func TestRemoveMember_EndsTheMembershipAndItsSessions(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	f.remove(t, "bob").Want(t, http.StatusNoContent, "")
	if got := f.Firebase.Persons["bob"].OrganizationID; got != "" {
		t.Errorf("bob is in %q, want no organization", got)
	}
	if !slices.Equal(f.Firebase.Revoked, []string{"bob"}) {
		t.Errorf("the sessions of %v were ended, want those of bob", f.Firebase.Revoked)
	}
	f.remove(t, "bob").Want(t, http.StatusNotFound, "member_not_found")
}

// A process goes by what it read about the end of a user's sessions for some seconds. A former admin must not use them
// to come back, or to leave another admin behind.
func TestMembers_AreNotChangedByASessionThatWasEnded(t *testing.T) {
	t.Parallel()
	f := newMemberFixture(t)
	f.set(t, "bob", identity.RoleAdmin).Want(t, http.StatusOK, "")
	bob := identity.Caller{
		Type: identity.Session, ID: "user-bob", Subject: "bob", OrganizationID: "org-1", Role: identity.RoleAdmin,
		IssuedAt: time.Now().Add(-time.Minute),
	}
	f.remove(t, "bob").Want(t, http.StatusNoContent, "")
	ctx := call.As(t.Context(), bob)
	for _, user := range []string{"bob", "zoe"} {
		if _, err := f.service.Set(ctx, user, identity.RoleAdmin); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("bob, who was removed, makes %s an admin: %v, want Unauthenticated", user, err)
		}
		if got := f.Firebase.Persons[user]; got.OrganizationID != "" {
			t.Errorf("%s = %+v, want no member", user, got)
		}
	}
	if err := f.service.Remove(ctx, "ada"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("bob, who was removed, removes ada: %v, want Unauthenticated", err)
	}
	bob.IssuedAt = time.Now().Add(time.Minute)
	if _, err := f.service.Set(call.As(t.Context(), bob), "zoe", identity.RoleMember); err != nil {
		t.Errorf("a session that began later: %v, want success", err)
	}
}
