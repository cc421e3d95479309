package identity_test

import (
	"testing"

	"agents.example/controlplane/shared/identity"
)

func TestAdmin_NeedsAnOrganization(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		caller identity.Caller
		want   bool
	}{
		"admin":                      {identity.Caller{OrganizationID: "o", Role: identity.RoleAdmin}, true},
		"member":                     {identity.Caller{OrganizationID: "o", Role: identity.RoleMember}, false},
		"no role":                    {identity.Caller{OrganizationID: "o"}, false},
		"admin of no organization":   {identity.Caller{Role: identity.RoleAdmin}, false},
		"a session without anything": {identity.Caller{}, false},
	} {
		if got := c.caller.Admin(); got != c.want {
			t.Errorf("%s: Admin is %t, want %t", name, got, c.want)
		}
	}
}
