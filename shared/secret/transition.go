package secret

import (
	"slices"
	"time"
)

// Event moves an operation.
type Event string

// The events.
const (
	// EventStored: the secret store has the value, under a known version.
	EventStored Event = "stored"
	// EventUnconfirmed: the secret store may or may not have the value. It may still appear.
	EventUnconfirmed Event = "unconfirmed"
	// EventResumed: a repeat of the request, with the value, tries again.
	EventResumed Event = "resumed"
	// EventBound: the version is part of the agent's desired state.
	EventBound Event = "bound"
	// EventSynced: the agent's namespace has the version.
	EventSynced Event = "synced"
	// EventWaitingForStart: the agent does not run, so it has no pod for the version.
	EventWaitingForStart Event = "waiting_for_start"
	// EventRolledOut: the running pod provably has the version.
	EventRolledOut Event = "rolled_out"
	// EventDestroyed: the versions of a deleted secret are gone.
	EventDestroyed Event = "destroyed"
	// EventCompleted: the operation is done.
	EventCompleted Event = "completed"
	// EventRetryScheduled: the stage failed, and a worker retries it.
	EventRetryScheduled Event = "retry_scheduled"
	// EventGaveUp: the stage failed, and only a client's request retries it.
	EventGaveUp Event = "gave_up"
	// EventRetried: a client asked for another attempt.
	EventRetried Event = "retried"
	// EventSuperseded: a newer operation of the key has a value.
	EventSuperseded Event = "superseded"
	// EventCanceled: the agent is being deleted.
	EventCanceled Event = "canceled"
)

// Transition is one row of the table: Event moves an operation of one of Actions from one of From to To with Status.
// With an empty To, the stage stays. The row applies to every open status, because a worker that completes a stage also
// completes it for operations that had failed there.
type Transition struct {
	Event   Event
	Actions []Action
	From    []Stage
	To      Stage
	Status  Status
}

// transitions is the whole table of transitions of open operations. An ended operation never moves again.
var transitions = []Transition{ //nolint:gochecknoglobals // a constant
	{EventStored, adds, []Stage{Store}, Bind, Pending},
	{EventUnconfirmed, adds, []Stage{Store}, "", Pending},
	{EventResumed, adds, []Stage{Store}, "", Pending},
	{EventBound, all, []Stage{Bind}, Sync, Running},
	{EventSynced, all, []Stage{Sync}, Rollout, Running},
	{EventWaitingForStart, all, []Stage{Rollout}, Rollout, Pending},
	{EventRolledOut, adds, []Stage{Rollout}, Complete, Running},
	{EventRolledOut, deletes, []Stage{Rollout}, Destroy, Running},
	{EventDestroyed, deletes, []Stage{Destroy}, Complete, Running},
	{EventCompleted, all, []Stage{Complete}, Complete, Succeeded},
	{EventRetryScheduled, all, later, "", Pending},
	{EventGaveUp, all, stages, "", Failed},
	{EventRetried, all, later, "", Pending},
	{EventSuperseded, all, stages, "", Superseded},
	{EventCanceled, all, stages, "", Canceled},
}

// The actions and stages of several rows.
//
//nolint:gochecknoglobals // constants
var (
	all, adds, deletes = []Action{Set, Delete, Rotate}, []Action{Set, Rotate}, []Action{Delete}
	stages             = []Stage{Store, Bind, Sync, Rollout, Destroy, Complete}
	later              = stages[1:]
)

// Apply moves the operation and reports whether the table has that transition. Without one, it changes nothing. code is
// the error code of an event that is no success.
func (o *Operation) Apply(e Event, code string, now time.Time) bool {
	if !o.Open() {
		return false
	}
	for _, row := range transitions {
		if row.Event != e || !slices.Contains(row.Actions, o.Action) || !slices.Contains(row.From, o.Stage) {
			continue
		}
		if row.To != "" && row.To != o.Stage {
			o.Stage, o.Attempts = row.To, 1
		}
		switch e { //nolint:exhaustive // no other event begins an attempt
		case EventRetried:
			o.Attempts++
		case EventResumed:
			o.Attempts++
			o.StoringUntil = now.Add(StoringTime)
		}
		o.Status, o.ErrorCode, o.UpdatedAt = row.Status, code, now
		return true
	}
	return false
}
