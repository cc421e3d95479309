package agent

import (
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// Trigger moves an agent from one status to another.
type Trigger string

// Triggers of clients.
const (
	Restart Trigger = "restart"
	Pause   Trigger = "pause"
	Resume  Trigger = "resume"
	Stop    Trigger = "stop"
	Start   Trigger = "start"
	Delete  Trigger = "delete"
)

// Values lists the triggers of clients.
func (Trigger) Values() []string {
	return []string{string(Restart), string(Pause), string(Resume), string(Stop), string(Start), string(Delete)}
}

// Triggers of workers.
const (
	// becameReady: the pod is Ready and the gateway answers on the hostname.
	becameReady Trigger = "became_ready"
	// mustRetry: a retryable failure; the queue delivers the work again.
	mustRetry Trigger = "must_retry"
	// redelivered: the queue delivered the work again.
	redelivered Trigger = "redelivered"
	// gaveUp: a permanent failure, the deadline passed, or attempts exhausted before the objects were applied.
	gaveUp Trigger = "gave_up"
	// broke: a crash loop, or not Ready for too long.
	broke Trigger = "broke"
	// Withhold: the organization's account allows no pod. Payment undoes it with Resume.
	Withhold Trigger = "withhold"
	// recovered: the pod became Ready and answers, without a worker.
	recovered Trigger = "recovered"
)

// Transition is one row of the table: Trigger moves an agent from any of From to To.
type Transition struct {
	Trigger Trigger
	From    []Status
	To      Status
}

// transitions is the whole table of transitions; any other is a conflict. The end of deleting is the removal of the
// record and has no row.
var transitions = []Transition{ //nolint:gochecknoglobals // a constant
	{Restart, []Status{Running}, Running},
	{Restart, []Status{Error}, Provisioning},
	{Pause, []Status{Running, Paused}, Paused}, // an agent that sleeps, or that billing paused
	{Resume, []Status{Paused}, Provisioning},
	{Start, []Status{Stopped, Error}, Provisioning},
	{Stop, []Status{Pending, Provisioning, Running, Paused, Error}, Stopped},
	{Delete, []Status{Pending, Provisioning, Running, Paused, Stopped, Error, Deleting}, Deleting},
	{becameReady, []Status{Provisioning}, Running},
	{mustRetry, []Status{Provisioning}, Pending},
	{redelivered, []Status{Pending}, Provisioning},
	{gaveUp, []Status{Pending, Provisioning}, Error},
	{broke, []Status{Running}, Error},
	{recovered, []Status{Error}, Running},
	{Withhold, []Status{Pending, Provisioning, Running, Paused, Error}, Paused},
}

// Transitions returns the table of transitions.
func Transitions() []Transition { return slices.Clone(transitions) }

// satisfied reports whether a trigger has nothing left to do. The answer is then a success, so that a retry is safe. An
// agent that sleeps is not paused yet for whoever wants that nothing else wakes it, and one that billing paused is not
// for an owner who wants that no payment resumes it.
func (a Agent) satisfied(t Trigger) bool {
	return slices.Contains(satisfiedStatuses(t), a.Status) && (!a.Asleep() || t != Pause && t != Withhold) &&
		(a.StatusReason != Billing || t != Pause)
}

// satisfiedStatuses lists the statuses in which a trigger has nothing left to do.
func satisfiedStatuses(t Trigger) []Status {
	switch t {
	case Start, Resume:
		return []Status{Running, Provisioning, Pending}
	case Pause, Withhold:
		return []Status{Paused}
	case Stop:
		return []Status{Stopped}
	case Delete:
		return []Status{Deleting}
	default:
		return nil
	}
}

// next returns the status to which a trigger leads. A client may stop and delete an agent in a status that only a later
// release knows: after a roll-back, its pod and its data must not stay until that release is back.
func next(from Status, t Trigger) (Status, bool) {
	foreign := !from.Known() && (t == Stop || t == Delete)
	for _, row := range transitions {
		if row.Trigger == t && (foreign || slices.Contains(row.From, from)) {
			return row.To, true
		}
	}
	return "", false
}

// AllowedActions lists the triggers with which a client can change the present status.
func (a Agent) AllowedActions() []Trigger {
	actions := []Trigger{}
	for _, t := range []Trigger{Restart, Pause, Resume, Start, Stop, Delete} {
		if _, ok := next(a.Status, t); ok && !a.satisfied(t) {
			actions = append(actions, t)
		}
	}
	return actions
}

// Act applies a client's trigger, or Withhold. It changes nothing if the agent has already reached the target. Errors:
// Conflict, which names the status and the allowed actions.
func (a *Agent) Act(t Trigger, reason StatusReason, now time.Time) error {
	if a.satisfied(t) {
		return nil
	}
	to, ok := next(a.Status, t)
	if !ok {
		return a.conflict(t)
	}
	switch {
	case to == Provisioning:
		if a.Status == Error {
			a.Rollout++ // replace the failed pod instead of waiting for it
		}
		if a.Asleep() {
			a.WokenBy = WokenByResume
		}
		a.startProvisioning(now)
		return nil
	case t == Restart:
		a.Rollout++
		a.Warming, a.NameAtStart = true, a.Name
		a.dropImport()
	default:
		a.Status, a.StatusReason, a.Failure, a.RevertReason = to, reason, nil, nil
		a.Warming = false
		a.StoppedFor = ""
		a.interruptUpdates()
		if to == Deleting {
			a.StatusReason = ""
			a.Deletion = Deletion{RequestedAt: now}
			a.cancelOperations(now)
		}
	}
	a.bumpGeneration(now)
	return nil
}

// ConflictMeta is the meta of a refusal because of the agent's state.
func (a Agent) ConflictMeta() map[string]any {
	return map[string]any{"status": a.Status, "allowed_actions": a.AllowedActions()}
}

func (a Agent) conflict(t Trigger) error {
	meta := a.ConflictMeta()
	if a.Status == Deleting {
		return fault.New(fault.Conflict, "agent_deleting",
			"The agent is being deleted and accepts no other action.").WithMeta(meta)
	}
	return fault.New(fault.Conflict, "agent_state_conflict",
		"The agent is %s; %s is not possible in this status. See meta.allowed_actions.",
		a.Status, t).WithMeta(meta)
}

// applyTrigger applies a worker's trigger and reports whether the table has that transition.
func (a *Agent) applyTrigger(t Trigger) bool {
	to, ok := next(a.Status, t)
	if ok {
		a.Status = to
	}
	return ok
}

// BecameReady records that the agent has the desired state of the present generation and answers. That clears the
// failure, unless a requested change was reverted: then RevertReason becomes the failure. It also ends all stages.
func (a *Agent) BecameReady(now time.Time) {
	a.repeatReady(StageReady)
	a.applyTrigger(redelivered)
	a.applyTrigger(becameReady)
	a.applyTrigger(recovered)
	a.Failure, a.RevertReason = a.RevertReason, nil
	a.Warming, a.Volume.Unmade = false, false
	a.LastReadyIsolation = a.isolation()
	a.watchUpdates(now)
	for _, name := range a.Unfinished() { // a slower worker of the same generation may have begun one again
		a.EndStage(name, StageSucceeded, now)
	}
	a.markSecretsRolledOut(now)
	a.MarkObserved(now)
}

// MarkObserved records that a worker completed the present generation. Secret operations and the versions that they
// superseded may still have work for it. An agent without a pod then has no failure: what delayed its stop is over.
func (a *Agent) MarkObserved(now time.Time) {
	if !a.WantsPod() {
		a.Failure = nil
	}
	a.ObservedGeneration, a.Attempts = a.Generation, 0
	a.WorkDueAt, a.RetryAt = time.Time{}, time.Time{}
	a.endWait()
	a.Lease, a.UpdatedAt = Lease{}, now
	a.arrive(now)
	if a.OperationsDue() || a.PruneDue() {
		a.WorkDueAt = now.Add(NudgeGrace)
	}
}

// Retry records a transient failure. The queue delivers the work again, or else the sweep does. Retry does nothing once
// the work is done: the failure is then that of a slower worker.
func (a *Agent) Retry(f Failure, now time.Time) {
	if !a.ApplyDue() {
		return
	}
	a.repeatReady(f.Stage)
	a.applyTrigger(mustRetry)
	a.fail(f, now)
	a.recordReadinessFailure(secret.EventRetryScheduled, f.Code, now)
	a.scheduleRetry(f.Outage, now)
}

// FailRun records the failure of a worker run and reports whether that ended the work. Only the agent's own failure
// does: a permanent one, one at the deadline, or one of too many before the objects are applied. A removal and an
// outage are retried forever. So is all else of an agent without a pod, unless the agent can go back to another cell.
func (a *Agent) FailRun(f Failure, permanent bool, now time.Time) (ended bool) {
	if f.Code == CodeValueUnavailable && a.Deadline.IsZero() && a.ApplyDue() {
		a.Deadline = now.Add(ProvisioningTimeout) // its creation ended halfway, and may never be repeated
	}
	switch {
	case f.Outage:
	case permanent && a.Arrives() && a.Status != Deleting: // with or without a pod, it can go back
		ended = true
	case !a.WantsPod():
	case permanent:
		ended = true
	case a.Expired(now):
		f.Message, ended = "The agent did not become ready in time. Start it again. Last problem: "+f.Message, true
	case a.Deadline.IsZero() && a.Attempts >= MaxAttempts:
		f, ended = f.exhausted(), true
	}
	if ended {
		a.GiveUp(f, now)
	} else {
		a.Retry(f, now)
	}
	return ended
}

// exhausted is the failure after the last attempt.
func (f Failure) exhausted() Failure {
	f.Message = "All attempts to bring up the agent failed. Last problem: " + f.Message
	return f
}

// Exhausted reports whether a worker has tried often enough to give up. Runs during an outage don't count.
func (a Agent) Exhausted() bool {
	return a.Attempts >= MaxAttempts && (a.Failure == nil || !a.Failure.Outage)
}

// Abandon gives up the work that the queue has delivered too often.
func (a *Agent) Abandon(now time.Time) {
	if a.WantsPod() && !a.Converged() {
		f := Failure{
			Code: "attempts_exhausted", Retryable: true,
			Message: "All attempts to bring up the agent failed. Start it again.",
		}
		if a.Failure != nil {
			f = a.Failure.exhausted()
		}
		a.GiveUp(f, now)
	}
	a.abandonOperations(now)
}

// Redelivered records that a worker resumed the work.
func (a *Agent) Redelivered() { a.applyTrigger(redelivered) }

// GiveUp moves the agent to error, from which only a client's action or the pod's own recovery leads. A failed move
// into the sandbox is different: GiveUp reverts it, and a worker applies the previous state again. Like Retry, GiveUp
// does nothing once the work is done.
func (a *Agent) GiveUp(f Failure, now time.Time) {
	if a.ApplyDue() {
		a.giveUp(f, now)
	}
}

func (a *Agent) giveUp(f Failure, now time.Time) {
	if a.Move.State == MoveStarting {
		a.goBack(fmt.Sprintf("%s: %s", f.Code, f.Message), now)
		return
	}
	if a.Move.State == MoveCopying {
		a.endCopy(f.Message, now)
	}
	a.StoppedFor = ""
	if a.sandboxRefused(f) {
		a.revertSandbox(now)
		return
	}
	if a.blamesVersion(f) {
		a.revertUpdate(f, now)
		return
	}
	a.repeatReady(f.Stage)
	if !a.applyTrigger(gaveUp) {
		a.applyTrigger(broke)
	}
	a.fail(f, now)
	a.recordReadinessFailure(secret.EventGaveUp, f.Code, now)
	a.Warming = false
	a.MarkObserved(now)
}

// fail records the failure in the agent and in the stage that failed.
func (a *Agent) fail(f Failure, now time.Time) {
	a.Failure, a.UpdatedAt, a.Lease = &f, now, Lease{}
	if s := a.stage(f.Stage); s != nil {
		s.Status, s.FinishedAt, s.ErrorCode, s.Message = StageFailed, now, f.Code, f.Message
	}
}
