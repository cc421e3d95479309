package provisioning

import (
	"context"
	"errors"
	"time"

	"agents.example/controlplane/shared/agent"
)

// run is one worker's run for one agent.
type run struct {
	*Reconciler
	holder string
	// ends is when the call of Reconcile must have ended. A snapshot of a volume that a program keeps quiet moves it.
	ends time.Time
	// begun is true once the run has recorded that it applies objects.
	begun bool
	// called is true once the run has looked at the agent's schedules.
	called bool
	// snapped is true once the run has looked at the agent's snapshots.
	snapped bool
	// unrecorded is what the next write of the record must include.
	unrecorded []agent.Finding
}

// record returns the context of a run's last write, which must take place even if ctx has ended.
func (w *run) record(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.WithoutCancel(ctx), w.ends)
}

// ended reports whether the time of a run has passed. What it has not done is still due.
func ended(ctx context.Context) bool { return ctx.Err() != nil }

// errFinished ends a run whose work another run has finished.
var errFinished = errors.New("another worker finished the work")

// progress records progress in applying the desired state, with everything unrecorded. If another run of the same
// generation has applied it in between, progress writes nothing and returns errFinished: what this run saw is older.
func (w *run) progress(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	finished := false
	latest, err := w.Records.Update(ctx, a, func(present *agent.Agent) {
		if finished = a.ApplyDue() && !present.ApplyDue(); finished {
			return
		}
		present.Learn(w.unrecorded...)
		change(present)
	})
	switch {
	case err == nil && finished:
		err = errFinished
	case err == nil:
		w.unrecorded = nil
	}
	return latest, err
}

// begin records that the run applies objects, and keeps other workers off.
func (w *run) begin(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	w.begun = true
	return w.progress(ctx, a, func(a *agent.Agent) {
		a.Redelivered()
		a.Attempts++
		a.AcquireLease(w.holder, w.Now())
		change(a)
	})
}

// learn adds findings to the next write of the record. The removal of an agent stores them as well, so a deletion needs
// no write for what a worker observes.
func (w *run) learn(findings ...agent.Finding) { w.unrecorded = append(w.unrecorded, findings...) }
