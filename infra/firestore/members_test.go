package firestore

import (
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/member"
)

// TestListMembers_SeparatesOrganizations records a person in two organizations, and another person in one of them.
func TestListMembers_SeparatesOrganizations(t *testing.T) {
	t.Parallel()
	members := open(t, "", Options{}).Members()
	for _, m := range []struct{ organization, subject string }{
		{"org_1", "ada"}, {"org_2", "ada"}, {"org_2", "bob"}, {"org_2", "bob"},
	} {
		must(t, members.RecordMember(t.Context(), m.organization, m.subject))
	}
	must(t, members.SetRevocationDue(t.Context(), "org_2", "ada", true))
	for organization, want := range map[string][]member.Record{
		"org_1": {{ID: "ada"}},
		"org_2": {{ID: "ada", RevocationDue: true}, {ID: "bob"}},
		"org_3": nil,
	} {
		got, err := members.ListMembers(t.Context(), organization)
		must(t, err)
		slices.SortFunc(got, func(a, b member.Record) int { return strings.Compare(a.ID, b.ID) })
		if !slices.Equal(got, want) {
			t.Errorf("the members of %s are %+v, want %+v", organization, got, want)
		}
	}
}
