package organizations

import (
	"context"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// MeView is the caller in an answer.
type MeView struct {
	ID       string            `json:"id" jsonschema:"The id of the user or API key; for a session it is derived from sub."`
	Sub      *string           `json:"sub" jsonschema:"The sub claim of the session token; null for an API key."`
	Email    *string           `json:"email" jsonschema:"Null for an API key, and for a session token without a verified email address."`
	Name     *string           `json:"name" jsonschema:"Null for an API key, and for a session token without a name."`
	AuthType identity.AuthType `json:"auth_type" jsonschema:"How the call was authenticated."`
	Role     *identity.Role    `json:"role" jsonschema:"The role in the active organization; null without one."`
	// Organization is the active one, or null.
	Organization *MeOrganization `json:"organization" jsonschema:"The active organization; null without one."`
	// APIKey is the key that authenticated the call, or null.
	APIKey *MeAPIKey `json:"api_key" jsonschema:"The key that authenticated the call; null for a session."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (MeView) AmendSchema(s *jsonschema.Schema) { s.Properties["id"].Format = "uuid" }

// Example implements function.Exampler.
func (MeView) Example() any {
	sub, email, name, role := "user_1", "ada@example.com", "Ada", identity.RoleAdmin
	return MeView{
		ID: "c1f6a9f2-52f8-5a8e-9d5b-6f0a7b3c2d10", Sub: &sub, Email: &email, Name: &name, AuthType: identity.Session,
		Role:         &role,
		Organization: &MeOrganization{ID: "org_1", Plan: plan.Startup},
	}
}

// MeOrganization is the caller's active organization.
type MeOrganization struct {
	ID   string  `json:"id"`
	Plan plan.ID `json:"plan"`
}

// MeAPIKey is the key that authenticated the call.
type MeAPIKey struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	KeyPrefix string `json:"key_prefix" jsonschema:"The leading part of the key."`
}

// Me describes the caller: a session, with or without an organization, or an API key.
func Me(directory organization.Directory) function.Route {
	return function.Route{
		Name: "GetMe", Method: http.MethodGet, Path: "/api/v1/me", Role: function.RoleAccounts,
		Access: function.User, Needs: []function.Need{function.Firestore},
		Status: http.StatusOK, Summary: "Get the current user",
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (MeView, error) {
			return describe(ctx, call.From(ctx).Caller, directory)
		}),
	}
}

func describe(ctx context.Context, c identity.Caller, directory organization.Directory) (MeView, error) {
	v := MeView{ID: c.ID, AuthType: c.Type}
	if c.Type == identity.APIKey {
		v.APIKey = &MeAPIKey{ID: c.ID, Name: c.Name, KeyPrefix: c.KeyPrefix}
	} else {
		v.Sub, v.Email, v.Name = &c.Subject, optional(c.Email), optional(c.Name)
	}
	if c.OrganizationID == "" {
		return v, nil
	}
	o, err := directory.Organization(ctx, c.OrganizationID)
	v.Role, v.Organization = &c.Role, &MeOrganization{ID: c.OrganizationID, Plan: o.Plan}
	return v, err
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
