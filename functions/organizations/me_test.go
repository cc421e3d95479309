package organizations_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/organizations"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

func getMe(t *testing.T, b *backendtest.Backend, as functiontest.Option) organizations.MeView {
	t.Helper()
	var v organizations.MeView
	b.Call(t, organizations.Me(b.Directory), as).Want(t, http.StatusOK, "").Decode(t, &v)
	return v
}

func TestMe_IsForEveryUser(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, organizations.Me(nil), function.User)
}

func TestMe_ShowsASession(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.SetPlan(t, "org-1", plan.Pro)
	v := getMe(t, b, functiontest.AsMember("org-1"))
	if v.AuthType != identity.Session || v.APIKey != nil {
		t.Errorf("auth_type = %s, api_key = %v, want a session without a key", v.AuthType, v.APIKey)
	}
	if want := functiontest.Subject("org-1", identity.RoleMember); v.Sub == nil || *v.Sub != want {
		t.Errorf("sub = %v, want %s", v.Sub, want)
	}
	if v.Role == nil || *v.Role != identity.RoleMember {
		t.Errorf("role = %v, want member", v.Role)
	}
	want := organizations.MeOrganization{ID: "org-1", Plan: plan.Pro}
	if v.Organization == nil || *v.Organization != want {
		t.Errorf("organization = %+v, want %+v", v.Organization, want)
	}
}

func TestMe_ShowsASessionWithoutAnOrganization(t *testing.T) {
	t.Parallel()
	v := getMe(t, backendtest.New(t), functiontest.AsUser())
	if v.Organization != nil || v.Role != nil {
		t.Errorf("organization = %+v, role = %v, want null", v.Organization, v.Role)
	}
	if v.Email == nil || *v.Email != "ada@example.com" {
		t.Errorf("email = %v, want ada@example.com", v.Email)
	}
}

func TestMe_ShowsTheRoleOfAnAPIKey(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	_, admin := b.CreateKey(t, "org-1")
	_, member := b.CreateMemberKey(t, "org-1")
	for secret, want := range map[string]identity.Role{admin: identity.RoleAdmin, member: identity.RoleMember} {
		if v := getMe(t, b, functiontest.WithToken(secret)); v.Role == nil || *v.Role != want {
			t.Errorf("role = %v, want %s", v.Role, want)
		}
	}
}

func TestMe_ShowsAnAPIKey(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	id, secret := b.CreateKey(t, "org-1")
	v := getMe(t, b, functiontest.WithToken(secret))
	if v.AuthType != identity.APIKey || v.ID != id {
		t.Errorf("auth_type = %s, id = %s, want api_key, %s", v.AuthType, v.ID, id)
	}
	if v.APIKey == nil || v.APIKey.Name != "test" {
		t.Errorf("api_key = %+v, want the key with the name test", v.APIKey)
	}
	if v.Sub != nil || v.Email != nil || v.Name != nil {
		t.Errorf("sub = %v, email = %v, name = %v, want null", v.Sub, v.Email, v.Name)
	}
}
