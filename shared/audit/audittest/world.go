// Package audittest is the conformance suite of the port of package audit. It knows what a log promises to routes and
// to what serves them, and nothing about how it keeps the promise: an adapter hands in a World of its own making.
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
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// World is an empty log and what a test needs to look behind it.
type World struct {
	// Log is the log as it is at a time.
	Log func(t *testing.T, now time.Time) audit.Log
	// SetPlan puts an organization on a plan, and creates its record if it has none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
	// Entries reads the entries of an organization as they are stored, also those that have expired, in the order of
	// their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// now is when the tests take place; a store keeps microseconds.
//
//nolint:gochecknoglobals // a constant
var now = time.Date(2026, time.May, 6, 7, 8, 9, 10_000, time.UTC)

// tenant is an organization in a test, and the context of its administrator's requests.
type tenant struct {
	t     *testing.T
	world World
	log   audit.Log
	id    string
	ctx   context.Context
}

// tenant makes an organization on a plan; "" leaves it without a record.
func (w World) tenant(t *testing.T, p plan.ID) tenant {
	t.Helper()
	n := tenant{t: t, world: w, log: w.Log(t, now), id: "org_" + random()}
	n.ctx = identity.With(t.Context(), identity.Caller{ID: "user_1", OrganizationID: n.id, Role: identity.RoleAdmin})
	if p != "" {
		n.setPlan(p)
	}
	return n
}

func (n tenant) setPlan(p plan.ID) {
	n.t.Helper()
	if err := n.world.SetPlan(n.t.Context(), n.id, p); err != nil {
		n.t.Fatalf("set the plan: %v", err)
	}
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// entry makes an entry of the organization, so many seconds ago.
func (n tenant) entry(seconds int) audit.Entry {
	return audit.Entry{
		ID: random(), OrganizationID: n.id, CreatedAt: now.Add(-time.Duration(seconds) * time.Second),
		Actor:  identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: n.id, Role: identity.RoleAdmin},
		Action: "StopAgent", Target: audit.Target{Type: "agent", ID: "a1"}, Outcome: audit.Succeeded,
		Request: audit.Request{Action: "StopAgent", RequestID: "request-1"},
	}
}

// append appends entries, and returns them newest first, as the interface promises to list them.
func (n tenant) append(entries ...audit.Entry) []audit.Entry {
	n.t.Helper()
	for _, e := range entries {
		if err := n.log.Append(n.t.Context(), e); err != nil {
			n.t.Fatalf("append an entry: %v", err)
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

// ago makes and appends entries, each so many seconds ago.
func (n tenant) ago(seconds ...int) []audit.Entry {
	n.t.Helper()
	entries := make([]audit.Entry, len(seconds))
	for i, s := range seconds {
		entries[i] = n.entry(s)
	}
	return n.append(entries...)
}

func (n tenant) stored() []audit.Entry {
	n.t.Helper()
	entries, err := n.world.Entries(n.t.Context(), n.id)
	if err != nil {
		n.t.Fatalf("read what is stored: %v", err)
	}
	return entries
}

// list follows the cursors to the end.
func (n tenant) list(log audit.Log, f audit.Filter, limit int) []audit.Entry {
	n.t.Helper()
	var all []audit.Entry
	for cursor := ""; ; {
		p, err := log.List(n.ctx, f, page.Request{Limit: limit, Cursor: cursor})
		if err != nil {
			n.t.Fatalf("list entries: %v", err)
		}
		if len(p.Items) > limit {
			n.t.Fatalf("a page has %d entries, want at most %d", len(p.Items), limit)
		}
		all = append(all, p.Items...)
		if p.Next == "" {
			return all
		}
		if len(p.Items) == 0 || p.Next == cursor {
			n.t.Fatal("a page leads nowhere")
		}
		cursor = p.Next
	}
}

// ids are what tells entries apart, with their times.
func ids(entries []audit.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.ID[:8] + "@" + e.CreatedAt.Format(time.RFC3339)
	}
	return out
}
