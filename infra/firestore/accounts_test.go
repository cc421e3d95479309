package firestore

import (
	"slices"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/organization"
)

// TestDue_LeavesOutUnreadableAccounts: an account whose record can't be decoded is always due. It hides no other.
func TestDue_LeavesOutUnreadableAccounts(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	var ids []string
	for _, overdue := range []time.Duration{time.Hour, time.Minute} {
		id, _ := newMember()
		_, err := c.Directory().Ensure(t.Context(), id, organization.User{})
		must(t, err)
		a, err := c.Accounts().Account(t.Context(), id)
		must(t, err)
		must(t, c.Accounts().Postpone(t.Context(), a, agenttest.Now().Add(-overdue)))
		ids = append(ids, id)
	}
	ref, _ := c.ref(organizationCollection, ids[0])
	_, err := ref.Update(t.Context(), []gcp.Update{{Path: "suspended", Value: "no"}})
	must(t, err)
	due, err := c.Accounts().Due(t.Context(), agenttest.Now(), 1)
	must(t, err)
	if !slices.Equal(due, ids[1:]) {
		t.Errorf("the first that is due is %v, want %v: the record of %s can't be decoded", due, ids[1:], ids[0])
	}
}
