package workers_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/testtier"
)

// scripts are changes of one agent, each with a message. Outside the full tier they are shorter.
func scripts(t *testing.T) map[string][]string {
	t.Helper()
	starts := []string{"update", "stop", "update", "start", "update"}
	updates := []string{"update", "update", "update", "update", "update"}
	if !testtier.IsFull(t) {
		starts, updates = []string{"update", "stop", "start"}, updates[:3]
	}
	with := func(begin []string, last agent.Trigger) []string {
		return append(begin[:len(begin):len(begin)], string(last))
	}
	return map[string][]string{
		"ends running": with(starts, "update"), "ends stopped": with(starts, agent.Stop),
		"ends paused": with(updates, agent.Pause), "ends deleted": with(starts, agent.Delete),
	}
}

// TestReconcile_OlderGenerationOverwritesNoNewer begins a delivery after each change and lets all of them wait before
// their first effect on the workload. Then they continue one after another, in every order.
func TestReconcile_OlderGenerationOverwritesNoNewer(t *testing.T) {
	t.Parallel()
	for name, changes := range scripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for _, order := range orders(len(changes)) {
					if err := playOverlapping(t, changes, order, nil); err != nil {
						t.Fatalf("deliveries of %v that continue in the order %v: %v", changes, order, err)
					}
				}
			})
		})
	}
}

// TestOrders_FindPlantedDefects proves that the orders find a missing guard.
func TestOrders_FindPlantedDefects(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*world){
		"the cluster accepts older generations":   func(w *world) { w.cluster.Rules.NoFence = true },
		"the store does not guard the generation": func(w *world) { w.unguarded = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				changes, found := []string{"update", "stop", "start", "update"}, 0
				for _, order := range orders(len(changes)) {
					if playOverlapping(t, changes, order, plant) != nil {
						found++
					}
				}
				if found == 0 {
					t.Error("no order of deliveries shows the defect")
				}
			})
		})
	}
}

// playOverlapping plays one order, and returns what is wrong at the end.
func playOverlapping(t *testing.T, changes []string, order []int, plant func(*world)) error {
	t.Helper()
	w := newWorld(t, plant)
	release, ended := make([]chan struct{}, len(changes)), make([]chan error, len(changes))
	for i, what := range changes {
		w.change(t, i, what)
		waiting := make(chan struct{})
		release[i], ended[i] = make(chan struct{}), make(chan error, 1)
		go func() {
			ended[i] <- w.deliver(func() {
				close(waiting)
				<-release[i]
			})
		}()
		select {
		case <-waiting:
		case err := <-ended[i]:
			ended[i] <- err
		}
	}
	failed := 0
	for _, i := range order {
		close(release[i])
		if <-ended[i] != nil {
			failed++
		}
	}
	return w.settle(changes, failed)
}

// settle delivers messages again that were not acknowledged, and checks that duplicates then change nothing.
func (w *world) settle(changes []string, failed int) error {
	for tries := 0; failed > 0; tries++ {
		if err := w.deliver(nil); err == nil {
			failed--
		} else if tries == 20 {
			return fmt.Errorf("a message is not acknowledged: %w", err)
		}
	}
	commits, effects := w.database.Commits, len(w.applied)
	for range changes {
		if err := w.deliver(nil); err != nil {
			return fmt.Errorf("a duplicate is not acknowledged: %w", err)
		}
	}
	if w.database.Commits != commits || len(w.applied) != effects {
		return fmt.Errorf("duplicates made %d commits and %d writes to the cluster, want none",
			w.database.Commits-commits, len(w.applied)-effects)
	}
	return w.check(changes)
}

// TestReconcile_AnyNumberOfDeliveriesAfterEachChange delivers no, one or two messages after each change, and the rest
// in the end: messages that are late, reordered and doubled.
func TestReconcile_AnyNumberOfDeliveriesAfterEachChange(t *testing.T) {
	t.Parallel()
	for name, changes := range scripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				schedules := 1
				for range changes {
					schedules *= 3
				}
				for schedule := range schedules {
					w, failed := newWorld(t, nil), 1 // the last message comes after the last change
					for i, rest := 0, schedule; i < len(changes); i, rest = i+1, rest/3 {
						w.change(t, i, changes[i])
						for range rest % 3 {
							if w.deliver(nil) != nil {
								failed++
							}
						}
					}
					if err := w.settle(changes, failed); err != nil {
						t.Fatalf("schedule %d of %v: %v", schedule, changes, err)
					}
				}
			})
		})
	}
}

// orders lists all orders of n numbers.
func orders(n int) [][]int {
	all := [][]int{{}}
	for i := range n {
		var longer [][]int
		for _, order := range all {
			for at := range len(order) + 1 {
				next := append(append(append([]int{}, order[:at]...), i), order[at:]...)
				longer = append(longer, next)
			}
		}
		all = longer
	}
	return all
}
