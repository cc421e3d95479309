package agent

import (
	"time"

	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/secret"
)

// Timing of the work on an agent.
const (
	// ProvisioningTimeout is how long a new or started agent's pod may take to become Ready once its objects are
	// applied.
	ProvisioningTimeout = 15 * time.Minute
	// ReadinessTimeout is how long a running agent's new pod may take to become Ready once its objects are applied.
	ReadinessTimeout = 10 * time.Minute
	// LeaseTime is how long a worker that applies objects keeps other workers off an agent. Most runs are shorter. It
	// is shorter than the time that a run waits for a lease, so that a redelivered message replaces a crashed worker.
	LeaseTime = 6 * time.Second
	// NudgeGrace is how long the sweep waits for the published nudge to get the work done.
	NudgeGrace = time.Minute
	// MaxAttempts is how many runs may fail before the agent's objects are applied.
	MaxAttempts = 20

	// queueAttempts is how many failed runs the queue repeats with its own back-off. From then on RetryAt spaces the
	// runs, so that repeated nudges add no runs.
	queueAttempts = 5
	// maxRetryDelay lets an agent recover within two sweeps after an outage.
	maxRetryDelay = 2 * time.Minute
	// minWait and maxWait are the shortest and the longest time between two looks at an agent that waits for its pod,
	// or for the end of its deletion. The time doubles.
	minWait = time.Minute
	maxWait = 10 * time.Minute
	// maxSkew is more than the clocks of two workers differ.
	maxSkew = 5 * time.Second
)

// Leased reports whether another worker run holds the agent.
func (a Agent) Leased(holder string, now time.Time) bool {
	return a.Lease.Holder != "" && a.Lease.Holder != holder && now.Before(a.Lease.Until)
}

// AcquireLease takes or renews the lease and postpones the sweep's next nudge. It does nothing once the work is done.
func (a *Agent) AcquireLease(holder string, now time.Time) {
	if !a.ApplyDue() {
		return
	}
	a.Lease = Lease{Holder: holder, Until: now.Add(LeaseTime)}
	a.WorkDueAt = now.Add(NudgeGrace)
}

// Applied records that the agent's objects have the desired state. From now on the pod has until the Deadline to become
// Ready.
func (a *Agent) Applied(now time.Time) {
	if !a.ApplyDue() {
		return
	}
	a.AppliedAt = now
	if a.Deadline.IsZero() {
		timeout := ReadinessTimeout
		if a.BeingProvisioned() {
			timeout = ProvisioningTimeout
		}
		a.Deadline = now.Add(timeout + a.extraGrace())
	}
}

// extraGrace is how much longer than others the agent's former container may take to end. Only then does the new pod
// start.
func (a Agent) extraGrace() time.Duration {
	seconds := max(a.Image.GraceSeconds, a.Image.Update.Former.GraceSeconds, image.DefaultGraceSeconds)
	return time.Duration(seconds-image.DefaultGraceSeconds) * time.Second
}

// Waits reports whether the agent's objects are applied and only its pod, or the end of its deletion, is missing.
func (a Agent) Waits() bool {
	return !a.AppliedAt.IsZero() && a.ApplyDue() && len(a.OperationsAt(secret.Sync)) == 0
}

// Reapplied reports whether the objects were applied again while the agent waited.
func (a Agent) Reapplied() bool { return a.AppliedAt.After(a.WaitingSince) }

// AwaitReady records that the agent's pod is not Ready yet, and when a worker looks again: at the given time at the
// latest, unless it is zero. Waiting is no failure. f is what clients see of the reason; nil for an ordinary start.
func (a *Agent) AwaitReady(f *Failure, latest, now time.Time) {
	if !a.ApplyDue() {
		return
	}
	a.applyTrigger(redelivered)
	if s := a.stage(StageReady); s != nil && a.Status == Provisioning {
		if s.Status != StageRunning {
			a.BeginStage(StageReady, now)
		}
		s.ErrorCode, s.Message = "", ""
		if f != nil {
			s.ErrorCode, s.Message = f.Code, f.Message
		}
	}
	if a.Status == Running {
		a.Warming = true
	}
	if f == nil && a.Status == Error {
		f = a.Failure // until the agent runs again
	}
	if !sameFailure(f, a.Failure) {
		a.UpdatedAt = now
	}
	a.Failure = f
	a.wait(now)
	if latest.After(now) && latest.Before(a.WorkDueAt) {
		a.WorkDueAt = latest
	}
}

// wait ends a run that found nothing to do but wait, and schedules the next look.
func (a *Agent) wait(now time.Time) {
	if a.WaitingSince.IsZero() {
		a.WaitingSince = now
	}
	a.Attempts, a.RetryAt, a.Lease = 0, time.Time{}, Lease{}
	a.WorkDueAt = a.beforeDeadline(now, a.nextLook(now))
}

// nextLook is when a worker looks again at an agent that waits. It depends only on when the agent began to wait, so
// nudges in between change nothing. Clocks of workers differ: a look that is due within maxSkew takes place now.
func (a Agent) nextLook(now time.Time) time.Time {
	at, gap := a.WaitingSince, minWait
	for !at.After(now.Add(maxSkew)) {
		at, gap = at.Add(gap), min(2*gap, maxWait)
	}
	return at
}

// Expired reports whether the deadline has passed.
func (a Agent) Expired(now time.Time) bool { return !a.Deadline.IsZero() && !now.Before(a.Deadline) }

// beforeDeadline returns the earlier one of a time and a deadline that has not passed.
func (a Agent) beforeDeadline(now, at time.Time) time.Time {
	if a.Deadline.After(now) && at.After(a.Deadline) {
		return a.Deadline
	}
	return at
}

// scheduleRetry schedules the next run after a failed one. An outage does not use up the attempts: it is not the
// agent's fault.
func (a *Agent) scheduleRetry(outage bool, now time.Time) {
	if outage {
		a.Attempts = min(a.Attempts, queueAttempts+int(maxRetryDelay/time.Minute))
	}
	a.RetryAt, a.WorkDueAt = time.Time{}, a.beforeDeadline(now, now.Add(NudgeGrace))
	if n := a.Attempts - queueAttempts; n > 0 {
		a.RetryAt = a.beforeDeadline(now, now.Add(min(time.Duration(n)*time.Minute, maxRetryDelay)))
		a.WorkDueAt = a.RetryAt
	}
}

// AwaitDeletion records that the agent's objects are being deleted, and when a worker looks again: at the given time at
// the latest, unless it is zero.
func (a *Agent) AwaitDeletion(latest, now time.Time) {
	if a.AppliedAt.IsZero() {
		a.AppliedAt = now
	}
	a.Failure = nil
	a.wait(now)
	if latest.After(now) && latest.Before(a.WorkDueAt) {
		a.WorkDueAt = latest
	}
}

// RetryDestroy records why the versions that operations have replaced could not be destroyed, and schedules another
// run. A failure that is not an outage ends the operations after MaxAttempts runs; then they wait for a client. The
// superseded versions of an agent at rest are retried forever.
func (a *Agent) RetryDestroy(code string, outage bool, now time.Time) {
	if len(a.OperationsAt(secret.Destroy, secret.Complete)) == 0 && !a.PruneDue() {
		return // another worker destroyed them
	}
	a.Attempts++
	a.scheduleRetry(outage, now)
	event := secret.EventRetryScheduled
	if a.Attempts >= MaxAttempts {
		event = secret.EventGaveUp
	}
	a.RecordOperationFailure(event, code, now, secret.Destroy, secret.Complete)
	a.endWork()
}

// endWork forgets when work is due if none is left, and ends Warming if no operation replaces the pod.
func (a *Agent) endWork() {
	if !a.Converged() {
		return
	}
	if !a.replacesPod() {
		a.Warming = false
	}
	if !a.OperationsDue() && !a.PruneDue() {
		a.WorkDueAt, a.RetryAt, a.Attempts = time.Time{}, time.Time{}, 0
	}
}
