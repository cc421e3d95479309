// Package metricstest is the conformance suite of the stores of package metrics, and a store in memory that passes it.
// It knows what a store promises to routes and to the collector, and nothing about how it keeps the promise: an adapter
// hands in a World of its own making.
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
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
)

// World is an empty store and what a test needs to look behind it.
type World struct {
	Store   metrics.Store
	Records metrics.WorkerStore
	// Create creates an agent in the organization of the caller in ctx. Change changes its record, and Remove removes
	// it.
	Create func(ctx context.Context) (agent.Agent, error)
	Change func(ctx context.Context, id string) error
	Remove func(ctx context.Context, id string) error
	// Forget takes the snapshot of an agent away, as of one that was created before there were any.
	Forget func(ctx context.Context, id string) error
	// Settled waits for what the store does without being waited for.
	Settled func()
}

// Now is a time that every store keeps exactly.
func Now() time.Time { return time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC) }

// Test holds a metrics.Store and a metrics.Records to their promises. open makes an empty world.
func Test(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, tenant){
		"begins and ends with the agent": lifetime,
		"save and read":                  saveAndRead,
		"tenancy":                        tenancy,
		"ids that are none":              noIDs,
		"a version that is not present":  versions,
		"agents without a snapshot":      late,
		"looks":                          looks,
		"a look of what is gone":         lookOfNothing,
		"who was looked at":              lookedAt,
		"progress":                       progress,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, tenant{open(t), in(t.Context(), "org_"+random())})
		})
	}
}

// tenant is an organization in a test.
type tenant struct {
	World
	ctx context.Context
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// in is the context of a caller of an organization.
func in(ctx context.Context, organization string) context.Context {
	return identity.With(ctx,
		identity.Caller{Type: identity.APIKey, ID: "key", OrganizationID: organization, Role: identity.RoleAdmin})
}

func (w tenant) create(t *testing.T) agent.Agent {
	t.Helper()
	a, err := w.Create(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w tenant) load(t *testing.T, id string) metrics.Snapshot {
	t.Helper()
	found, err := w.Records.Load(w.ctx, []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("load %s: %d snapshots, %v", id, len(found), err)
	}
	return found[id]
}

// full sets every field.
func full(s metrics.Snapshot) metrics.Snapshot {
	v := func(n float64) *float64 { return &n }
	s.CollectedAt = Now()
	s.Figures = metrics.Figures{
		CPUPct: v(1), MemPct: v(2.5), PVCPct: v(3), UptimePct: v(99.5), CPUCores: v(0.1), MemoryBytes: v(1 << 40),
		LatencyMillis: v(84), Restarts: 3,
	}
	for i, ring := range []*metrics.Ring{
		&s.CPU.Hour, &s.CPU.Day, &s.Memory.Hour, &s.Memory.Day, &s.Requests.Hour, &s.Requests.Day, &s.Errors.Hour,
		&s.Errors.Day, &s.Up, &s.Due,
	} {
		ring.Set(Now().Add(-20*time.Minute), float64(i))
		ring.Set(Now(), float64(i)/3)
	}
	return s
}

// same compares what two snapshots say.
func same(a, b metrics.Snapshot) bool {
	a.Version, b.Version = "", ""
	return reflect.DeepEqual(a.Figures, b.Figures) && a.CollectedAt.Equal(b.CollectedAt) &&
		a.LookedAt.Equal(b.LookedAt) &&
		a.AgentID == b.AgentID && a.OrganizationID == b.OrganizationID &&
		reflect.DeepEqual(a.Show(metrics.Window1h, Now()), b.Show(metrics.Window1h, Now())) &&
		reflect.DeepEqual(a.Show(metrics.Window24h, Now()), b.Show(metrics.Window24h, Now())) &&
		reflect.DeepEqual(a.Up.Points(time.Time{}), b.Up.Points(time.Time{})) &&
		reflect.DeepEqual(a.Due.Points(time.Time{}), b.Due.Points(time.Time{}))
}

func isNotFound(err error) bool { return reflect.DeepEqual(fault.From(err), metrics.NotFound()) }

func lifetime(t *testing.T, w tenant) {
	a := w.create(t)
	s, err := w.Store.Get(w.ctx, a.ID)
	if err != nil || s.Version == "" || !same(s, metrics.New(a.ID, a.OrganizationID)) {
		t.Fatalf("the snapshot of a new agent: %+v, %v", s, err)
	}
	if err := w.Remove(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Get(w.ctx, a.ID); !isNotFound(err) {
		t.Errorf("the snapshot of an agent that is gone: %v", err)
	}
	if err := w.Records.Save(w.ctx, s, a.Version); !isNotFound(err) && !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("it is saved again: %v", err)
	}
	if found, err := w.Records.Load(w.ctx, []string{a.ID}); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func saveAndRead(t *testing.T, w tenant) {
	a, b := w.create(t), w.create(t)
	want := full(w.load(t, a.ID))
	if err := w.Records.Save(w.ctx, want, a.Version); err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Get(w.ctx, a.ID)
	if err != nil || !same(got, want) || got.Version == want.Version {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	found, err := w.Records.Load(w.ctx, []string{b.ID, a.ID, random()})
	if err != nil || len(found) != 2 || !same(found[a.ID], want) ||
		!same(found[b.ID], metrics.New(b.ID, b.OrganizationID)) {
		t.Errorf("%v, %v", found, err)
	}
	// What is not measured any more is null again.
	empty := got
	empty.Figures = metrics.Figures{}
	if err := w.Records.Save(w.ctx, empty, a.Version); err != nil {
		t.Fatal(err)
	}
	if got := w.load(t, a.ID); !same(got, empty) {
		t.Errorf("figures %+v, want none", got.Figures)
	}
}

func tenancy(t *testing.T, w tenant) {
	a := w.create(t)
	for name, ctx := range map[string]context.Context{"another organization": in(t.Context(), "org_"+random()),
		"none": in(t.Context(), "")} {
		if _, err := w.Store.Get(ctx, a.ID); !isNotFound(err) {
			t.Errorf("%s reads it: %v", name, err)
		}
	}
}

func noIDs(t *testing.T, w tenant) {
	for _, id := range []string{"", "x", "a/b", ".", "__x__", "\xff", "00000000-0000-4000-8000-000000000000"} {
		if _, err := w.Store.Get(w.ctx, id); !isNotFound(err) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if found, err := w.Records.Load(w.ctx, []string{"", "a/b"}); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}
