package simulationtest

import (
	"fmt"
	"time"
)

// Result is what a schedule led to.
type Result struct {
	// Violation is the promise that did not hold; "" if all did.
	Violation string
	// Sum is equal for equal schedules.
	Sum uint64
	// Steps counts the steps of processes.
	Steps int
	Trace string
}

// Runner runs schedules one after the other, in one bubble.
type Runner struct {
	snapshots snapshots
}

// Run runs the schedule of a seed.
func (r *Runner) Run(seed uint64, plant Plant, keep bool) (Result, error) {
	s := NewScheduler(seed)
	s.Keep = keep
	u := RandomSetup(s)
	if plant.Focus != nil {
		plant.Focus(s, &u)
	}
	return r.RunSetup(s, u, plant)
}

// RunSetup runs the schedule of a setup.
func (r *Runner) RunSetup(s *Scheduler, u Setup, plant Plant) (Result, error) {
	w, err := r.snapshots.prepare(s, u, plant)
	if err != nil {
		return Result{}, err
	}
	w.began = time.Now()
	w.arrange()
	if w.Plan != nil {
		w.playPlan()
	} else {
		w.play()
	}
	w.Plan.close()
	w.settle()
	if w.violation == "" {
		w.checkRest()
	}
	w.Stop()
	result := Result{Violation: w.violation, Sum: w.Sum(), Steps: w.steps}
	if w.Keep {
		result.Trace = fmt.Sprintf("%+v\n%s", u, w.Trace())
	}
	return result, nil
}
