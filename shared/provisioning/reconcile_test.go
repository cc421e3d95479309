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

// reconciler makes a worker process of the simulation.
func reconciler(w *simulation) *provisioning.Reconciler {
	return &provisioning.Reconciler{
		Records: records{w}, Cluster: cluster{w}, Secrets: secretStore{w}, Prober: prober{w}, Now: time.Now,
		WatchTimeout: time.Minute,
	}
}

// deliver is one delivery of a nudge. A crash is a delivery without an answer.
func deliver(w *simulation) (err error) {
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

// maxRedeliveries is how many deliveries may fail per trouble, or without one.
const maxRedeliveries = 3

// deliverUntilDone delivers until a delivery is acknowledged, as a queue does, and again whenever the sweep nudges,
// until no work is due. It counts the deliveries after the first.
func deliverUntilDone(w *simulation) (redeliveries int) {
	for ; redeliveries < 100; redeliveries++ {
		wait := time.Second // the queue's back-off
		if deliver(w) == nil {
			if w.record == nil || w.record.WorkDueAt.IsZero() {
				break
			}
			wait = time.Until(w.record.WorkDueAt)
		}
		time.Sleep(wait) //nolint:forbidigo // in the bubble's time
	}
	return redeliveries
}

// checkEnd returns what is wrong after a whole schedule.
func checkEnd(w *simulation, redeliveries int) error {
	if redeliveries > maxRedeliveries*max(1, len(w.troubles)) {
		return fmt.Errorf("%d redeliveries", redeliveries)
	}
	if w.record == nil {
		if w.deleteAt == 0 || len(w.objects) > 0 || w.versions > 0 || w.removed != 1 {
			return fmt.Errorf("the record was removed %d times, with %v and %d secret versions left", w.removed,
				w.objects,
				w.versions)
		}
		return nil
	}
	switch {
	case w.deleteAt > 0 && w.deleteAt <= w.effects:
		return fmt.Errorf("the agent was deleted, but is %s", w.record.Status)
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

// deletions is the number of deletion times tried with each pair of troubles, including none.
const deletions = 7

// trySchedules stops the worker before or after every outside effect, and every pair of effects, with and without a
// deletion at some step, and delivers every message twice. A step above 1 tries every step-th pair only. It returns the
// number of schedules tried and the first failure.
func trySchedules(mutant string, step int) (schedules int, err error) {
	quiet := newSimulation(nil, 0)
	quiet.mutant = mutant
	if err := checkEnd(quiet, deliverUntilDone(quiet)); err != nil {
		return 0, fmt.Errorf("without trouble: %w", err)
	}
	steps := quiet.effects
	for first := range steps * int(modes) {
		for second := first % step; second < (steps+4)*int(modes); second += step {
			troubles := []trouble{
				{effect: first/int(modes) + 1, mode: mode(first % int(modes))},
				{effect: second/int(modes) + 1, mode: mode(second % int(modes))},
			}
			for d := range deletions {
				w := newSimulation(troubles, 0)
				w.mutant = mutant
				if d > 0 {
					w.deleteAt = 1 + (first+second*d)%(steps+3)
				}
				redeliveries := deliverUntilDone(w)
				redeliveries += deliverUntilDone(w) // a duplicate message
				if err := checkEnd(w, redeliveries); err != nil {
					return schedules, fmt.Errorf("troubles %v, deletion at %d: %w", troubles, w.deleteAt, err)
				}
				schedules++
			}
		}
	}
	return schedules, nil
}

func TestReconcile_ConvergesUnderEverySchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		step, want := 1, 30_000
		if testing.Short() {
			step, want = 5, 6_000 // 5 is prime to the number of modes, so every mode occurs
		}
		schedules, err := trySchedules("", step)
		if err != nil {
			t.Fatalf("after %d schedules: %v", schedules, err)
		}
		if schedules < want {
			t.Errorf("tried %d schedules, want at least %d", schedules, want)
		}
		t.Logf("%d schedules converge", schedules)
	})
}

// TestSchedules_FindPlantedDefects proves that the schedules detect the defects that they exist for.
func TestSchedules_FindPlantedDefects(t *testing.T) {
	t.Parallel()
	for _, mutant := range []string{"unguarded write", "version a call", "forgotten namespace"} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if _, err := trySchedules(mutant, 1); err == nil {
					t.Fatalf("no schedule finds the planted defect %q", mutant)
				}
			})
		})
	}
}

// TestReconcile_DuplicateMessageWritesNothing delivers a message again after the agent runs.
func TestReconcile_DuplicateMessageWritesNothing(t *testing.T) {
	t.Parallel()
	w := newSimulation(nil, 0)
	deliverUntilDone(w)
	effects := w.effects
	if err := deliver(w); err != nil {
		t.Fatal(err)
	}
	if got := w.effects - effects; got != 0 {
		t.Errorf("a duplicate message had %d effects, want 0", got)
	}
}
