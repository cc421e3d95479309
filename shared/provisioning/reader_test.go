package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// readers is the reader's workload on a cluster. As the API server does, it refuses a generation below the present one.
type readers struct {
	generation int64
	runs       bool
	// copied is the snapshot of which there is a copy.
	copied string
	// concurrently runs once, before the answer to the next call.
	concurrently func() error
}

func (r *readers) apply(a agent.Agent, runs bool) error {
	if generation := a.Reader.Generation(runs); generation < r.generation {
		return &provisioning.Stale{Generation: r.generation, Cause: errors.New("refused")}
	}
	r.generation, r.runs = a.Reader.Generation(runs), runs
	if concurrently := r.concurrently; concurrently != nil {
		r.concurrently = nil
		return concurrently()
	}
	return nil
}

// ApplyReader implements provisioning.Readers.
func (r *readers) ApplyReader(_ context.Context, a agent.Agent, s agent.Snapshot) error {
	err := r.apply(a, true)
	if err == nil {
		r.copied = s.ID
	}
	return err
}

// DeleteReader implements provisioning.Readers.
func (r *readers) DeleteReader(_ context.Context, a agent.Agent, snapshotIDs []string) (gone bool, err error) {
	if err := r.apply(a, false); err != nil {
		return false, err
	}
	if !slices.Contains(snapshotIDs, r.copied) {
		return true, nil
	}
	r.copied = ""
	return false, nil
}

// exporting is a running agent with a snapshot that is being exported. Its cluster had readers that the record does not
// know, because the database was restored from a backup.
func exporting(t *testing.T, had int64) (*world, *provisioning.Reconciler, *readers) {
	t.Helper()
	w := newWorld(t)
	w.settle()
	w.change(func(a *agent.Agent) {
		a.Snapshots = []agent.Snapshot{{ID: "one", Status: agent.SnapshotReady}}
		if err := a.HoldReader("one", "call", time.Now()); err != nil {
			t.Error(err)
		}
	})
	cluster := &readers{generation: agent.Reader{Number: had}.Generation(false)}
	r := w.reconciler()
	r.Readers = cluster
	return w, r, cluster
}

// reconcileOften lets a worker look at the agent several times, as the sweep does.
func (w *world) reconcileOften(r *provisioning.Reconciler) {
	w.t.Helper()
	for range 3 {
		if err := r.Reconcile(w.t.Context(), w.id); err != nil {
			w.t.Error(err)
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // in the bubble's time
	}
}

func TestReconcile_ExportsAfterTheDatabaseWasRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r, cluster := exporting(t, 5)
		w.reconcileOften(r)
		if !cluster.runs {
			t.Errorf("the snapshot has no reader: %+v", w.record().Reader)
		}
	})
}

func TestReconcile_EndsAReaderThatIsOlderThanTheClusters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r, _ := exporting(t, 5)
		time.Sleep(agent.ReaderTime) //nolint:forbidigo // in the bubble's time
		w.reconcileOften(r)
		if a := w.record(); a.HoldReader("one", "next call", time.Now()) != nil {
			t.Errorf("the reader stays %+v: no other export can begin", a.Reader)
		}
	})
}

func TestReconcile_SaysThatASnapshotCannotBeCopied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r, cluster := exporting(t, 0)
		cluster.concurrently = func() error {
			return &provisioning.Permanent{Code: "snapshot_gone", Message: "It is gone."}
		}
		w.reconcileOften(r)
		a := w.record()
		err := a.HoldReader("one", "call", time.Now())
		if fault.Code(err) != "snapshot_not_exportable" || cluster.runs {
			t.Errorf("the export gets %v; the cluster runs the reader: %v", err, cluster.runs)
		}
	})
}

// TestReconcile_TakesAwayACopyThatALateWorkerMakes lets a worker that has stopped between its two calls make the
// second one when the copy of the snapshot is gone.
func TestReconcile_TakesAwayACopyThatALateWorkerMakes(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"one export": false, "another export follows": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, r, cluster := exporting(t, 0)
				end := func() {
					w.reconcileOften(r)
					time.Sleep(agent.ReaderTime) //nolint:forbidigo // in the bubble's time
					w.reconcileOften(r)
					if cluster.copied != "" {
						t.Fatal("the copy stays")
					}
				}
				end()
				if another {
					w.change(func(a *agent.Agent) {
						a.Snapshots = append(a.Snapshots, agent.Snapshot{ID: "two", Status: agent.SnapshotReady})
						if err := a.HoldReader("two", "another call", time.Now()); err != nil {
							t.Error(err)
						}
					})
					end()
				}
				cluster.copied = "one"
				for range 2 {
					time.Sleep(20 * time.Minute) //nolint:forbidigo // in the bubble's time
					w.reconcileOften(r)
				}
				if got := w.record().Reader; cluster.copied != "" || got.SnapshotID != "" {
					t.Errorf("the copy of %q stays; the record has the reader %+v", cluster.copied, got)
				}
			})
		})
	}
}

// TestReconcile_RecordsNothingOfAFormerReader lets another worker take the reader of a snapshot away, and a client
// export the snapshot again, before a worker records what it did with the former reader.
func TestReconcile_RecordsNothingOfAFormerReader(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// given is how long the reader exists, and answer what the worker gets from the cluster.
		given      time.Duration
		answer     error
		exports    bool
		wantRuns   bool
		wantHolder string
	}{
		"made":               {exports: true, wantRuns: true, wantHolder: "another call"},
		"taken away":         {given: agent.ReaderTime, exports: true, wantRuns: true, wantHolder: "another call"},
		"made, and gone":     {answer: errLost},
		"taken away already": {given: agent.ReaderTime, answer: errLost},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, r, cluster := exporting(t, 0)
			time.Sleep(c.given) //nolint:forbidigo // in the bubble's time
			cluster.concurrently = func() error {
				w.change(func(a *agent.Agent) {
					a.ReleaseReader("call", 1, true, time.Now())
					a.RecordReaderGone(true, time.Now())
					if c.exports {
						_ = a.HoldReader("one", "another call", time.Now())
					}
				})
				return c.answer
			}
			w.reconcileOften(r)
			got := w.record().Reader
			if got.Holder != c.wantHolder || cluster.runs != c.wantRuns {
				t.Errorf("the record has the reader %+v, and the cluster runs it: %v", got, cluster.runs)
			}
			if c.exports && cluster.generation != got.Generation(true) {
				t.Errorf("the cluster has generation %d, want %d", cluster.generation, got.Generation(true))
			}
		})
	}
}
