package apikey

// Role is what an API key, or a user, may do in the organization.
type Role string

// The roles. Members are read-only.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
)

// Values lists the roles.
func (Role) Values() []string { return []string{string(RoleAdmin), string(RoleMember)} }
