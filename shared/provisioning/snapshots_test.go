package provisioning_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// hook is the program of an image that makes the volume quiet.
type hook struct {
	calls []string
	// refuses is the error of begin.
	refuses error
	// unanswered is the time until which the answers of end are lost.
	unanswered time.Time
}

// Quiesce implements provisioning.Quiescer.
func (h *hook) Quiesce(_ context.Context, _ agent.Agent, argument string) error {
	h.calls = append(h.calls, argument)
	if argument == provisioning.QuiesceBegin {
		return h.refuses
	}
	if time.Now().Before(h.unanswered) {
		return errors.New("the answer is lost")
	}
	return nil
}

// hooked is a running agent whose image has a hook, with a snapshot that its client has asked for.
func hooked(t *testing.T) (w *world, id string) {
	t.Helper()
	w = newWorld(t)
	w.settle()
	w.change(func(a *agent.Agent) {
		a.Image.Quiesce = "/quiesce"
		s, err := a.RequestSnapshot(agent.SnapshotRequest{}, time.Now())
		if err != nil {
			t.Error(err)
		}
		id = s.ID
	})
	return w, id
}

func (w *world) snapshot(id string) agent.Snapshot {
	w.t.Helper()
	s, err := w.record().Snapshot(id)
	if err != nil {
		w.t.Error(err)
	}
	return s
}

// await delivers until a snapshot is no longer pending.
func (w *world) await(r *provisioning.Reconciler, id string) agent.Snapshot {
	w.t.Helper()
	for range 100 {
		if err := r.Reconcile(w.t.Context(), w.id); err != nil {
			w.t.Fatal(err)
		}
		if s := w.snapshot(id); s.Status != agent.SnapshotPending {
			return s
		}
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
	}
	w.t.Fatalf("the snapshot stays %+v", w.snapshot(id))
	return agent.Snapshot{}
}

func TestReconcile_MakesTheVolumeQuietByTheImagesProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id := hooked(t)
		h, r := &hook{}, w.reconciler()
		r.Quiescer = h
		pod := w.existence().Pod
		if s := w.await(r, id); s.Status != agent.SnapshotReady || s.Consistency != agent.ConsistentByHook {
			t.Errorf("the snapshot is %+v", s)
		}
		if want := []string{provisioning.QuiesceBegin, provisioning.QuiesceEnd}; !slices.Equal(h.calls, want) {
			t.Errorf("the program was run with %q, want %q", h.calls, want)
		}
		if !pod || !settled(w.record()) {
			t.Errorf("the agent is %s", w.record().Status)
		}
	})
}

// A program that fails is told to end, and the snapshot is not taken. It fails in the end, with the reason.
func TestReconcile_TakesNoSnapshotIfTheProgramFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id := hooked(t)
		h := &hook{refuses: &provisioning.Permanent{Code: "hook_failed", Message: "The program ended with status 1."}}
		r := w.reconciler()
		r.Quiescer = h
		s := w.await(r, id)
		if s.Status != agent.SnapshotFailed || !s.CutAt.IsZero() || s.Problem != "The program ended with status 1." {
			t.Errorf("the snapshot is %+v", s)
		}
		if n := len(h.calls); n%2 != 0 || h.calls[n-1] != provisioning.QuiesceEnd {
			t.Errorf("the program was run with %q, want an end of each beginning", h.calls)
		}
	})
}

// slow is storage that cuts a snapshot long after it was asked for it.
type slow struct {
	provisioning.Volumes
	after time.Time
}

func (s slow) Snapshot(ctx context.Context, a agent.Agent, of agent.Snapshot, quiet bool) (agent.SnapshotState, error) {
	if time.Now().Before(s.after) {
		return agent.SnapshotState{}, nil
	}
	return s.Volumes.Snapshot(ctx, a, of, quiet)
}

// unanswered is storage whose answers are lost until a time. It was asked for the snapshot, and cuts it shortly before
// that time.
type unanswered struct{ slow }

func (s unanswered) Snapshot(ctx context.Context, a agent.Agent, of agent.Snapshot, quiet bool) (agent.SnapshotState,
	error,
) {
	if time.Now().Before(s.after) {
		return agent.SnapshotState{}, errors.New("the answer is lost")
	}
	seen, err := s.Volumes.Snapshot(ctx, a, of, quiet)
	if !seen.CutAt.IsZero() {
		seen.CutAt = s.after.Add(-time.Second)
	}
	return seen, err
}

// Storage that tells only after seconds that it has cut a snapshot has cut it while the volume was quiet. The push ends
// before the queue delivers it again.
func TestReconcile_KeepsTheVolumeQuietUntilTheSnapshotIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, id := hooked(t)
		h, r, began := &hook{}, w.reconciler(), time.Now()
		r.Quiescer = h
		r.Volumes = slow{r.Volumes, began.Add(10 * time.Second)}
		must(t, r.Reconcile(t.Context(), w.id))
		if took := time.Since(began); took < 10*time.Second || took >= 30*time.Second {
			t.Errorf("the push took %s, want what the storage takes, and less than 30 s", took)
		}
		if want := []string{provisioning.QuiesceBegin, provisioning.QuiesceEnd}; !slices.Equal(h.calls, want) {
			t.Errorf("the program was run with %q, want %q", h.calls, want)
		}
		if s := w.await(r, id); s.Status != agent.SnapshotReady || s.Consistency != agent.ConsistentByHook {
			t.Errorf("the snapshot is %+v", s)
		}
	})
}

// A snapshot that is cut after the program was told that the volume may change is not called quiet.
func TestReconcile_SaysThatASnapshotIsNotQuiet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		storage    func(slow) provisioning.Volumes
		unanswered time.Duration
	}{
		"slow":           {storage: func(s slow) provisioning.Volumes { return s }},
		"unanswered":     {storage: func(s slow) provisioning.Volumes { return unanswered{s} }},
		"unanswered end": {storage: func(s slow) provisioning.Volumes { return s }, unanswered: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, id := hooked(t)
			r := w.reconciler()
			r.Quiescer = &hook{unanswered: time.Now().Add(c.unanswered)}
			r.Volumes = c.storage(slow{r.Volumes, time.Now().Add(time.Minute)})
			if s := w.await(r, id); s.Status != agent.SnapshotReady || s.Consistency != agent.ConsistentAfterCrash {
				t.Errorf("%s: the snapshot is %+v", name, s)
			}
		})
	}
}

// refusing is storage that takes no snapshot.
type refusing struct{ provisioning.Volumes }

func (refusing) Snapshot(context.Context, agent.Agent, agent.Snapshot, bool) (agent.SnapshotState, error) {
	return agent.SnapshotState{Problem: "The disk has too many snapshots."}, nil
}

// broken is storage that cannot be asked.
type broken struct{ provisioning.Volumes }

func (broken) Snapshot(context.Context, agent.Agent, agent.Snapshot, bool) (agent.SnapshotState, error) {
	return agent.SnapshotState{}, errors.New("broken")
}

// An agent whose pod is stopped for a snapshot runs again within minutes, whatever the storage does.
func TestReconcile_StartsAPodThatIsStoppedForASnapshotAgain(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]func(provisioning.Volumes) provisioning.Volumes{
		"taken":      func(v provisioning.Volumes) provisioning.Volumes { return v },
		"refused":    func(v provisioning.Volumes) provisioning.Volumes { return refusing{v} },
		"an error":   func(v provisioning.Volumes) provisioning.Volumes { return broken{v} },
		"no storage": func(provisioning.Volumes) provisioning.Volumes { return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.change(func(a *agent.Agent) { _, _ = a.RequestSnapshot(agent.SnapshotRequest{}, time.Now()) })
			if w.record().StoppedFor == "" {
				t.Fatal("the agent is not stopped for a snapshot")
			}
			r, began := w.reconciler(), time.Now()
			r.Volumes = storage(r.Volumes)
			for !settled(w.record()) && time.Since(began) < time.Hour {
				if err := r.Reconcile(t.Context(), w.id); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				time.Sleep(10 * time.Second) //nolint:forbidigo // in the bubble's time
			}
			if took := time.Since(began); took > agent.HoldTime+2*time.Minute || !w.existence().Pod {
				t.Errorf("%s: the agent is %s after %v, and has a pod: %t", name, w.record().Status, took,
					w.existence().Pod)
			}
		})
	}
}

// TestReconcile_LogsAFailedDailySnapshotOnce counts the lines that an alert is about. It is not parallel, because a
// process has one log.
func TestReconcile_LogsAFailedDailySnapshotOnce(t *testing.T) { //nolint:paralleltest // see above
	for name, row := range map[string]struct {
		storage func(provisioning.Volumes) provisioning.Volumes
		want    int
	}{
		"refused":         {storage: func(v provisioning.Volumes) provisioning.Volumes { return refusing{v} }, want: 1},
		"cannot be asked": {storage: func(v provisioning.Volumes) provisioning.Volumes { return broken{v} }, want: 1},
		"taken":           {storage: func(v provisioning.Volumes) provisioning.Volumes { return v }},
	} {
		lines := logOfADay(t, row.storage)
		if got := bytes.Count(lines, []byte(`"event":"snapshot_failed"`)); got != row.want {
			t.Errorf("%s: %d lines say that a daily snapshot failed, want %d:\n%s", name, got, row.want, lines)
		}
		if bytes.Contains(lines, []byte("Report the request id")) {
			t.Errorf("%s: the snapshot has the text of an answer to a request", name)
		}
	}
}

// logOfADay returns the log of a day of an agent that has daily snapshots. Its client asks for another one.
func logOfADay(t *testing.T, storage func(provisioning.Volumes) provisioning.Volumes) []byte {
	t.Helper()
	var log bytes.Buffer
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&log, nil)))
	defer slog.SetDefault(former)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(func(a *agent.Agent) {
			a.Plan = plan.Pro
			_, _ = a.RequestSnapshot(agent.SnapshotRequest{}, time.Now())
		})
		r := w.reconciler()
		r.Volumes = storage(r.Volumes)
		for range 30 * 4 { // the daily one is due within a day, and fails six hours later
			must(t, r.Reconcile(t.Context(), w.id))
			time.Sleep(time.Hour / 4) //nolint:forbidigo // in the bubble's time
		}
	})
	return log.Bytes()
}
