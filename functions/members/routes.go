// Package members has the routes of an organization's members. It does not have their rules; package member does.
package members

import (
	"context"
	"net/http"
	"regexp"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/ratelimit"
)

const path = "/api/v1/organizations/current/members"

// View is a member in an answer.
type View struct {
	UserID string        `json:"user_id" jsonschema:"The user's id at the identity provider, which is the sub claim of their tokens."`
	Email  *string       `json:"email" jsonschema:"Null if the identity provider does not know it."`
	Name   *string       `json:"name" jsonschema:"Null if the identity provider does not know it."`
	Role   identity.Role `json:"role"`
}

// Example implements function.Exampler.
func (View) Example() any {
	return view(member.Person{ID: "kG7x2mQ0dVfU", Email: "ada@example.com", Name: "Ada", Role: identity.RoleAdmin})
}

func view(p member.Person) View {
	return View{UserID: p.ID, Email: nullable(p.Email), Name: nullable(p.Name), Role: p.Role}
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// userID is the identity provider's id of a user.
type userID string

// userIDs matches the ids of users.
var userIDs = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z0-9][A-Za-z0-9_.:|@-]{0,127}$")
})

// JSONSchema implements function.Schemer.
func (userID) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: userIDs().String()}
}

func needs() []function.Need { return []function.Need{function.Firestore, function.Members} }

// List lists the members of the caller's organization.
func List(service *member.Service) function.Route {
	return function.Route{
		Name: "ListMembers", Method: http.MethodGet, Path: path, Role: function.RoleAccounts,
		Access: function.Member, Needs: needs(),
		// NotFound: the identity provider manages members itself.
		Status: http.StatusOK, Summary: "List the members of the organization", Errors: []fault.Kind{fault.NotFound},
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) ([]View, error) {
			people, err := service.List(ctx)
			views := make([]View, len(people))
			for i, p := range people {
				views[i] = view(p)
			}
			return views, err
		}),
	}
}

type setInput struct {
	Path struct {
		UserID userID `json:"user_id" jsonschema:"The user's id at the identity provider."`
	} `json:"path"`
	Body struct {
		Role identity.Role `json:"role"`
	} `json:"body"`
}

// Example implements function.Exampler.
func (setInput) Example() any {
	var in setInput
	in.Path.UserID, in.Body.Role = "kG7x2mQ0dVfU", identity.RoleMember
	return in
}

// target is the member that the path names, if it names one.
func target(path func(string) string) audit.Target {
	t := audit.Target{Type: "member"}
	if id := path("user_id"); userIDs().MatchString(id) {
		t.ID = id
	}
	return t
}

// Set sets a member's role, or makes a user without an organization a member. A lower role ends the member's sessions;
// a token that was issued before is valid until it expires.
func Set(service *member.Service) function.Route {
	return function.Route{
		Name: "SetMember", Method: http.MethodPut, Path: path + "/{user_id}", Role: function.RoleAccounts,
		Access: function.Admin, Needs: needs(),
		Limit:      ratelimit.Members,
		KeepAnswer: true, Target: target,
		// Conflict: the last admin
		Status: http.StatusOK, Summary: "Set a member's role", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in setInput) (View, error) {
			p, err := service.Set(ctx, string(in.Path.UserID), in.Body.Role)
			return view(p), err
		}),
	}
}

type removeInput struct {
	Path struct {
		UserID userID `json:"user_id" jsonschema:"The user's id at the identity provider."`
	} `json:"path"`
}

// Remove ends a membership, and the member's sessions.
func Remove(service *member.Service) function.Route {
	return function.Route{
		Name: "RemoveMember", Method: http.MethodDelete, Path: path + "/{user_id}", Role: function.RoleAccounts,
		Access: function.Admin, Needs: needs(),
		Limit:      ratelimit.Members,
		KeepAnswer: true, Target: target,
		// Conflict: the last admin.
		Status: http.StatusNoContent, Summary: "Remove a member", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in removeInput) (function.None, error) {
			return function.None{}, service.Remove(ctx, string(in.Path.UserID))
		}),
	}
}
