package provisioning_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/provisioning"
)

// attic is what agents own in all places, as a cluster and a secret store would list it.
type attic struct {
	now        time.Time
	records    map[string]bool
	namespaces map[string]provisioning.Placement
	secrets    map[string]provisioning.SecretOwner
	// stopped are the agents whose pods a mark stopped.
	stopped map[string]bool
	// recordsErr and namespacesErr fail their reads, and sourcesErr fails the deletion of sources.
	recordsErr, namespacesErr, sourcesErr error
	sourcesDeleted                        bool
}

func newAttic() *attic {
	return &attic{
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), records: map[string]bool{},
		namespaces: map[string]provisioning.Placement{}, secrets: map[string]provisioning.SecretOwner{},
		stopped: map[string]bool{},
	}
}

// add adds what n agents own in a cell. They were created at a time and have records or not.
func (w *attic) add(n int, prefix, cell string, age time.Duration, known bool) {
	for i := range n {
		id := fmt.Sprint(prefix, i)
		w.records[id] = known
		w.namespaces[id] = provisioning.Placement{Cell: cell, AgentID: id, UID: id, CreatedAt: w.now.Add(-age)}
		w.secrets[id] = provisioning.SecretOwner{AgentID: id, CreatedAt: w.now.Add(-age)}
	}
}

func (w *attic) Exists(_ context.Context, ids []string) (map[string]bool, error) {
	exists := map[string]bool{}
	for _, id := range ids {
		exists[id] = w.records[id]
	}
	return exists, w.recordsErr
}

func (w *attic) Namespaces(context.Context) ([]provisioning.Placement, error) {
	return slices.Collect(maps.Values(w.namespaces)), w.namespacesErr
}

func (w *attic) MarkNamespace(_ context.Context, p provisioning.Placement, since time.Time) error {
	p.OrphanedSince = since
	w.namespaces[p.AgentID] = p
	w.stopped[p.AgentID] = w.stopped[p.AgentID] || !since.IsZero()
	return nil
}

func (w *attic) DeleteNamespace(_ context.Context, p provisioning.Placement) error {
	delete(w.namespaces, p.AgentID)
	return nil
}

func (w *attic) DeleteSources(context.Context) error {
	w.sourcesDeleted = true
	return w.sourcesErr
}

func (w *attic) SecretOwners(context.Context) ([]provisioning.SecretOwner, error) {
	return slices.Collect(maps.Values(w.secrets)), nil
}

func (w *attic) MarkSecrets(_ context.Context, o provisioning.SecretOwner, since time.Time) error {
	o.OrphanedSince = since
	w.secrets[o.AgentID] = o
	return nil
}

func (w *attic) DeleteSecrets(_ context.Context, o provisioning.SecretOwner) error {
	delete(w.secrets, o.AgentID)
	return nil
}

// collect runs the collector every hour for a time.
func (w *attic) collect(t *testing.T, duration time.Duration) {
	t.Helper()
	c := &provisioning.OrphanCollector{Agents: w, Namespaces: w, Secrets: w, Now: func() time.Time { return w.now }}
	for end := w.now.Add(duration); !w.now.After(end); w.now = w.now.Add(time.Hour) {
		if err := c.Collect(t.Context()); err != nil {
			t.Fatalf("Collect: %v", err)
		}
	}
}

// wantLeft checks how many namespaces and owners of secrets are left, and how many of each are marked.
func (w *attic) wantLeft(t *testing.T, left, marked int) {
	t.Helper()
	namespaces, owners := 0, 0
	for _, p := range w.namespaces {
		if !p.OrphanedSince.IsZero() {
			namespaces++
		}
	}
	for _, o := range w.secrets {
		if !o.OrphanedSince.IsZero() {
			owners++
		}
	}
	if len(w.namespaces) != left || namespaces != marked {
		t.Errorf("%d namespaces are left and %d of them marked, want %d and %d", len(w.namespaces), namespaces, left,
			marked)
	}
	if len(w.secrets) != left || owners != marked {
		t.Errorf("%d owners of secrets are left and %d of them marked, want %d and %d", len(w.secrets), owners, left,
			marked)
	}
}

func TestCollect_StopsOrphansAndDeletesThemADayLater(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(20, "agent-", "cell", 48*time.Hour, true)
	w.add(3, "orphan-", "cell", 2*time.Hour, false)
	w.collect(t, 23*time.Hour)
	w.wantLeft(t, 23, 3)
	if len(w.stopped) != 3 {
		t.Errorf("%d pods were stopped, want 3", len(w.stopped))
	}
	w.collect(t, time.Hour)
	w.wantLeft(t, 20, 0)
}

func TestCollect_LeavesYoungOrphansAlone(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(1, "agent-", "cell", 48*time.Hour, true)
	w.add(1, "young-", "cell", 59*time.Minute, false)
	w.collect(t, 0)
	w.wantLeft(t, 2, 0)
}

// TestCollect_TouchesNothingInAWrongDatabase runs the collector for a month over databases that lack the records.
func TestCollect_TouchesNothingInAWrongDatabase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ known, orphans int }{
		"an empty database":                     {known: 0, orphans: 100},
		"an empty database of a few agents":     {known: 0, orphans: 3},
		"a restored database":                   {known: 90, orphans: 10},
		"one orphan more than the limit":        {known: 100, orphans: 6},
		"one more than the share of many":       {known: 989, orphans: 11},
		"a database that holds only one record": {known: 1, orphans: 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAttic()
			w.add(c.known, "agent-", "cell", 48*time.Hour, true)
			w.add(c.orphans, "orphan-", "cell", 48*time.Hour, false)
			w.collect(t, 30*24*time.Hour)
			w.wantLeft(t, c.known+c.orphans, 0)
			if len(w.stopped) > 0 {
				t.Errorf("%d pods were stopped, want none", len(w.stopped))
			}
		})
	}
}

func TestCollect_DeletesUpToOneOfAHundred(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(990, "agent-", "cell", 48*time.Hour, true)
	w.add(10, "orphan-", "cell", 48*time.Hour, false)
	w.collect(t, 24*time.Hour)
	w.wantLeft(t, 990, 0)
}

// TestCollect_LeavesACellWithoutKnownAgentsAlone: a cell that is configured under a wrong name has only orphans.
func TestCollect_LeavesACellWithoutKnownAgentsAlone(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(20, "agent-", "cell", 48*time.Hour, true)
	w.add(2, "foreign-", "other", 48*time.Hour, false)
	w.secrets = nil
	w.collect(t, 48*time.Hour)
	if len(w.namespaces) != 22 || len(w.stopped) > 0 {
		t.Errorf("%d namespaces are left and %d pods stopped, want 22 and 0", len(w.namespaces), len(w.stopped))
	}
}

func TestCollect_ClearsTheMarkOfAnAgentThatCameBack(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(20, "agent-", "cell", 48*time.Hour, true)
	w.add(1, "orphan-", "cell", 48*time.Hour, false)
	w.collect(t, 22*time.Hour)
	w.wantLeft(t, 21, 1)
	w.records["orphan-0"] = true
	w.collect(t, 0)
	w.wantLeft(t, 21, 0)
	w.records["orphan-0"] = false // a new mark waits for a whole day again
	w.collect(t, 22*time.Hour)
	w.wantLeft(t, 21, 1)
}

func TestCollect_ClearsMarksAboveTheLimit(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(20, "agent-", "cell", 48*time.Hour, true)
	w.add(1, "orphan-", "cell", 48*time.Hour, false)
	w.collect(t, 0)
	w.records["orphan-0"] = true
	w.add(6, "more-", "cell", 48*time.Hour, false)
	w.collect(t, 0)
	w.wantLeft(t, 27, 0)
}

// TestCollect_DeletesSourcesWhateverTheRecordsSay: no record decides about what is left without a namespace.
func TestCollect_DeletesSourcesWhateverTheRecordsSay(t *testing.T) {
	t.Parallel()
	w := newAttic()
	w.add(20, "agent-", "cell", 48*time.Hour, true)
	w.add(1, "orphan-", "cell", 48*time.Hour, false)
	w.sourcesErr = errors.New("down")
	c := &provisioning.OrphanCollector{Agents: w, Namespaces: w, Secrets: w, Now: func() time.Time { return w.now }}
	if err := c.Collect(t.Context()); !errors.Is(err, w.sourcesErr) || !w.sourcesDeleted {
		t.Errorf("Collect = %v, sources deleted: %t; want the error of their deletion", err, w.sourcesDeleted)
	}
	if w.namespaces["orphan-0"].OrphanedSince.IsZero() {
		t.Error("the orphan is not marked, want it marked although sources cannot be deleted")
	}
}

func TestCollect_DeletesNothingAfterAFailedRead(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*attic){
		"records":    func(w *attic) { w.recordsErr = errors.New("down") },
		"namespaces": func(w *attic) { w.namespacesErr, w.secrets = errors.New("partial"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAttic()
			w.add(20, "agent-", "cell", 48*time.Hour, true)
			w.add(1, "orphan-", "cell", 48*time.Hour, false)
			w.collect(t, 0)
			w.now = w.now.Add(48 * time.Hour)
			fail(w)
			c := &provisioning.OrphanCollector{
				Agents: w, Namespaces: w, Secrets: w, Now: func() time.Time { return w.now },
			}
			if err := c.Collect(t.Context()); err == nil {
				t.Error("Collect succeeded without a read, want an error")
			}
			if len(w.namespaces) != 21 {
				t.Errorf("%d namespaces are left, want 21", len(w.namespaces))
			}
		})
	}
}
