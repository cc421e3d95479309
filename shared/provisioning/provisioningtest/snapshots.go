package provisioningtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// VolumeFixture holds the adapter of volumes under test.
type VolumeFixture struct {
	Fixture

	Volumes provisioning.Volumes
}

// RunVolumes runs the suite of provisioning.Volumes. Its tests run in parallel, independent of each other.
func RunVolumes(t *testing.T, w VolumeFixture) {
	for name, test := range map[string]func(*testing.T, VolumeFixture){
		"takes one snapshot, however often it is asked": testSnapshot,
		"takes a quiet snapshot only without a pod":     testQuietSnapshot,
		"deletes a snapshot, also one that came late":   testDeleteSnapshot,
		"restores a snapshot and deletes the volume":    testRestore,
		"deletes an agent with its snapshots":           testDeleteWithSnapshots,
		"takes a snapshot along to another cell":        testMove,
		"deletes a snapshot that it has just adopted":   testDeleteAdopted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// started returns a new agent that runs.
func (w VolumeFixture) started(t *testing.T) agent.Agent {
	t.Helper()
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	return ran(a)
}

// request adds a snapshot to the record, which may be of a running agent.
func (w VolumeFixture) request(t *testing.T, a *agent.Agent, consistency agent.Consistency) agent.Snapshot {
	t.Helper()
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: consistency}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// await asks for a snapshot until it is ready. What was learned of it once must stay.
func (w VolumeFixture) await(t *testing.T, a agent.Agent, s agent.Snapshot, quiet bool) (seen agent.SnapshotState) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		before := seen
		var err error
		if seen, err = w.Volumes.Snapshot(ctx, a, s, quiet); err != nil {
			return err
		}
		if seen.CutAt.IsZero() != (seen.Handle == "") {
			t.Errorf("a snapshot was cut at %v and has handle %q, want both or none", seen.CutAt, seen.Handle)
		}
		if before.Handle != "" && (seen.Handle != before.Handle || !seen.CutAt.Equal(before.CutAt)) {
			t.Errorf("the snapshot changed from %+v to %+v", before, seen)
		}
		if !seen.Ready {
			return fmt.Errorf("the snapshot is not ready: %+v", seen)
		}
		return nil
	})
	if seen.SizeBytes <= 0 || seen.Problem != "" || seen.CutAt.IsZero() {
		t.Errorf("a snapshot that is ready: %+v, want a size, a time and no problem", seen)
	}
	return seen
}

func testSnapshot(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	s := w.request(t, &a, agent.ConsistentAfterCrash)
	first := w.await(t, a, s, false)
	s.CutAt, s.Handle = first.CutAt, first.Handle
	if again := w.await(t, a, s, false); again != first {
		t.Errorf("asked again: %+v, want %+v", again, first)
	}
}

func testQuietSnapshot(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	s := w.request(t, &a, agent.ConsistentByStop)
	if _, err := w.Volumes.Snapshot(t.Context(), a, s, true); !errors.Is(err, provisioning.ErrVolumeInUse) {
		t.Fatalf("Snapshot while a pod uses the volume: error %v, want ErrVolumeInUse", err)
	}
	if a.StoppedFor != s.ID {
		t.Fatalf("the agent is stopped for %q, want %q", a.StoppedFor, s.ID)
	}
	w.apply(t, a, agent.StageRuntime) // the pod ends
	w.await(t, a, s, true)
}

// deleted asks for the deletion of a snapshot until it is gone.
func (w VolumeFixture) deleted(t *testing.T, a agent.Agent, s agent.Snapshot) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		gone, err := w.Volumes.DeleteSnapshot(ctx, a, s)
		if err == nil && !gone {
			err = errors.New("the snapshot is not gone")
		}
		return err
	})
}

func testDeleteSnapshot(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	s := w.request(t, &a, agent.ConsistentAfterCrash)
	w.await(t, a, s, false)
	if gone, err := w.Volumes.DeleteSnapshot(t.Context(), a, s); gone || err != nil {
		t.Errorf("DeleteSnapshot of one that exists = %t, %v, want it not gone yet", gone, err)
	}
	w.deleted(t, a, s)
	w.await(t, a, s, false) // by a slow worker
	w.deleted(t, a, s)
}

// testRestore makes the agent's next volume from a snapshot, and deletes the former one.
func testRestore(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	s := w.request(t, &a, agent.ConsistentAfterCrash)
	a.RecordSnapshot(s.ID, w.await(t, a, s, false), time.Now())
	if _, err := w.Volumes.DeleteVolume(t.Context(), a, a.Volume.Number); err == nil {
		t.Error("DeleteVolume of the volume that the agent uses: no error")
	}
	if err := a.Restore(s.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Volumes.DeleteVolume(t.Context(), a, 0); !errors.Is(err, provisioning.ErrVolumeInUse) {
		t.Errorf("DeleteVolume while the former pod uses it: error %v, want ErrVolumeInUse", err)
	}
	a.Env = append(a.Env, agent.EnvVar{Key: "RESTORED", Value: "yes"})
	for range 2 { // as a redelivery does
		w.apply(t, a)
	}
	w.awaitReady(t, a)
	w.eventually(t, func(ctx context.Context) error {
		gone, err := w.Volumes.DeleteVolume(ctx, a, 0)
		if err == nil && !gone {
			err = errors.New("the former volume is not gone")
		}
		return err
	})
	w.deleted(t, a, s)
	a.Volume.Unmade = false
	w.apply(t, ran(a)) // what the volume was made from cannot change, although it is gone
	w.awaitReady(t, a)
}

func testDeleteWithSnapshots(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	w.await(t, a, w.request(t, &a, agent.ConsistentAfterCrash), false)
	if err := w.Cluster.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	w.awaitGone(t, a)
}

// testMove takes an agent with two snapshots to another cell, and from there to a third one, all of which are the same.
// What a cell has given up, or only adopted, outlives its objects there. What it owns does not.
func testMove(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	home, first := a.Cell, w.request(t, &a, agent.ConsistentAfterCrash)
	a.RecordSnapshot(first.ID, w.await(t, a, first, false), time.Now())
	a.MarkObserved(time.Now())
	if err := a.StartMove(agent.Place{Cell: "elsewhere"}, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.apply(t, a, agent.StageRuntime) // the pod ends
	moves, err := a.Snapshot(a.StoppedFor)
	if err != nil {
		t.Fatal(err)
	}
	a.RecordSnapshot(moves.ID, w.await(t, a, moves, true), time.Now())
	if a.Cell != "elsewhere" {
		t.Fatalf("the agent is in the cell %s, want it to have left: %+v", a.Cell, a.Move)
	}
	a.Cell = home
	for _, s := range a.Snapshots {
		w.retain(t, a, s, true)
	}
	for range 2 {
		w.leave(t, a)
		w.adopt(t, a)
		w.adopt(t, a) // as a redelivery does
	}
	w.apply(t, a)
	w.awaitReady(t, a)
	w.deleted(t, a, a.Snapshots[0]) // perhaps adopted by a slow worker
	w.retain(t, a, a.Snapshots[1], false)
	w.leave(t, a)
	w.adopt(t, a)
	for _, s := range a.Snapshots {
		if seen, err := w.Volumes.Snapshot(t.Context(), a, s, false); err == nil && seen.Ready {
			t.Errorf("a snapshot whose data was deleted: %+v, want it not ready", seen)
		}
	}
	w.leave(t, a)
}

// testDeleteAdopted deletes a snapshot as soon as the new cell has it: it expired during the move.
func testDeleteAdopted(t *testing.T, w VolumeFixture) {
	a := w.started(t)
	s := w.request(t, &a, agent.ConsistentAfterCrash)
	a.RecordSnapshot(s.ID, w.await(t, a, s, false), time.Now())
	w.retain(t, a, s, true)
	w.leave(t, a)
	w.adopt(t, a)
	w.eventually(t, func(ctx context.Context) error { return w.Volumes.RetainSnapshot(ctx, a, s, false) })
	w.deleted(t, a, s)
	w.adopt(t, a) // by a slow worker
	if seen, err := w.Volumes.Snapshot(t.Context(), a, a.Snapshots[0], false); err == nil && seen.Ready {
		t.Errorf("a snapshot that was deleted: %+v, want it without data", seen)
	}
	w.deleted(t, a, s)
	w.leave(t, a)
}

// adopt makes the agent's snapshots ones of a cell.
func (w VolumeFixture) adopt(t *testing.T, a agent.Agent) {
	t.Helper()
	w.apply(t, a, agent.StageNamespace)
	for _, s := range a.Snapshots {
		if err := w.Volumes.AdoptSnapshot(t.Context(), a, s); err != nil {
			t.Fatal(err)
		}
	}
}

func (w VolumeFixture) retain(t *testing.T, a agent.Agent, s agent.Snapshot, retains bool) {
	t.Helper()
	if err := w.Volumes.RetainSnapshot(t.Context(), a, s, retains); err != nil {
		t.Fatal(err)
	}
}

// leave deletes what a cell has of an agent.
func (w VolumeFixture) leave(t *testing.T, a agent.Agent) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		if err := w.Cluster.Delete(ctx, a); err != nil {
			return err
		}
		gone, err := w.Cluster.CheckGone(ctx, a)
		if err == nil && !gone.All() {
			err = fmt.Errorf("left of the agent: %+v", gone)
		}
		return err
	})
}
