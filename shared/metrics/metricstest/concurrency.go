package metricstest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/metrics"
)

// versions: of two that read the same, one writes.
func versions(t *testing.T, w tenant) {
	a := w.create(t)
	first, second := w.load(t, a.ID), w.load(t, a.ID)
	if err := w.Records.Save(w.ctx, full(first), a.Version); err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Save(w.ctx, second, a.Version); !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("an old version is written: %v", err)
	}
	if got := w.load(t, a.ID); !same(got, full(first)) {
		t.Errorf("%+v", got)
	}
}

// late: a snapshot of an agent that has none is made only while the agent's record is what it was.
func late(t *testing.T, w tenant) {
	a := w.create(t)
	if err := w.Forget(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Get(w.ctx, a.ID); !isNotFound(err) {
		t.Fatalf("a snapshot that was taken away: %v", err)
	}
	want := full(metrics.New(a.ID, a.OrganizationID))
	if err := w.Change(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Save(w.ctx, want, a.Version); !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("it is made for another version of the agent: %v", err)
	}
	b := w.create(t)
	if err := w.Forget(w.ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	want = full(metrics.New(b.ID, b.OrganizationID))
	if err := w.Records.Save(w.ctx, want, b.Version); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Store.Get(w.ctx, b.ID); err != nil || !same(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := w.Records.Save(w.ctx, want, b.Version); !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("it is made twice: %v", err)
	}
	if err := w.Remove(w.ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Save(w.ctx, want, b.Version); !isNotFound(err) && !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("it is made for an agent that is gone: %v", err)
	}
}

// looks are recorded once in a while, and collecting keeps them.
func looks(t *testing.T, w tenant) {
	a := w.create(t)
	for range 3 {
		s, err := w.Store.Get(w.ctx, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		w.Store.MarkViewed(w.ctx, s)
		w.Settled()
	}
	looked := w.load(t, a.ID)
	if looked.LookedAt.IsZero() {
		t.Fatal("nobody looked")
	}
	w.Store.MarkViewed(w.ctx, looked)
	w.Settled()
	if again := w.load(t, a.ID); again.Version != looked.Version {
		t.Error("a second look is written")
	}
	if err := w.Records.Save(w.ctx, full(looked), a.Version); err != nil {
		t.Fatal(err)
	}
	if got := w.load(t, a.ID); !got.LookedAt.Equal(looked.LookedAt) {
		t.Errorf("looked at %v, then %v", looked.LookedAt, got.LookedAt)
	}
	// A look between reading and saving is kept: the save is refused.
	b := w.create(t)
	read := w.load(t, b.ID)
	w.Store.MarkViewed(w.ctx, read)
	w.Settled()
	if err := w.Records.Save(w.ctx, full(read), b.Version); !errors.Is(err, metrics.ErrChanged) {
		t.Errorf("a save over a look: %v", err)
	}
}

// lookOfNothing makes nothing.
func lookOfNothing(t *testing.T, w tenant) {
	a := w.create(t)
	s := w.load(t, a.ID)
	if err := w.Remove(w.ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	w.Store.MarkViewed(w.ctx, s)
	w.Store.MarkViewed(w.ctx, metrics.New(a.ID, a.OrganizationID))
	w.Settled()
	if found, err := w.Records.Load(w.ctx, []string{a.ID}); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func lookedAt(t *testing.T, w tenant) {
	began := time.Now()
	var ids []string
	for range 3 {
		a := w.create(t)
		w.Store.MarkViewed(w.ctx, w.load(t, a.ID))
		w.Settled()
		ids = append(ids, a.ID)
	}
	unseen := w.create(t)
	for _, row := range []struct {
		since time.Time
		limit int
		want  int
	}{{since: began.Add(-time.Hour), limit: 10, want: 3}, {since: began.Add(-time.Hour), limit: 2, want: 2},
		{since: time.Now().Add(time.Hour), limit: 10, want: 0}} {
		found, err := w.Records.ListViewedSince(w.ctx, row.since, row.limit)
		if err != nil || len(found) != row.want {
			t.Errorf("since %v, at most %d: %d, %v; want %d", row.since, row.limit, len(found), err, row.want)
		}
		for _, s := range found {
			if !slices.Contains(ids, s.AgentID) || s.AgentID == unseen.ID || s.Version == "" {
				t.Errorf("%+v", s)
			}
		}
	}
}

func progress(t *testing.T, w tenant) {
	got, err := w.Records.Progress(w.ctx)
	if err != nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	one, two := metrics.Progress{Until: Now(), Next: Now()}, metrics.Progress{Next: Now().Add(time.Minute)}
	for _, set := range []map[string]metrics.Progress{{"one": two, "two": two}, {"one": one}} {
		if err := w.Records.SetProgress(w.ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	got, err = w.Records.Progress(w.ctx)
	if err != nil || len(got) != 2 || got["one"] != one || got["two"] != two {
		t.Errorf("%v, %v", got, err)
	}
}
