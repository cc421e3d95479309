package organizations

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

const membersPath = "/api/v1/organizations/current/members"

// MemberView is a member in an answer.
type MemberView struct {
	UserID string        `json:"user_id" jsonschema:"The user's id at the identity provider, which is the sub claim of their tokens. The id in created_by and in the audit log is another one: the id that GET /api/v1/me shows the user."`
	Email  *string       `json:"email" jsonschema:"Null if the identity provider does not know it."`
	Name   *string       `json:"name" jsonschema:"Null if the identity provider does not know it."`
	Role   identity.Role `json:"role"`
}

// Example implements function.Exampler.
func (MemberView) Example() any {
	ada := member.Person{ID: "kG7x2mQ0dVfU", Email: "ada@example.com", Name: "Ada", Role: identity.RoleAdmin}
	return memberView(ada)
}

func memberView(p member.Person) MemberView {
	return MemberView{UserID: p.ID, Email: optional(p.Email), Name: optional(p.Name), Role: p.Role}
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

func memberNeeds() []function.Need { return []function.Need{function.Firestore, function.Members} }

// ListMembers lists the members of the caller's organization.
func ListMembers(service *member.Service) function.Route {
	return function.Route{
		Name: "ListMembers", Method: http.MethodGet, Path: membersPath, Role: function.RoleAccounts,
		Access: function.Member, Needs: memberNeeds(),
		// NotFound: the identity provider manages members itself.
		Status: http.StatusOK, Summary: "List the members of the organization", Errors: []fault.Kind{fault.NotFound},
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) ([]MemberView, error) {
			people, err := service.List(ctx)
			views := make([]MemberView, len(people))
			for i, p := range people {
				views[i] = memberView(p)
			}
			return views, err
		}),
	}
}

type setMemberInput struct {
	Path struct {
		UserID userID `json:"user_id" jsonschema:"The user's id at the identity provider."`
	} `json:"path"`
	Body struct {
		Role identity.Role `json:"role"`
	} `json:"body"`
}

// Example implements function.Exampler.
func (setMemberInput) Example() any {
	var in setMemberInput
	in.Path.UserID, in.Body.Role = "kG7x2mQ0dVfU", identity.RoleMember
	return in
}

// memberTarget is the member that the path names, if it names one.
func memberTarget(path func(string) string) audit.Target {
	t := audit.Target{Type: "member"}
	if id := path("user_id"); userIDs().MatchString(id) {
		t.ID = id
	}
	return t
}

// SetMember sets a member's role, or makes a user without an organization a member. A lower role ends the member's
// sessions; a token that was issued before is refused within organization.EndsKnown.
func SetMember(service *member.Service) function.Route {
	return function.Route{
		Name: "SetMember", Method: http.MethodPut, Path: membersPath + "/{user_id}", Role: function.RoleAccounts,
		Access: function.Admin, Needs: memberNeeds(),
		Limit:      ratelimit.Members,
		KeepAnswer: true, Target: memberTarget,
		// Conflict: the last admin
		Status: http.StatusOK, Summary: "Set a member's role", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in setMemberInput) (MemberView, error) {
			p, err := service.Set(ctx, string(in.Path.UserID), in.Body.Role)
			return memberView(p), err
		}),
	}
}

type removeMemberInput struct {
	Path struct {
		UserID userID `json:"user_id" jsonschema:"The user's id at the identity provider."`
	} `json:"path"`
}

// RemoveMember ends a membership, and the member's sessions.
func RemoveMember(service *member.Service) function.Route {
	return function.Route{
		Name: "RemoveMember", Method: http.MethodDelete, Path: membersPath + "/{user_id}", Role: function.RoleAccounts,
		Access: function.Admin, Needs: memberNeeds(),
		Limit:      ratelimit.Members,
		KeepAnswer: true, Target: memberTarget,
		// Conflict: the last admin.
		Status: http.StatusNoContent, Summary: "Remove a member", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in removeMemberInput) (function.None, error) {
			return function.None{}, service.Remove(ctx, string(in.Path.UserID))
		}),
	}
}
