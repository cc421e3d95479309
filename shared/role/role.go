// Package role defines what a user or an API key may do in its organization. It does not decide about calls.
package role

// Role is what a caller may do in the organization.
type Role string

// The roles. Members are read-only.
const (
	Admin  Role = "admin"
	Member Role = "member"
)

// Values lists the roles.
func (Role) Values() []string { return []string{string(Admin), string(Member)} }
