package firestore

import (
	"errors"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

// TestMetricsCalls counts the calls: a GET with an API key is one, and so is each snapshot that is saved.
func TestMetricsCalls(t *testing.T) {
	t.Parallel()
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	a, b, key := org.Create(plan.Hobby), org.Create(plan.Hobby), testKey()
	if _, err := c.Keys().Create(org.Ctx, key); err != nil {
		t.Fatal(err)
	}
	fine := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var s metrics.Snapshot
	look := func() { c.Metrics().MarkViewed(org.Ctx, s); c.Flush() }
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{name: "get with a key", do: func() {
			ctx, k, err := c.Keys().Find(t.Context(), key.Hash, metrics.Document(a.ID))
			fine(err)
			s, err = c.Metrics().Get(identity.With(ctx, identity.Caller{OrganizationID: k.OrganizationID}), a.ID)
			fine(err)
		}, want: "read"},
		{name: "load two", do: func() { _, err := c.Metrics().Load(t.Context(), []string{a.ID, b.ID}); fine(err) },
			want: "read"},
		{name: "save", do: func() { fine(c.Metrics().Save(t.Context(), s, a.Version)) }, want: "commit"},
		{name: "look", do: look, want: "commit"},
		{name: "look again", do: look, want: ""},
		{name: "who was looked at",
			do: func() {
				_, err := c.Metrics().ListViewedSince(t.Context(), time.Now().Add(-time.Hour),
					10)
				fine(err)
			}, want: "query"},
		{name: "progress", do: func() { _, err := c.Metrics().Progress(t.Context()); fine(err) }, want: "query"},
		{name: "progress made", do: func() {
			fine(c.Metrics().SetProgress(t.Context(),
				map[string]metrics.Progress{"one": {Next: time.Now()}, "two": {Next: time.Now()}}))
		}, want: "commit"},
	} {
		if got := plain(counter.of(step.do)); got != step.want {
			t.Errorf("%s: calls %q, want %q", step.name, got, step.want)
		}
	}
}

// TestSpoiledMetrics reads what it can, and saves over what it can't.
func TestSpoiledMetrics(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	for name, spoil := range map[string][]gcp.Update{
		"a ring of another version": {{Path: "rings",
			Value: map[string][]byte{"cpu_day": append([]byte{9}, make([]byte, 30)...)}}},
		"a ring of another kind": {{Path: "rings", Value: map[string]any{"cpu_day": "x"}}},
		"half a ring":            {{Path: "rings", Value: map[string][]byte{"up": {1, 0, 0}}}},
		"figures that are none":  {{Path: "figures", Value: "x"}},
		"a time that is none":    {{Path: "collected_at", Value: "x"}},
	} {
		a := org.Create(plan.Hobby)
		ref, _ := c.ref(metricsCollection, a.ID)
		if _, err := ref.Update(t.Context(), spoil); err != nil {
			t.Fatal(err)
		}
		s, err := c.Metrics().Get(org.Ctx, a.ID)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := c.Metrics().Save(t.Context(), s, a.Version); err != nil {
			t.Errorf("%s: save: %v", name, err)
		}
	}
}

// TestMetricsLeaveTheAgentAlone: what is measured changes neither the record nor its version, even where it proves the
// record to be there.
func TestMetricsLeaveTheAgentAlone(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	ref, _ := c.ref(metricsCollection, a.ID)
	if _, err := ref.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Metrics().Save(t.Context(), metrics.New(a.ID, a.OrganizationID), a.Version); err != nil {
		t.Fatal(err)
	}
	after, err := w.Store.Get(org.Ctx, a.ID)
	if err != nil || after.EntityTag() != a.EntityTag() {
		t.Errorf("the version was %s and is %s: %v", a.Version, after.Version, err)
	}
	if strings.TrimSpace(after.Version) == "" || after.Status != agent.Provisioning {
		t.Errorf("%+v", after)
	}
}

// TestMetricsFaults fails the commit of a snapshot before and after it did its work. The answer is right, or says to
// try again, and trying again ends well.
func TestMetricsFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentWorld(c).Tenant(t, plan.Enterprise)
	for _, fails := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted,
		codes.ResourceExhausted, codes.Internal} {
		for _, late := range []bool{false, true} {
			for _, isNew := range []bool{false, true} {
				a := org.Create(plan.Hobby)
				s := loadMetrics(t, c, a.ID)
				if isNew {
					ref, _ := c.ref(metricsCollection, a.ID)
					if _, err := ref.Delete(t.Context()); err != nil {
						t.Fatal(err)
					}
					s = metrics.New(a.ID, a.OrganizationID)
				}
				s.CollectedAt = time.Now().Truncate(time.Microsecond)
				faulty := open(t, c.project(),
					Options{DialOptions: (&sabotage{code: fails, late: late, at: 1}).interceptors()})
				err := faulty.Metrics().Save(t.Context(), s, a.Version)
				if err != nil && !errors.Is(err, metrics.ErrChanged) && !fault.Is(err, fault.Unavailable) {
					t.Errorf("%v, late %t, new %t: %v", fails, late, isNew, err)
				}
				found, loadErr := c.Metrics().Load(t.Context(), []string{a.ID})
				if saved := found[a.ID].CollectedAt.Equal(s.CollectedAt); loadErr != nil || err == nil && !saved {
					t.Errorf("%v, late %t, new %t: saved %t, %v", fails, late, isNew, saved, loadErr)
				}
				if again, ok := found[a.ID]; ok {
					s.Version = again.Version
				}
				if err := c.Metrics().Save(t.Context(), s, a.Version); err != nil {
					t.Errorf("%v, late %t, new %t: again: %v", fails, late, isNew, err)
				}
			}
		}
	}
}

func loadMetrics(t *testing.T, c *Client, id string) metrics.Snapshot {
	t.Helper()
	found, err := c.Metrics().Load(t.Context(), []string{id})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d snapshots, %v", len(found), err)
	}
	return found[id]
}
