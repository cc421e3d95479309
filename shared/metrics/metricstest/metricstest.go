// Package metricstest is the conformance suite for implementations of metrics.Store and metrics.WorkerStore, and an
// in-memory implementation that passes it. The suite does not depend on an implementation: each adapter provides a
// Fixture.
package metricstest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
)

// Fixture is an empty store, and access to its records for the tests.
type Fixture struct {
	Store   metrics.Store
	Records metrics.WorkerStore
	// Create creates an agent in the organization of the caller in ctx. Change changes its record. Remove removes it.
	Create func(ctx context.Context) (agent.Agent, error)
	Change func(ctx context.Context, id string) error
	Remove func(ctx context.Context, id string) error
	// Forget deletes the snapshot of an agent, so that it looks like an agent from before snapshots existed.
	Forget func(ctx context.Context, id string) error
	// Flush waits until the store's background writes are done.
	Flush func()
}

// Now is a time that every store can represent exactly.
func Now() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// Test tests that a metrics.Store and a metrics.WorkerStore keep their contracts. open makes an empty fixture.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, tenant){
		"a snapshot lives as long as its agent":         snapshotLivesWithAgent,
		"save stores every figure and series":           saveStoresEverything,
		"the current figures of an organization":        listCurrent,
		"other organizations read no snapshots":         otherOrganizationsReadNothing,
		"unknown and invalid ids are not found":         unknownIDs,
		"save refuses an outdated snapshot":             saveRefusesOutdatedSnapshot,
		"save creates a missing snapshot only once":     saveCreatesMissingSnapshot,
		"views are recorded once per interval":          viewsAreRecorded,
		"a view of a deleted agent creates no snapshot": viewOfDeletedAgent,
		"recently viewed snapshots are listed":          listViewedSince,
		"progress is stored by cell":                    progressByCell,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, tenant{open(t), asMember(t.Context(), "org_"+random())})
		})
	}
}

// tenant is an organization of a test, with the context of its requests.
type tenant struct {
	Fixture
	ctx context.Context
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// asMember is the context of a caller of an organization.
func asMember(ctx context.Context, organization string) context.Context {
	return call.As(ctx,
		identity.Caller{Type: identity.APIKey, ID: "key", OrganizationID: organization, Role: identity.RoleAdmin})
}

func (w tenant) create(t *testing.T) agent.Agent {
	t.Helper()
	a, err := w.Create(w.ctx)
	if err != nil {
		t.Fatalf("metricstest: create an agent: %v", err)
	}
	return a
}

func (w tenant) remove(t *testing.T, id string) {
	t.Helper()
	if err := w.Remove(w.ctx, id); err != nil {
		t.Fatalf("metricstest: remove an agent: %v", err)
	}
}

func (w tenant) forget(t *testing.T, id string) {
	t.Helper()
	if err := w.Forget(w.ctx, id); err != nil {
		t.Fatalf("metricstest: delete a snapshot: %v", err)
	}
}

func (w tenant) save(t *testing.T, s metrics.Snapshot, agentVersion string) {
	t.Helper()
	if err := w.Records.Save(w.ctx, s, agentVersion); err != nil {
		t.Fatalf("metricstest: save a snapshot: %v", err)
	}
}

// wantNotLoaded checks that Load finds no snapshots of agents.
func (w tenant) wantNotLoaded(t *testing.T, ids ...string) {
	t.Helper()
	if found, err := w.Records.Load(w.ctx, ids); err != nil || len(found) != 0 {
		t.Errorf("metricstest: load %q = %v, %v; want no snapshots", ids, found, err)
	}
}

func (w tenant) load(t *testing.T, id string) metrics.Snapshot {
	t.Helper()
	found, err := w.Records.Load(w.ctx, []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("metricstest: load %s: %d snapshots, %v; want 1", id, len(found), err)
	}
	return found[id]
}

// filled sets all figures and series of a snapshot.
func filled(s metrics.Snapshot) metrics.Snapshot {
	v := func(n float64) *float64 { return &n }
	s.CollectedAt = Now()
	s.Figures = metrics.Figures{
		CPUPct: v(1), MemPct: v(2.5), PVCPct: v(3), UptimePct: v(99.5), CPUCores: v(0.1), MemoryBytes: v(1 << 40),
		LatencyMillis: v(84), Restarts: 3,
	}
	s.RestartsSeen = 37
	s.Counted = metrics.Counted{Requests: 1234.5, Errors: 6, Until: Now().Add(-4 * time.Minute)}
	for i, ring := range []*metrics.Ring{
		&s.CPU.Hour, &s.CPU.Day, &s.Memory.Hour, &s.Memory.Day, &s.Requests.Hour, &s.Requests.Day, &s.Errors.Hour,
		&s.Errors.Day, &s.Up, &s.Due, &s.Restarted,
	} {
		ring.Set(Now().Add(-20*time.Minute), float64(i))
		ring.Set(Now(), float64(i)/3)
	}
	return s
}

// equal reports whether two snapshots have the same content. Their versions may differ.
func equal(a, b metrics.Snapshot) bool {
	a.Version, b.Version = "", ""
	return reflect.DeepEqual(a.Figures, b.Figures) && a.RestartsSeen == b.RestartsSeen &&
		a.Counted.Until.Equal(b.Counted.Until) && a.Counted.Requests == b.Counted.Requests &&
		a.Counted.Errors == b.Counted.Errors &&
		a.CollectedAt.Equal(b.CollectedAt) &&
		a.ViewedAt.Equal(b.ViewedAt) &&
		a.AgentID == b.AgentID && a.OrganizationID == b.OrganizationID &&
		reflect.DeepEqual(a.Show(metrics.Window1h, Now()), b.Show(metrics.Window1h, Now())) &&
		reflect.DeepEqual(a.Show(metrics.Window24h, Now()), b.Show(metrics.Window24h, Now())) &&
		reflect.DeepEqual(a.Up.Points(time.Time{}), b.Up.Points(time.Time{})) &&
		reflect.DeepEqual(a.Due.Points(time.Time{}), b.Due.Points(time.Time{})) &&
		reflect.DeepEqual(a.Restarted.Points(time.Time{}), b.Restarted.Points(time.Time{}))
}

func isNotFound(err error) bool { return reflect.DeepEqual(fault.From(err), metrics.NotFound()) }

func snapshotLivesWithAgent(t *testing.T, w tenant) {
	a := w.create(t)
	s, err := w.Store.Get(w.ctx, a.ID)
	if err != nil || s.Version == "" || !equal(s, metrics.New(a.ID, a.OrganizationID)) {
		t.Fatalf("metricstest: snapshot of a new agent = %+v, %v; want an empty one with a version", s, err)
	}
	w.remove(t, a.ID)
	if _, err := w.Store.Get(w.ctx, a.ID); !isNotFound(err) {
		t.Errorf("metricstest: get the snapshot of a deleted agent: %v, want not found", err)
	}
	if err := w.Records.Save(w.ctx, s, a.Version); !isNotFound(err) && !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("metricstest: save the snapshot of a deleted agent: %v, want not found or ErrChanged", err)
	}
	w.wantNotLoaded(t, a.ID)
}

func saveStoresEverything(t *testing.T, w tenant) {
	a, b := w.create(t), w.create(t)
	want := filled(w.load(t, a.ID))
	w.save(t, want, a.Version)
	got, err := w.Store.Get(w.ctx, a.ID)
	if err != nil || !equal(got, want) {
		t.Errorf("metricstest: get after save = %+v, %v\nwant %+v", got, err, want)
	}
	if got.Version == want.Version {
		t.Errorf("metricstest: the version is still %s after a save", got.Version)
	}
	found, err := w.Records.Load(w.ctx, []string{b.ID, a.ID, random()})
	if err != nil || len(found) != 2 {
		t.Errorf("metricstest: load two snapshots and an unknown one: %d found, %v; want 2", len(found), err)
	}
	if !equal(found[a.ID], want) {
		t.Errorf("metricstest: loaded snapshot = %+v\nwant %+v", found[a.ID], want)
	}
	if !equal(found[b.ID], metrics.New(b.ID, b.OrganizationID)) {
		t.Errorf("metricstest: another agent's snapshot = %+v, want an empty one", found[b.ID])
	}
	// Figures that are no longer measured become null again.
	empty := got
	empty.Figures = metrics.Figures{}
	w.save(t, empty, a.Version)
	if got := w.load(t, a.ID); !equal(got, empty) {
		t.Errorf("metricstest: figures = %+v after saving none, want none", got.Figures)
	}
}

func listCurrent(t *testing.T, w tenant) {
	a, forgotten := w.create(t), w.create(t)
	other := tenant{w.Fixture, asMember(t.Context(), "org_"+random())}
	other.create(t)
	want := filled(w.load(t, a.ID))
	w.save(t, want, a.Version)
	w.forget(t, forgotten.ID)
	found, err := w.Store.ListCurrent(w.ctx)
	if err != nil || len(found) != 2 || found[0].Agent.ID >= found[1].Agent.ID {
		t.Fatalf("metricstest: list current figures = %+v, %v; want two agents in the order of their ids", found, err)
	}
	for _, c := range found {
		got := c.Snapshot
		switch c.Agent.ID {
		case a.ID:
			same := got.CollectedAt.Equal(want.CollectedAt) && reflect.DeepEqual(got.Figures, want.Figures) &&
				got.Counted.Requests == want.Counted.Requests && got.Counted.Errors == want.Counted.Errors
			if !same || c.Agent.Name != a.Name || c.Agent.Status != a.Status || c.Agent.Plan != a.Plan ||
				c.Agent.Region != a.Region || c.Agent.Image.ID != a.Image.ID ||
				c.Agent.Image.Version != a.Image.Version {
				t.Errorf("metricstest: current figures = %+v, want those of %+v and %+v", c, a, want)
			}
		case forgotten.ID:
			if !equal(got, metrics.New(forgotten.ID, forgotten.OrganizationID)) {
				t.Errorf("metricstest: figures of an agent without a snapshot = %+v, want none", got)
			}
		}
	}
	for _, ctx := range []context.Context{asMember(t.Context(), "org_"+random()), asMember(t.Context(), "")} {
		if found, err := w.Store.ListCurrent(ctx); err != nil || len(found) != 0 {
			t.Errorf("metricstest: another organization lists %+v, %v; want nothing", found, err)
		}
	}
}

func otherOrganizationsReadNothing(t *testing.T, w tenant) {
	a := w.create(t)
	for name, ctx := range map[string]context.Context{
		"another organization": asMember(t.Context(), "org_"+random()),
		"no organization":      asMember(t.Context(), ""),
	} {
		if _, err := w.Store.Get(ctx, a.ID); !isNotFound(err) {
			t.Errorf("metricstest: get as %s: %v, want not found", name, err)
		}
	}
}

func unknownIDs(t *testing.T, w tenant) {
	for _, id := range []string{"", "x", "a/b", ".", "__x__", "\xff", "00000000-0000-4000-8000-000000000000"} {
		if _, err := w.Store.Get(w.ctx, id); !isNotFound(err) {
			t.Errorf("metricstest: get %q: %v, want not found", id, err)
		}
	}
	w.wantNotLoaded(t, "", "a/b")
}
