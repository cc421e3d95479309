package firestore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// entryTime is the time of the tests of the audit log. It has microseconds, which a store must keep.
var entryTime = time.Date(2026, time.May, 6, 7, 8, 9, 10_000, time.UTC)

// auditTenant is an organization to whose audit log a test appends entries.
type auditTenant struct {
	agenttest.Tenant
	t   *testing.T
	log *AuditLog
}

// newAuditTenant makes an organization on a plan. With "" the organization gets no record.
func newAuditTenant(t *testing.T, c *Client, p plan.ID) auditTenant {
	t.Helper()
	if p == "" {
		return auditTenant{agentFixture(c).TenantWithoutRecord(t, "org_"+agenttest.ID()), t, c.AuditLog()}
	}
	return auditTenant{agentFixture(c).Tenant(t, p), t, c.AuditLog()}
}

// entry makes an entry of the organization that is some seconds old.
func (n auditTenant) entry(seconds int) audit.Entry {
	return audit.Entry{
		ID: agenttest.ID(), OrganizationID: n.ID, CreatedAt: entryTime.Add(-time.Duration(seconds) * time.Second),
		Actor:  identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: n.ID, Role: identity.RoleAdmin},
		Action: "StopAgent", Target: audit.Target{Type: "agent", ID: "a1"}, Outcome: audit.Succeeded,
		Request: audit.Request{Action: "StopAgent", RequestID: "request-1"},
	}
}

// append appends entries and returns them newest first, the order in which the log must list them.
func (n auditTenant) append(entries ...audit.Entry) []audit.Entry {
	n.t.Helper()
	for _, e := range entries {
		must(n.t, n.log.Append(n.t.Context(), e))
	}
	slices.SortFunc(entries, func(a, b audit.Entry) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return entries
}

// appendAged makes and appends one entry for each age in seconds.
func (n auditTenant) appendAged(seconds ...int) []audit.Entry {
	n.t.Helper()
	entries := make([]audit.Entry, len(seconds))
	for i, s := range seconds {
		entries[i] = n.entry(s)
	}
	return n.append(entries...)
}

// list lists all pages.
func (n auditTenant) list(log *AuditLog, f audit.Filter, limit int) []audit.Entry {
	n.t.Helper()
	var all []audit.Entry
	for cursor := ""; ; {
		p, err := log.List(n.Ctx, f, page.Request{Limit: limit, Cursor: cursor})
		must(n.t, err)
		if len(p.Items) > limit {
			n.t.Fatalf("a page has %d entries, want at most %d", len(p.Items), limit)
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all
		}
		if len(p.Items) == 0 {
			n.t.Fatal("an empty page has a next cursor")
		}
		if p.Next == cursor {
			n.t.Fatal("the next cursor of a page is its own cursor")
		}
		cursor = p.Next
	}
}

// entryIDs returns the abbreviated ids of entries, with their times.
func entryIDs(entries []audit.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.ID[:8] + "@" + e.CreatedAt.Format(time.RFC3339)
	}
	return out
}
