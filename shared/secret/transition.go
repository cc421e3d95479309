package secret

import (
	"slices"
	"time"
)

// Event is what happens to an operation.
type Event string

// The events.
const (
	// Stored: the secret store has the value, and its version is known.
	Stored Event = "stored"
	// Bound: the agent wants the version.
	Bound Event = "bound"
	// Synced: the agent's namespace has it.
	Synced Event = "synced"
	// Parked: the agent does not run, so there is no pod to bring it to.
	Parked Event = "parked"
	// RolledOut: the pod that runs has it, which has been proved.
	RolledOut Event = "rolled_out"
	// Destroyed: the versions of a deleted secret are gone.
	Destroyed Event = "destroyed"
	// Completed: there is nothing left to do.
	Completed Event = "completed"
	// Faltered: what failed is tried again by itself.
	Faltered Event = "faltered"
	// GaveUp: what failed is tried again when a client asks for it.
	GaveUp Event = "gave_up"
	// Retried: a client asked for another attempt.
	Retried Event = "retried"
	// Overtaken: a newer operation of the key has a value.
	Overtaken Event = "overtaken"
	// Withdrawn: the agent is deleted.
	Withdrawn Event = "withdrawn"
)

// Transition is one row of the table: Event takes an operation of one of Actions from one of From to To with Status. An empty To is the
// stage that it is at. Every open status is taken: a worker that gets a stage done has done it for those, too, that had failed at it.
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
	stages, later := []Stage{Store, Bind, Sync, Rollout, Destroy, Complete}, []Stage{Bind, Sync, Rollout, Destroy, Complete}
	return []Transition{
		{Stored, adds, []Stage{Store}, Bind, Pending},
		{Bound, all, []Stage{Bind}, Sync, Running},
		{Synced, all, []Stage{Sync}, Rollout, Running},
		{Parked, all, []Stage{Rollout}, Rollout, Pending},
		{RolledOut, adds, []Stage{Rollout}, Complete, Running},
		{RolledOut, deletes, []Stage{Rollout}, Destroy, Running},
		{Destroyed, deletes, []Stage{Destroy}, Complete, Running},
		{Completed, all, []Stage{Complete}, Complete, Succeeded},
		{Faltered, all, later, "", Pending},
		{GaveUp, all, stages, "", Failed},
		{Retried, all, later, "", Pending},
		{Overtaken, all, stages, "", Superseded},
		{Withdrawn, all, stages, "", Canceled},
	}
}

// Apply moves the operation and reports whether the table has the move; otherwise nothing changes. code is why, for events that are no
// success.
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
		if e == Retried {
			o.Attempts++
		}
		o.Status, o.ErrorCode, o.UpdatedAt = row.Status, code, now
		return true
	}
	return false
}
