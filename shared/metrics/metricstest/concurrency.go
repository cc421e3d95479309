package metricstest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/metrics"
)

func saveRefusesOutdatedSnapshot(t *testing.T, w tenant) {
	a := w.create(t)
	first, second := w.load(t, a.ID), w.load(t, a.ID)
	w.save(t, filled(first), a.Version)
	w.wantChanged(t, second, a.Version, "an outdated snapshot")
	if got := w.load(t, a.ID); !equal(got, filled(first)) {
		t.Errorf("metricstest: snapshot = %+v, want that of the first save", got)
	}
}

// wantChanged checks that Save refuses a snapshot with ErrChanged.
func (w tenant) wantChanged(t *testing.T, s metrics.Snapshot, agentVersion, description string) {
	t.Helper()
	if err := w.Records.Save(w.ctx, s, agentVersion); !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("metricstest: save %s: %v, want ErrChanged", description, err)
	}
}

// saveCreatesMissingSnapshot checks that a new snapshot is created only while the agent's record is unchanged.
func saveCreatesMissingSnapshot(t *testing.T, w tenant) {
	a := w.create(t)
	w.forget(t, a.ID)
	if _, err := w.Store.Get(w.ctx, a.ID); !isNotFound(err) {
		t.Fatalf("metricstest: get a deleted snapshot: %v, want not found", err)
	}
	if err := w.Change(w.ctx, a.ID); err != nil {
		t.Fatalf("metricstest: change an agent: %v", err)
	}
	w.wantChanged(t, filled(metrics.New(a.ID, a.OrganizationID)), a.Version, "a new snapshot for an outdated agent")

	b := w.create(t)
	w.forget(t, b.ID)
	want := filled(metrics.New(b.ID, b.OrganizationID))
	w.save(t, want, b.Version)
	if got, err := w.Store.Get(w.ctx, b.ID); err != nil || !equal(got, want) {
		t.Errorf("metricstest: get the new snapshot = %+v, %v\nwant %+v", got, err, want)
	}
	w.wantChanged(t, want, b.Version, "a new snapshot again")
	w.remove(t, b.ID)
	if err := w.Records.Save(w.ctx, want, b.Version); !isNotFound(err) && !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("metricstest: save a new snapshot of a deleted agent: %v, want not found or ErrChanged", err)
	}
}

// viewsAreRecorded checks that a view is recorded once per interval, and that saves keep it.
func viewsAreRecorded(t *testing.T, w tenant) {
	a := w.create(t)
	for range 3 {
		s, err := w.Store.Get(w.ctx, a.ID)
		if err != nil {
			t.Fatalf("metricstest: get a snapshot: %v", err)
		}
		w.Store.MarkViewed(w.ctx, s)
		w.Flush()
	}
	viewed := w.load(t, a.ID)
	if viewed.ViewedAt.IsZero() {
		t.Fatal("metricstest: LookedAt is zero after a view")
	}
	w.Store.MarkViewed(w.ctx, viewed)
	w.Flush()
	if got := w.load(t, a.ID).Version; got != viewed.Version {
		t.Errorf("metricstest: version = %s after a second view, want %s: the view must not be written", got,
			viewed.Version)
	}
	w.save(t, filled(viewed), a.Version)
	if got := w.load(t, a.ID).ViewedAt; !got.Equal(viewed.ViewedAt) {
		t.Errorf("metricstest: LookedAt = %v after a save, want %v", got, viewed.ViewedAt)
	}
	// A view between reading and saving makes the save fail, so that the view is not lost.
	b := w.create(t)
	read := w.load(t, b.ID)
	w.Store.MarkViewed(w.ctx, read)
	w.Flush()
	w.wantChanged(t, filled(read), b.Version, "a snapshot that was viewed in between")
}

func viewOfDeletedAgent(t *testing.T, w tenant) {
	a := w.create(t)
	s := w.load(t, a.ID)
	w.remove(t, a.ID)
	w.Store.MarkViewed(w.ctx, s)
	w.Store.MarkViewed(w.ctx, metrics.New(a.ID, a.OrganizationID))
	w.Flush()
	w.wantNotLoaded(t, a.ID)
}

func listViewedSince(t *testing.T, w tenant) {
	began := time.Now()
	var viewed []string
	for range 3 {
		a := w.create(t)
		w.Store.MarkViewed(w.ctx, w.load(t, a.ID))
		w.Flush()
		viewed = append(viewed, a.ID)
	}
	w.create(t) // never viewed
	for _, row := range []struct {
		since time.Time
		limit int
		want  int
	}{
		{since: began.Add(-time.Hour), limit: 10, want: 3},
		{since: began.Add(-time.Hour), limit: 2, want: 2},
		{since: time.Now().Add(time.Hour), limit: 10, want: 0},
	} {
		found, err := w.Records.ListViewedSince(w.ctx, row.since, row.limit)
		if err != nil || len(found) != row.want {
			t.Errorf("metricstest: viewed since %v, at most %d: %d snapshots, %v; want %d", row.since, row.limit,
				len(found), err, row.want)
		}
		for _, s := range found {
			if !slices.Contains(viewed, s.AgentID) {
				t.Errorf("metricstest: listed agent %s, want only %v", s.AgentID, viewed)
			}
			if s.Version == "" {
				t.Errorf("metricstest: the listed snapshot of agent %s has no version", s.AgentID)
			}
		}
	}
}

func progressByCell(t *testing.T, w tenant) {
	got, err := w.Records.Progress(w.ctx)
	if err != nil || len(got) != 0 {
		t.Fatalf("metricstest: progress of an empty store = %v, %v; want none", got, err)
	}
	one, two := metrics.Progress{Until: Now(), Next: Now()}, metrics.Progress{Next: Now().Add(time.Minute)}
	for _, set := range []map[string]metrics.Progress{{"one": two, "two": two}, {"one": one}} {
		if err := w.Records.SetProgress(w.ctx, set); err != nil {
			t.Fatalf("metricstest: set progress: %v", err)
		}
	}
	want := map[string]metrics.Progress{"one": one, "two": two}
	if got, err = w.Records.Progress(w.ctx); err != nil || !maps.Equal(got, want) {
		t.Errorf("metricstest: progress = %v, %v; want %v", got, err, want)
	}
}
