package secret

import (
	"slices"
	"time"
)

// Event is what happens to an operation.
type Event string

// The events.
const (
	// EventStored: the secret store has the value, and its version is known.
	EventStored Event = "stored"
	// EventBound: the agent wants the version.
	EventBound Event = "bound"
	// EventSynced: the agent's namespace has it.
	EventSynced Event = "synced"
	// EventWaitingForStart: the agent does not run, so there is no pod to bring it to.
	EventWaitingForStart Event = "parked"
	// EventRolledOut: the pod that runs has it, which has been proved.
	EventRolledOut Event = "rolled_out"
	// EventDestroyed: the versions of a deleted secret are gone.
	EventDestroyed Event = "destroyed"
	// EventCompleted: there is nothing left to do.
	EventCompleted Event = "completed"
	// EventRetryScheduled: what failed is tried again by itself.
	EventRetryScheduled Event = "faltered"
	// EventGaveUp: what failed is tried again when a client asks for it.
	EventGaveUp Event = "gave_up"
	// EventRetried: a client asked for another attempt.
	EventRetried Event = "retried"
	// EventSuperseded: a newer operation of the key has a value.
	EventSuperseded Event = "overtaken"
	// EventCanceled: the agent is deleted.
	EventCanceled Event = "withdrawn"
)

// Transition is one row of the table: Event takes an operation of one of Actions from one of From to To with Status. An
// empty To is the stage that it is at. Every open status is taken: a worker that gets a stage done has done it for
// those, too, that had failed at it.
type Transition struct {
	Event   Event
	Actions []Action
	From    []Stage
	To      Stage
	Status  Status
}

// Transitions is the whole table of moves of operations that are open. An operation at its end never moves again.
func Transitions() []Transition {
	all, adds, deletes := []Action{Set, Delete, Rotate}, []Action{Set, Rotate}, []Action{Delete}
	stages, later := []Stage{Store, Bind, Sync, Rollout, Destroy, Complete},
		[]Stage{Bind, Sync, Rollout, Destroy, Complete}
	return []Transition{
		{EventStored, adds, []Stage{Store}, Bind, Pending},
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
}

// Apply moves the operation and reports whether the table has the move; otherwise nothing changes. code is why, for
// events that are no success.
func (o *Operation) Apply(e Event, code string, now time.Time) bool {
	if !o.Open() {
		return false
	}
	for _, row := range Transitions() {
		if row.Event != e || !slices.Contains(row.Actions, o.Action) || !slices.Contains(row.From, o.Stage) {
			continue
		}
		if row.To != "" && row.To != o.Stage {
			o.Stage, o.Attempts = row.To, 1
		}
		if e == EventRetried {
			o.Attempts++
		}
		o.Status, o.ErrorCode, o.UpdatedAt = row.Status, code, now
		return true
	}
	return false
}
