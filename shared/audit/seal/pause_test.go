package seal_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/audit/seal/sealtest"
)

const day = 24 * time.Hour

// TestSealer_ContinuesAfterAPauseAsLongAsTheRetention deletes all seals, as Firestore does when they have expired. An
// anchor that the customer kept still verifies, also if a former release has sealed, which stored no head.
func TestSealer_ContinuesAfterAPauseAsLongAsTheRetention(t *testing.T) {
	t.Parallel()
	for name, former := range map[string]bool{"this release": false, "a former release": true} {
		f := sealedFixture(t)
		f.sealAt(20 * day)
		anchor := f.Sealed[len(f.Sealed)-1].Anchor()
		if former {
			f.Heads = nil
			f.sealAt(28 * day) // the seals still exist
		}
		f.Log, f.Sealed = []seal.Entry{entryAt(1000, 40*day)}, nil
		f.sealAt(40*day + time.Hour)
		if len(f.Sealed) != 1 || f.Sealed[0].Sequence != anchor.Sequence+1 {
			t.Fatalf("%s: after the pause there are the seals %+v, want one with the sequence %d", name, f.Sealed,
				anchor.Sequence+1)
		}
		if report := f.verify(&anchor); !report.Verified() {
			t.Errorf("%s: after the pause the log has the problems %v, want none", name, report.Problems)
		}
	}
}

// crowd has many organizations with an entry each.
type crowd struct {
	sealtest.Memory
	ids []string

	mu     sync.Mutex
	listed int
	sealed map[string]int
}

// Organizations implements seal.Store.
func (c *crowd) Organizations(_ context.Context, after string, limit int) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed++
	rest := c.ids[len(c.ids):]
	if i := slices.IndexFunc(c.ids, func(id string) bool { return id > after }); i >= 0 {
		rest = c.ids[i:]
	}
	return rest[:min(limit, len(rest))], nil
}

// Entries implements seal.Log.
func (c *crowd) Entries(context.Context, string, time.Time, time.Time) iter.Seq2[seal.Entry, error] {
	return func(yield func(seal.Entry, error) bool) { yield(entryAt(1, 0), nil) }
}

// Create implements seal.Store.
func (c *crowd) Create(_ context.Context, s seal.Seal) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed[s.OrganizationID]++
	return true, nil
}

// TestRun_SealsEveryPageOfOrganizations: more organizations than two calls list.
func TestRun_SealsEveryPageOfOrganizations(t *testing.T) {
	t.Parallel()
	c := &crowd{sealed: map[string]int{}}
	for i := range 401 {
		c.ids = append(c.ids, fmt.Sprintf("org_%03d", i))
	}
	s := &seal.Sealer{Store: c, Now: func() time.Time { return start.Add(2 * time.Hour) }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range c.ids {
		if c.sealed[id] != 1 {
			t.Errorf("%s was sealed %d times, want once", id, c.sealed[id])
		}
	}
	if c.listed != 3 {
		t.Errorf("organizations were listed %d times, want 3", c.listed)
	}
}
