// Package firebase stores the members of organizations in Firebase Authentication, as custom claims of its users. It is
// the only package that calls Firebase.
//
// It writes a membership as the claims o.id and o.rol, which session tokens then contain. It does not verify session
// tokens: package infra/oidc does, without Firebase's libraries.
package firebase

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	firebase "firebase.google.com/go/v4"
	"firebase.google.com/go/v4/auth"
	"firebase.google.com/go/v4/errorutils"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
)

// issuerPrefix is the issuer of a project's tokens without the project's id, which follows it.
const issuerPrefix = "https://securetoken.google.com/"

// ProjectOf returns the project of a Firebase Authentication issuer. It returns false for any other issuer.
func ProjectOf(issuer string) (id string, ok bool) {
	id, ok = strings.CutPrefix(issuer, issuerPrefix)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// timeout bounds every operation.
const timeout = 10 * time.Second

// Members implements member.Provider.
type Members struct {
	users *auth.Client
}

var _ member.Provider = (*Members)(nil)

// Open creates the client of a project's users. It makes no call. The library reads FIREBASE_AUTH_EMULATOR_HOST.
func Open(ctx context.Context, projectID string) (*Members, error) {
	app, err := firebase.NewApp(ctx, &firebase.Config{ProjectID: projectID})
	if err != nil {
		return nil, fmt.Errorf("open firebase: %w", err)
	}
	users, err := app.Auth(ctx)
	if err != nil {
		return nil, fmt.Errorf("open firebase authentication: %w", err)
	}
	return &Members{users: users}, nil
}

// lookupPageSize is the maximum number of users that Firebase looks up in one call.
const lookupPageSize = 100

// People implements member.Provider.
func (m *Members) People(ctx context.Context, ids []string) ([]member.Person, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var people []member.Person
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), lookupPageSize)]
		ids = ids[len(chunk):]
		identifiers := make([]auth.UserIdentifier, len(chunk))
		for i, id := range chunk {
			identifiers[i] = auth.UIDIdentifier{UID: id}
		}
		found, err := m.users.GetUsers(ctx, identifiers)
		if err != nil {
			return nil, faultOf("look up users", err)
		}
		for _, u := range found.Users {
			people = append(people, personOf(u))
		}
	}
	return people, nil
}

// personOf converts a user to a person. A user whose claims do not have our form has no organization.
func personOf(u *auth.UserRecord) member.Person {
	p := member.Person{ID: u.UID, Email: u.Email, Name: u.DisplayName, Disabled: u.Disabled}
	o, _ := u.CustomClaims["o"].(map[string]any)
	if p.OrganizationID, _ = o["id"].(string); p.OrganizationID == "" {
		return p
	}
	p.Role = identity.RoleMember
	if role, _ := o["rol"].(string); role == "admin" || role == "org:admin" {
		p.Role = identity.RoleAdmin
	}
	return p
}

// Assign implements member.Provider. It keeps the claims that it does not own.
func (m *Members) Assign(ctx context.Context, id, organizationID string, role identity.Role) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u, err := m.users.GetUser(ctx, id)
	if err != nil {
		return faultOf("look up a user", err)
	}
	claims := maps.Clone(u.CustomClaims)
	if claims == nil {
		claims = map[string]any{}
	}
	delete(claims, "o")
	if organizationID != "" {
		claims["o"] = map[string]any{"id": organizationID, "rol": string(role)}
	}
	if err := m.users.SetCustomUserClaims(ctx, id, claims); err != nil {
		return faultOf("set the claims of a user", err)
	}
	return nil
}

// Revoke implements member.Provider.
func (m *Members) Revoke(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := m.users.RevokeRefreshTokens(ctx, id); err != nil {
		return faultOf("revoke the sessions of a user", err)
	}
	return nil
}

// faultOf maps Firebase's errors to faults.
func faultOf(action string, err error) error {
	cause := fmt.Errorf("firebase: %s: %w", action, err)
	switch {
	case auth.IsUserNotFound(err):
		return member.NotFound().WithCause(cause)
	case errorutils.IsInvalidArgument(err), errorutils.IsPermissionDenied(err), errorutils.IsUnauthenticated(err):
		return cause
	default:
		return fault.New(fault.Unavailable, "identity_provider_unavailable",
			"The identity provider is temporarily unavailable. Retry in a few seconds.").
			WithCause(cause)
	}
}
