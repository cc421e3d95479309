// Package audittest is the conformance suite for implementations of audit.Log. It does not depend on an implementation:
// each adapter provides a Fixture.
package audittest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// Fixture is an empty log, and access to its storage for the tests.
type Fixture struct {
	// Log opens the log with a clock that shows now.
	Log func(t *testing.T, now time.Time) audit.Log
	// SetPlan puts an organization on a plan. It creates the organization's record if there is none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
	// Entries reads the stored entries of an organization, including expired ones, in the order of their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// now is the time of the tests. It has microseconds, which a store must keep.
//
//nolint:gochecknoglobals // a constant
var now = time.Date(2026, time.May, 6, 7, 8, 9, 10_000, time.UTC)

// tenant is an organization of a test, with the context of its admin's requests.
type tenant struct {
	t       *testing.T
	fixture Fixture
	log     audit.Log
	id      string
	ctx     context.Context
}

// tenant makes an organization on a plan. With "" the organization gets no record.
func (w Fixture) tenant(t *testing.T, p plan.ID) tenant {
	t.Helper()
	n := tenant{t: t, fixture: w, log: w.Log(t, now), id: "org_" + random()}
	n.ctx = call.As(t.Context(), identity.Caller{ID: "user_1", OrganizationID: n.id, Role: identity.RoleAdmin})
	if p != "" {
		n.setPlan(p)
	}
	return n
}

func (n tenant) setPlan(p plan.ID) {
	n.t.Helper()
	if err := n.fixture.SetPlan(n.t.Context(), n.id, p); err != nil {
		n.t.Fatalf("audittest: set the plan: %v", err)
	}
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// entry makes an entry of the organization that is some seconds old.
func (n tenant) entry(seconds int) audit.Entry {
	return audit.Entry{
		ID: random(), OrganizationID: n.id, CreatedAt: now.Add(-time.Duration(seconds) * time.Second),
		Actor:  identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: n.id, Role: identity.RoleAdmin},
		Action: "StopAgent", Target: audit.Target{Type: "agent", ID: "a1"}, Outcome: audit.Succeeded,
		Request: audit.Request{Action: "StopAgent", RequestID: "request-1"},
	}
}

// append appends entries and returns them newest first, the order in which a log must list them.
func (n tenant) append(entries ...audit.Entry) []audit.Entry {
	n.t.Helper()
	for _, e := range entries {
		if err := n.log.Append(n.t.Context(), e); err != nil {
			n.t.Fatalf("audittest: append an entry: %v", err)
		}
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
func (n tenant) appendAged(seconds ...int) []audit.Entry {
	n.t.Helper()
	entries := make([]audit.Entry, len(seconds))
	for i, s := range seconds {
		entries[i] = n.entry(s)
	}
	return n.append(entries...)
}

func (n tenant) stored() []audit.Entry {
	n.t.Helper()
	entries, err := n.fixture.Entries(n.t.Context(), n.id)
	if err != nil {
		n.t.Fatalf("audittest: read the stored entries: %v", err)
	}
	return entries
}

// list lists all pages.
func (n tenant) list(log audit.Log, f audit.Filter, limit int) []audit.Entry {
	n.t.Helper()
	var all []audit.Entry
	for cursor := ""; ; {
		p, err := log.List(n.ctx, f, page.Request{Limit: limit, Cursor: cursor})
		if err != nil {
			n.t.Fatalf("audittest: list entries: %v", err)
		}
		if len(p.Items) > limit {
			n.t.Fatalf("audittest: a page has %d entries, want at most %d", len(p.Items), limit)
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all
		}
		if len(p.Items) == 0 {
			n.t.Fatal("audittest: an empty page has a next cursor")
		}
		if p.Next == cursor {
			n.t.Fatal("audittest: the next cursor of a page is its own cursor")
		}
		cursor = p.Next
	}
}

// ids returns the abbreviated ids of entries, with their times.
func ids(entries []audit.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.ID[:8] + "@" + e.CreatedAt.Format(time.RFC3339)
	}
	return out
}
