package firestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

func TestMetrics_CallsPerOperation(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	a, b, key := org.Create(plan.Hobby), org.Create(plan.Hobby), newKey()
	_, err := c.Keys().Create(org.Ctx, key)
	must(t, err)
	var s metrics.Snapshot
	view := func() { c.Metrics().MarkViewed(org.Ctx, s); c.Flush() }
	recorder.wantCalls(t, []callStep{
		{name: "get with a key", do: func() {
			s, err = c.Metrics().Get(fetchedWithKey(t.Context(), t, c, key, metrics.Document(a.ID)), a.ID)
			must(t, err)
		}, want: "read"},
		{name: "load two snapshots", do: func() {
			_, err := c.Metrics().Load(t.Context(), []string{a.ID, b.ID})
			must(t, err)
		}, want: "read"},
		{name: "save", do: func() { must(t, c.Metrics().Save(t.Context(), s, a.Version)) }, want: "commit"},
		{name: "list current figures", do: func() {
			_, err := c.Metrics().ListCurrent(org.Ctx)
			must(t, err)
		}, want: "query query"},
		{name: "mark as viewed", do: view, want: "commit"},
		{name: "mark as viewed again", do: view, want: ""},
		{name: "list viewed snapshots", do: func() {
			_, err := c.Metrics().ListViewedSince(t.Context(), time.Now().Add(-time.Hour), 10)
			must(t, err)
		}, want: "query"},
		{
			name: "read the progress", do: func() { _, err := c.Metrics().Progress(t.Context()); must(t, err) },
			want: "query",
		},
		{name: "set the progress", do: func() {
			must(t, c.Metrics().SetProgress(t.Context(),
				map[string]metrics.Progress{"one": {Next: time.Now()}, "two": {Next: time.Now()}}))
		}, want: "commit"},
	})
}

func TestMetrics_ReplacesMalformedFields(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	for name, update := range map[string]gcp.Update{
		"a ring of another version": {
			Path:  "rings",
			Value: map[string][]byte{"cpu_day": append([]byte{9}, make([]byte, 30)...)},
		},
		"a ring of another type": {Path: "rings", Value: map[string]any{"cpu_day": "x"}},
		"half a ring":            {Path: "rings", Value: map[string][]byte{"up": {1, 0, 0}}},
		"malformed figures":      {Path: "figures", Value: "x"},
		"a malformed time":       {Path: "collected_at", Value: "x"},
	} {
		a := org.Create(plan.Hobby)
		ref, _ := c.ref(metricsCollection, a.ID)
		_, err := ref.Update(t.Context(), []gcp.Update{update})
		must(t, err)
		s, err := c.Metrics().Get(org.Ctx, a.ID)
		if err != nil {
			t.Errorf("%s: get: %v", name, err)
			continue
		}
		if err := c.Metrics().Save(t.Context(), s, a.Version); err != nil {
			t.Errorf("%s: save: %v", name, err)
		}
	}
}

// TestSaveMetrics_LeavesTheAgentUnchanged: creating a snapshot writes to the agent's document, but not its version.
func TestSaveMetrics_LeavesTheAgentUnchanged(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentFixture(c)
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	must(t, c.deleteSnapshot(t.Context(), a.ID))
	must(t, c.Metrics().Save(t.Context(), metrics.New(a.ID, a.OrganizationID), a.Version))
	after, err := w.Store.Get(org.Ctx, a.ID)
	must(t, err)
	if after.Version == "" || after.EntityTag() != a.EntityTag() {
		t.Errorf("version %q, want %q as before", after.Version, a.Version)
	}
	if after.Status != agent.Provisioning {
		t.Errorf("status %s, want %s", after.Status, agent.Provisioning)
	}
}

// deleteSnapshot deletes the metrics of an agent that exists, as if a former release had created it.
func (c *Client) deleteSnapshot(ctx context.Context, agentID string) error {
	ref, _ := c.ref(metricsCollection, agentID)
	_, err := ref.Delete(ctx)
	return err
}

// TestSaveMetrics_CanBeRepeatedAfterFaults fails the commit of a snapshot before and after it is carried out.
func TestSaveMetrics_CanBeRepeatedAfterFaults(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Enterprise)
	for _, code := range []codes.Code{
		codes.Unavailable, codes.DeadlineExceeded, codes.Aborted,
		codes.ResourceExhausted, codes.Internal,
	} {
		for _, loseAnswer := range []bool{false, true} {
			for _, isNew := range []bool{false, true} {
				f := &injectedFault{call: 1, code: code, loseAnswer: loseAnswer}
				t.Run(fmt.Sprintf("%s, new snapshot %t", f, isNew), func(t *testing.T) {
					a := org.Create(plan.Hobby)
					s := loadSnapshot(t, c, a.ID)
					if isNew {
						must(t, c.deleteSnapshot(t.Context(), a.ID))
						s = metrics.New(a.ID, a.OrganizationID)
					}
					checkSaveWithFault(t, c, f, s, a.Version)
				})
			}
		}
	}
}

func checkSaveWithFault(t *testing.T, c *Client, f *injectedFault, s metrics.Snapshot, agentVersion string) {
	t.Helper()
	s.CollectedAt = time.Now().Truncate(time.Microsecond)
	err := open(t, c.project(), f.options()).Metrics().Save(t.Context(), s, agentVersion)
	if err != nil && !errors.Is(err, metrics.ErrChanged) && !fault.Is(err, fault.Unavailable) {
		t.Errorf("error %v, want ErrChanged or Unavailable", err)
	}
	found, loadErr := c.Metrics().Load(t.Context(), []string{s.AgentID})
	must(t, loadErr)
	if saved := found[s.AgentID].CollectedAt; err == nil && !saved.Equal(s.CollectedAt) {
		t.Errorf("success, but CollectedAt = %v, want %v", saved, s.CollectedAt)
	}
	if current, ok := found[s.AgentID]; ok {
		s.Version = current.Version
	}
	if err := c.Metrics().Save(t.Context(), s, agentVersion); err != nil {
		t.Errorf("save again: %v", err)
	}
}

func loadSnapshot(t *testing.T, c *Client, id string) metrics.Snapshot {
	t.Helper()
	found, err := c.Metrics().Load(t.Context(), []string{id})
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d snapshots, want 1", len(found))
	}
	return found[id]
}
