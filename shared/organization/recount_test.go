package organization_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"

	"agents.example/controlplane/shared/organization"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// counts are organizations of which some drifted, and some can't be counted.
type counts struct {
	total   int
	drifted func(n int) bool
	fails   func(n int) bool
	// listFails is the list, from 1 on, that fails; 0 is none.
	listFails int

	mu      sync.Mutex
	lists   int
	counted map[string]int
	now     int
	most    int
	// on is called while an organization is counted.
	on func()
}

func (c *counts) Organizations(_ context.Context, after string, limit int) ([]string, error) {
	if c.lists++; c.lists == c.listFails {
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

func (c *counts) Recount(_ context.Context, id string) (organization.Drift, bool, error) {
	c.mu.Lock()
	c.counted[id]++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	if c.on != nil {
		c.on()
	}
	defer func() {
		c.mu.Lock()
		c.now--
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

// TestRecount goes through all organizations, whatever becomes of some.
func TestRecount(t *testing.T) {
	t.Parallel()
	third := func(n int) bool { return n%3 == 0 }
	for name, c := range map[string]struct {
		counts   *counts
		lists    int
		counted  int
		reported int
		failed   bool
	}{
		"none": {counts: &counts{}, lists: 1, counted: 0, reported: 0, failed: false},
		"one": {counts: &counts{total: 1, drifted: third}, lists: 1, counted: 1, reported: 1,
			failed: false},
		"a page that is full": {counts: &counts{total: 200}, lists: 2, counted: 200, reported: 0, failed: false},
		"several pages": {counts: &counts{total: 450, drifted: third}, lists: 3, counted: 450,
			reported: 150, failed: false},
		"some can't be counted": {counts: &counts{total: 30, drifted: third,
			fails: func(n int) bool { return n%2 == 0 }}, lists: 1, counted: 30, reported: 5, failed: false},
		"none can be counted": {counts: &counts{total: 3, fails: func(int) bool { return true }}, lists: 1,
			counted: 3, reported: 0, failed: false},
		"no list": {counts: &counts{total: 450, listFails: 1}, lists: 1, counted: 0, reported: 0,
			failed: true},
		"a list that ends too soon": {counts: &counts{total: 450, drifted: third, listFails: 2}, lists: 2, counted: 200,
			reported: 67, failed: true},
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
			if (err != nil) != c.failed || c.counts.lists != c.lists || len(slices.Compact(reported)) != c.reported ||
				len(reported) != c.reported {
				t.Errorf("%v after %d lists, reported %v", err, c.counts.lists, reported)
			}
			if len(c.counts.counted) != c.counted || c.counts.most > 8 {
				t.Errorf("%d counted, %d at once; want %d, at most 8", len(c.counts.counted), c.counts.most, c.counted)
			}
			for id, n := range c.counts.counted {
				if n != 1 {
					t.Errorf("%s was counted %d times", id, n)
				}
			}
		})
	}
}

// TestRecountEnds: a recount whose time is up lists no more, and says so.
func TestRecountEnds(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	c := &counts{total: 450, counted: map[string]int{}, on: end}
	if err := organization.Recount(ctx, c, func(organization.Drift) {}); !errors.Is(err, context.Canceled) ||
		c.lists != 1 {
		t.Errorf("%v after %d lists, want the context's error after one", err, c.lists)
	}
}
