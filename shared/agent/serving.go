package agent

import (
	"slices"
	"time"
)

// Serving says whether an agent serves its users.
type Serving string

// What an agent does for its users.
const (
	// Idle: it is not meant to serve. It is paused, stopped or deleted, or being started.
	Idle Serving = "idle"
	// Up: it serves.
	Up Serving = "up"
	// Replacing: it does not serve because a requested change replaces its pod.
	Replacing Serving = "replacing"
	// Down: it does not serve although it should. A start of an agent in error does not end that, only a ready pod
	// does, or the end of the agent's work.
	Down Serving = "down"
)

// ServingChange is what an agent began to do for its users at a time.
type ServingChange struct {
	Since   time.Time
	Serving Serving
}

// maxServingChanges bounds the changes in the record. The metrics are collected more often than as many changes take.
const maxServingChanges = 12

// ServingHistory returns the latest changes, oldest first. The record of an older release has none: then an agent that
// runs or is in error has been in that state since its record says so.
func (a Agent) ServingHistory() []ServingChange {
	if len(a.ServingChanges) > 0 {
		return a.ServingChanges
	}
	ready := a.stage(StageReady)
	switch {
	case a.Status == Running && ready != nil && !ready.FinishedAt.IsZero():
		return []ServingChange{{ready.FinishedAt, Up}}
	case a.Status == Error:
		return []ServingChange{{a.UpdatedAt, Down}}
	default:
		return nil
	}
}

// LastServing is what an agent with a history does now.
func LastServing(history []ServingChange) Serving {
	if n := len(history); n > 0 {
		return history[n-1].Serving
	}
	return Idle
}

// setServing adds to a history what the agent has done since a time.
func (a *Agent) setServing(history []ServingChange, now Serving, since time.Time) {
	if LastServing(history) == now {
		return
	}
	if n := len(history); n > 0 && since.Before(history[n-1].Since) {
		since = history[n-1].Since
	}
	history = append(slices.Clone(history), ServingChange{since, now})
	a.ServingChanges = history[max(0, len(history)-maxServingChanges):]
}

// recordServing records what a change of the record means for the agent's users.
func (a *Agent) recordServing(before *Agent) {
	replaces := func(a *Agent) bool { return a.Warming && !a.AppliedAt.IsZero() }
	if a.Status == before.Status && a.Warming == before.Warming && replaces(a) == replaces(before) {
		return
	}
	history := a.ServingChanges
	if len(history) == 0 {
		history = before.ServingHistory()
	}
	switch {
	case a.Status == Error:
		a.setServing(history, Down, a.downSince(LastServing(history)))
	case !a.WantsPod():
		a.setServing(history, Idle, a.UpdatedAt)
	case a.Status == Running && !a.Warming:
		a.setServing(history, Up, a.UpdatedAt)
	case a.Status == Running && replaces(a) && LastServing(history) == Up:
		a.setServing(history, Replacing, a.AppliedAt)
	}
}

// downSince is when an agent in error ceased to serve. An agent that served did so when its pod ceased to be Ready. One
// that was being started, or whose pod was being replaced, was not expected to serve before its failure.
func (a Agent) downSince(before Serving) time.Time {
	if before != Up || a.Failure == nil {
		return a.UpdatedAt
	}
	since := a.Failure.Observed.Since
	if since.IsZero() || since.After(a.UpdatedAt) { // the clock of the agent's machine is ahead
		return a.UpdatedAt
	}
	return since
}

// PodRestarts counts how often an agent's container was started again in its pods.
type PodRestarts struct {
	// Total is the sum over all pods.
	Total int64
	// Pod is the latest pod with restarts, and Seen its part of the total.
	Pod  string
	Seen int64
}

// PodSight is what a look at an agent's pod found.
type PodSight struct {
	// UID names the pod.
	UID string
	// Restarts counts how often its container was started again.
	Restarts int64
	Ready    bool
	// Since is when the pod became Ready, or stopped being so, or was created.
	Since time.Time
	// Lost is when a Ready pod ceased to serve before Since: its container ended, or it replaced another pod. Zero if
	// that is not known.
	Lost time.Time
}

// See records a look at the pod of an agent. It changes nothing that a look before has recorded.
func (a *Agent) See(p PodSight) {
	r := &a.PodRestarts
	if p.Restarts > 0 && p.UID != r.Pod { // a pod without restarts is not worth a write
		r.Pod, r.Seen = p.UID, 0
	}
	if p.UID == r.Pod && p.Restarts > r.Seen {
		r.Total, r.Seen = r.Total+p.Restarts-r.Seen, p.Restarts
	}
	switch history := a.ServingHistory(); {
	case a.Status != Running || !a.Converged():
	case p.Ready && LastServing(history) == Down && !a.Warming:
		a.setServing(history, Up, p.Since)
	case p.Ready && LastServing(history) == Up && p.lostSince(history[len(history)-1].Since):
		a.setServing(history, Down, p.Lost)
		a.setServing(a.ServingChanges, Up, p.Since)
	case !p.Ready && LastServing(history) == Up:
		a.setServing(history, Down, p.Since)
	}
}

// lostSince reports whether the pod ceased to serve after a time, and has become Ready again.
func (p PodSight) lostSince(t time.Time) bool { return p.Lost.After(t) && p.Lost.Before(p.Since) }
