package agent

import (
	"time"

	"agents.example/controlplane/shared/secret"
)

// Timing of the work on an agent.
const (
	// ProvisioningTimeout is how long a new or started agent's pod may take to become Ready once its objects are
	// applied.
	ProvisioningTimeout = 15 * time.Minute
	// ReadinessTimeout is how long a running agent's new pod may take to become Ready once its objects are applied.
	ReadinessTimeout = 10 * time.Minute
	// LeaseTime is how long a worker that records no progress keeps other workers off an agent.
	LeaseTime = 5 * time.Second
	// NudgeGrace is how long the sweep waits for the published nudge to get the work done.
	NudgeGrace = time.Minute
	// MaxAttempts is how many runs may fail before the agent's objects are applied.
	MaxAttempts = 20

	// queueAttempts is how many failed runs the queue repeats with its own back-off. From then on RetryAt spaces the
	// runs, so that repeated nudges add no runs.
	queueAttempts = 5
	// maxRetryDelay lets an agent recover within two sweeps after an outage.
	maxRetryDelay = 2 * time.Minute
	// maxWait is the longest time between two looks at a deletion.
	maxWait = 10 * time.Minute
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

// BeginWatch records that the agent's objects are applied and a worker watches the pod for at most the given time.
// From now on the pod has until the Deadline to become Ready. The watch needs no lease: two watches do no harm, and no
// worker has to wait for the lease of a crashed process.
func (a *Agent) BeginWatch(now time.Time, watch time.Duration) {
	if !a.ApplyDue() {
		return
	}
	if a.Deadline.IsZero() {
		timeout := ReadinessTimeout
		if a.Status == Provisioning || a.Status == Pending {
			timeout = ProvisioningTimeout
		}
		a.Deadline = now.Add(timeout)
	}
	a.Lease = Lease{}
	a.WorkDueAt = a.beforeDeadline(now, now.Add(watch+NudgeGrace))
	if soon := now.Add(NudgeGrace); a.WorkDueAt.Before(soon) {
		a.WorkDueAt = soon
	}
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

// BeginDeletion records that a worker run deletes the agent's objects, for at most the given time. It reports false if
// another run does so, or if the agent's next run is due later.
func (a *Agent) BeginDeletion(now time.Time, watch time.Duration) bool {
	if now.Before(a.RetryAt) {
		return false
	}
	a.Attempts++
	a.Lease = Lease{}
	a.RetryAt = now.Add(watch)
	a.WorkDueAt = a.RetryAt
	return true
}

// AwaitDeletion schedules the next look at objects that are being deleted. The time between two looks doubles from a
// minute.
func (a *Agent) AwaitDeletion(now time.Time) {
	wait := time.Minute << min(max(a.Attempts-1, 0), 4)
	a.RetryAt = now.Add(min(wait, maxWait))
	a.WorkDueAt = a.RetryAt
}

// RetryDestroy records why the versions that operations have replaced could not be destroyed, and schedules another
// run. A failure that is not an outage ends the operations after MaxAttempts runs; then they wait for a client.
func (a *Agent) RetryDestroy(code string, outage bool, now time.Time) {
	if len(a.OperationsAt(secret.Destroy, secret.Complete)) == 0 {
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
	if !a.OperationsDue() {
		a.WorkDueAt, a.RetryAt, a.Attempts = time.Time{}, time.Time{}, 0
	}
}
