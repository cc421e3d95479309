package organization_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

// fakeCounts simulates organizations. Some have drifted, and some can't be counted.
type fakeCounts struct {
	total   int
	drifted func(n int) bool
	fails   func(n int) bool
	// failingList is the number of the list call that fails, from 1; 0 for none.
	failingList int
	// onRecount is called while an organization is counted.
	onRecount func()

	mu      sync.Mutex
	lists   int
	counted map[string]int
	// running and mostRunning count concurrent recounts.
	running     int
	mostRunning int
}

func (c *fakeCounts) Organizations(_ context.Context, after string, limit int) ([]string, error) {
	if c.lists++; c.lists == c.failingList {
		return nil, errors.New("the list fails")
	}
	var ids []string
	for n := range c.total {
		if id := fmt.Sprintf("org-%04d", n); id > after && len(ids) < limit {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (c *fakeCounts) Recount(_ context.Context, id string) (organization.Drift, bool, error) {
	c.mu.Lock()
	c.counted[id]++
	c.running++
	c.mostRunning = max(c.mostRunning, c.running)
	c.mu.Unlock()
	if c.onRecount != nil {
		c.onRecount()
	}
	defer func() {
		c.mu.Lock()
		c.running--
		c.mu.Unlock()
	}()
	var n int
	if _, err := fmt.Sscanf(id, "org-%d", &n); err != nil {
		return organization.Drift{}, false, err
	}
	if c.fails != nil && c.fails(n) {
		return organization.Drift{}, false, errors.New("the count fails")
	}
	return organization.Drift{OrganizationID: id}, c.drifted != nil && c.drifted(n), nil
}

func TestRecount_CountsEveryOrganizationDespiteFailures(t *testing.T) {
	t.Parallel()
	third := func(n int) bool { return n%3 == 0 }
	for name, c := range map[string]struct {
		counts       *fakeCounts
		wantLists    int
		wantCounted  int
		wantReported int
		wantError    bool
	}{
		"no organizations": {
			counts:    &fakeCounts{},
			wantLists: 1, wantCounted: 0, wantReported: 0, wantError: false,
		},
		"one organization": {
			counts:    &fakeCounts{total: 1, drifted: third},
			wantLists: 1, wantCounted: 1, wantReported: 1, wantError: false,
		},
		"a full page": {
			counts:    &fakeCounts{total: 200},
			wantLists: 2, wantCounted: 200, wantReported: 0, wantError: false,
		},
		"several pages": {
			counts:    &fakeCounts{total: 450, drifted: third},
			wantLists: 3, wantCounted: 450, wantReported: 150, wantError: false,
		},
		"some organizations can't be counted": {
			counts:    &fakeCounts{total: 30, drifted: third, fails: func(n int) bool { return n%2 == 0 }},
			wantLists: 1, wantCounted: 30, wantReported: 5, wantError: false,
		},
		"no organization can be counted": {
			counts:    &fakeCounts{total: 3, fails: func(int) bool { return true }},
			wantLists: 1, wantCounted: 3, wantReported: 0, wantError: false,
		},
		"the first list fails": {
			counts:    &fakeCounts{total: 450, failingList: 1},
			wantLists: 1, wantCounted: 0, wantReported: 0, wantError: true,
		},
		"the second list fails": {
			counts:    &fakeCounts{total: 450, drifted: third, failingList: 2},
			wantLists: 2, wantCounted: 200, wantReported: 67, wantError: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.counts.counted = map[string]int{}
			var mu sync.Mutex
			var reported []string
			err := organization.Recount(t.Context(), c.counts, func(d organization.Drift) {
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, d.OrganizationID)
			})
			slices.Sort(reported)
			if (err != nil) != c.wantError {
				t.Errorf("Recount = %v, want an error: %t", err, c.wantError)
			}
			if c.counts.lists != c.wantLists {
				t.Errorf("%d lists, want %d", c.counts.lists, c.wantLists)
			}
			if len(reported) != c.wantReported || len(slices.Compact(slices.Clone(reported))) != c.wantReported {
				t.Errorf("reported %v, want %d different organizations", reported, c.wantReported)
			}
			if len(c.counts.counted) != c.wantCounted {
				t.Errorf("%d organizations counted, want %d", len(c.counts.counted), c.wantCounted)
			}
			if c.counts.mostRunning > 8 {
				t.Errorf("%d organizations counted concurrently, want at most 8", c.counts.mostRunning)
			}
			for id, n := range c.counts.counted {
				if n != 1 {
					t.Errorf("%s was counted %d times, want 1", id, n)
				}
			}
		})
	}
}

func TestRecount_StopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	c := &fakeCounts{total: 450, counted: map[string]int{}, onRecount: end}
	if err := organization.Recount(ctx, c, func(organization.Drift) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Recount = %v, want %v", err, context.Canceled)
	}
	if c.lists != 1 {
		t.Errorf("%d lists, want 1", c.lists)
	}
}
