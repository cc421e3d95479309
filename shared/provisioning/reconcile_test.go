package provisioning_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// reconciler is one worker process in the world.
func reconciler(w *world) *provisioning.Reconciler {
	return &provisioning.Reconciler{
		Records: records{w}, Cluster: cluster{w}, Secrets: vault{w}, Prober: gateway{w}, Now: time.Now,
		WatchTimeout: time.Minute,
	}
}

// deliver is one delivery of a nudge. A crash is a delivery without an answer.
func deliver(w *world) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(crash); !ok {
				panic(p)
			}
			err = errLost
		}
	}()
	return reconciler(w).Reconcile(context.Background(), w.id)
}

// maxRedeliveries is how many deliveries may fail for each trouble, and for nothing.
const maxRedeliveries = 3

// settle delivers until a delivery is acknowledged, as a queue does, and answers how many were not.
func settle(w *world) (redeliveries int) {
	for deliver(w) != nil {
		redeliveries++
		time.Sleep(time.Second) //nolint:forbidigo // the queue's back-off, in the bubble's time
		if redeliveries > 100 {
			break
		}
	}
	return redeliveries
}

// check tells what is wrong with a world that has settled.
func check(w *world, redeliveries int) error {
	if redeliveries > maxRedeliveries*max(1, len(w.troubles)) {
		return fmt.Errorf("%d redeliveries", redeliveries)
	}
	if w.record == nil {
		if w.deleteAt == 0 || len(w.objects) > 0 || w.versions > 0 || w.removed != 1 {
			return fmt.Errorf("gone with %v, %d secret versions, removed %d times", w.objects, w.versions, w.removed)
		}
		return nil
	}
	switch {
	case w.deleteAt > 0 && w.deleteAt <= w.effects:
		return fmt.Errorf("deleted, and still %s", w.record.Status)
	case w.record.Status != agent.Running || !w.record.Converged() || w.replicas != 1 || w.versions != 1 ||
		!w.record.WorkDueAt.IsZero():
		return fmt.Errorf("status %s, generation %d observed %d, replicas %d, secret versions %d, failure %+v",
			w.record.Status, w.record.Generation, w.record.ObservedGeneration, w.replicas, w.versions, w.record.Failure)
	}
	for _, s := range w.record.Stages {
		if s.Status != agent.StageSucceeded && s.Status != agent.StageSkipped {
			return fmt.Errorf("stage %s is %s", s.Name, s.Status)
		}
	}
	return nil
}

// deletions is how many ways of deleting each pair of troubles is tried with.
const deletions = 7

// everySchedule stops the worker around every outside effect, and around every pair of them, with and without a
// deletion at some step, and delivers every message twice. It answers how many schedules it tried and the first that
// did not converge.
func everySchedule(mutant string) (schedules int, err error) {
	quiet := newWorld(nil, 0)
	quiet.mutant = mutant
	if err := check(quiet, settle(quiet)); err != nil {
		return 0, fmt.Errorf("without trouble: %w", err)
	}
	steps := quiet.effects
	for first := range steps * int(modes) {
		for second := range (steps + 4) * int(modes) {
			troubles := []trouble{
				{effect: first/int(modes) + 1, mode: mode(first % int(modes))},
				{effect: second/int(modes) + 1, mode: mode(second % int(modes))},
			}
			for d := range deletions {
				w := newWorld(troubles, 0)
				w.mutant = mutant
				if d > 0 {
					w.deleteAt = 1 + (first+second*d)%(steps+3)
				}
				redeliveries := settle(w)
				redeliveries += settle(w) // the same message once more
				if err := check(w, redeliveries); err != nil {
					return schedules, fmt.Errorf("troubles %v, deletion at %d: %w", troubles, w.deleteAt, err)
				}
				schedules++
			}
		}
	}
	return schedules, nil
}

func TestEveryScheduleConverges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		schedules, err := everySchedule("")
		if err != nil || schedules < 30_000 {
			t.Fatalf("%d schedules: %v", schedules, err)
		}
		t.Logf("%d schedules converge", schedules)
	})
}

// TestTheSuiteFindsPlantedDefects shows that the schedules would find what they are there to find.
func TestTheSuiteFindsPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{"unguarded write", "version a call", "forgotten namespace"} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if _, err := everySchedule(mutant); err == nil {
					t.Fatal("the defect was not found")
				}
			})
		})
	}
}

// TestDuplicateWritesNothing has a message delivered again after the agent runs.
func TestDuplicateWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(nil, 0)
	settle(w)
	effects := w.effects
	if err := deliver(w); err != nil || w.effects != effects {
		t.Fatalf("a duplicate had %d effects: %v", w.effects-effects, err)
	}
}
