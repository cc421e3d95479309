// Package release moves a fleet of agents to another version of an image, in waves. A release is a record with a state
// machine; a scheduled worker carries it on, one step and one commit after the other, so that it goes on after any
// crash. The package decides which agents move, when a wave has ended, and when a release stops. It does not replace
// pods (provisioning does), and an agent goes back to its former version by itself (package agent).
package release

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

// Release is the record of a release: what the operator asked for, and how far it is.
type Release struct {
	// ID is the image's id and Number: "assistant-7".
	ID     string
	Image  string
	Number int64
	// Target is what agents run after the release. Cells has the references of cells with copies of their own.
	Target image.Choice
	Cells  []CellReference
	// Former is what new agents ran when the release began.
	Former image.Choice
	// Catalogued is true if the catalog describes the image, and not the deployment's settings.
	Catalogued bool
	// Waves are the percentages of the fleet that have moved at the end of each wave. The last one is 100.
	Waves []int
	// Soak is how long each agent is watched after it has started with the new version.
	Soak time.Duration
	// MaxFailed is the percentage of the moved agents that may go back before the release stops.
	MaxFailed int
	// Cell limits the release to the agents of a cell, unless it is empty.
	Cell string

	State State
	// Reason says why the release stopped, or what it waits for.
	Reason string
	// Successor is the next release of the image. A release that has one changes no more.
	Successor string
	StartedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
	// DueAt is when the worker carries the release on; zero for one that waits for the operator, or is over.
	DueAt time.Time

	// Total counts the agents that the release found ready to move when it began. Surveyed is true once it has.
	Total    int64
	Surveyed bool
	// Wave is the index of the present wave, and WaveAt is when it began, or when the last one ended.
	Wave   int
	WaveAt time.Time
	Lap    Lap
	// Laps counts the walks through the fleet in the last wave, or of the way back.
	Laps   int
	Counts Counts
	// Forgiven counts the failed agents of which the operator knew when the release was resumed, also those that were
	// on their way back.
	Forgiven int64
	// FormerDefault is the image's default version before the release, once the release is about to change it.
	// DefaultSet is true once it has.
	FormerDefault string
	DefaultSet    bool
	// Failures are the latest agents that went back.
	Failures []Failure

	// Revision is the store's revision of the record. Reading sets it.
	Revision string
	// Rest is what other releases of the control plane stored in the record. Reading sets it.
	Rest *document.Rest
}

// CellReference is where the agents of a cell find the build.
type CellReference struct{ Cell, Reference string }

// Counts say what became of the agents that a release reached.
type Counts struct {
	// Moved counts the agents whose version the release changed. Each of them ends in one of the next three.
	Moved int64
	// Updated agents run the new version as well as the former one.
	Updated int64
	// Reverted agents went back.
	Reverted int64
	// Interrupted agents were stopped, deleted or changed before the release was through with them.
	Interrupted int64
}

// Failure is an agent that went back to its former version.
type Failure struct {
	AgentID string
	Reason  string
	At      time.Time
}

// maxFailures bounds the failures in the record.
const maxFailures = 20

// Lap is a walk through all agents in the order of their ids, which are random: it begins at an id that follows from
// the release, so that each beginning of a lap is a fair sample of the fleet.
type Lap struct {
	// Cursor is the id of the last agent that was visited. Wrapped is true once the walk continued at the first id.
	Cursor  string
	Wrapped bool
	Ended   bool
	// Moved counts the agents that the lap moved, and Busy those that it must visit again.
	Moved, Busy int64
	// Pinned agents are moved by their clients only, and Deferred ones within their maintenance windows. Waiting ones
	// take the version at their next start. Failing ones are in error, and stay as they are.
	Pinned, Deferred, Waiting, Failing int64
}

// State is where a release is in its life.
type State string

// The states.
const (
	// Running: the worker moves agents.
	Running State = "running"
	// Paused: the operator has halted the release.
	Paused State = "paused"
	// Stopped: the release has halted itself. Reason says why.
	Stopped State = "stopped"
	// Done: every agent that could move has moved. The worker still moves agents within their maintenance windows, and
	// those that were busy.
	Done State = "done"
	// Reverting: the worker returns all agents of the release to what they ran before.
	Reverting State = "reverting"
	// Reverted: they have returned.
	Reverted State = "reverted"
)

// worked reports whether the worker carries on releases in the state. After a roll-back, a release may be in a state
// of a later one, which alone knows what comes next.
func (s State) worked() bool { return s == Running || s == Paused || s == Done || s == Reverting }

// Action moves a release from one state to another.
type Action string

// The actions: those of the operator, and stop and finish of the worker.
const (
	Pause  Action = "pause"
	Resume Action = "resume"
	Revert Action = "revert"
	stop   Action = "stop"
	finish Action = "finish"
)

// transition is one row of the table of states: Action moves a release from any of From to To.
type transition struct {
	Action Action
	From   []State
	To     State
}

// transitions is the whole table; any other transition is a conflict.
var transitions = []transition{ //nolint:gochecknoglobals // a constant
	{Action: Pause, From: []State{Running}, To: Paused},
	{Action: Resume, From: []State{Paused, Stopped}, To: Running},
	{Action: Revert, From: []State{Running, Paused, Stopped, Done}, To: Reverting},
	{Action: stop, From: []State{Running, Done}, To: Stopped},
	{Action: finish, From: []State{Running}, To: Done},
	{Action: finish, From: []State{Reverting}, To: Reverted},
}

// Open reports whether the release may still change agents, now or after the operator's decision.
func (r Release) Open() bool { return r.State != Done && r.State != Reverted }

// Allowed lists what the operator can do with the release.
func (r Release) Allowed() []Action {
	var allowed []Action
	for _, t := range transitions {
		if slices.Contains([]Action{Pause, Resume, Revert}, t.Action) && slices.Contains(t.From, r.State) &&
			r.Successor == "" {
			allowed = append(allowed, t.Action)
		}
	}
	return allowed
}

// Act applies an action. Errors: Conflict, which names the state and what is allowed.
func (r *Release) Act(action Action, now time.Time) error {
	i := slices.IndexFunc(transitions, func(t transition) bool {
		return t.Action == action && slices.Contains(t.From, r.State)
	})
	switch {
	case r.Successor != "":
		return fault.New(fault.Conflict, "release_superseded",
			"Release %s was followed by %s, so that it changes no more.", r.ID, r.Successor)
	case i < 0:
		allowed := make([]string, 0, len(transitions))
		for _, a := range r.Allowed() {
			allowed = append(allowed, string(a))
		}
		return fault.New(fault.Conflict, "release_state_conflict",
			"Release %s is %s; %s is not possible. Possible: %s.", r.ID, r.State, action,
			strings.Join(append(allowed, "nothing else")[:max(1, len(allowed))], ", "))
	}
	r.State, r.Reason, r.UpdatedAt, r.DueAt = transitions[i].To, "", now, time.Time{}
	switch r.State { //nolint:exhaustive // the other states wait for nothing
	case Running:
		r.DueAt, r.Forgiven = now, max(r.Forgiven, r.Counts.Reverted)
	case Paused:
		if r.FormerDefault != "" {
			r.DueAt = now // the worker makes the former version the default one again
		}
	case Reverting:
		r.DueAt, r.Lap, r.Laps = now, Lap{}, 0
	}
	return nil
}

// halt stops the release until the operator decides.
func (r *Release) halt(reason string, now time.Time) {
	if r.Act(stop, now) == nil {
		r.Reason = reason
	}
}

// fail records an agent that went back, once: when the release stops because of it, or when it is counted.
func (r *Release) fail(f Failure) {
	if slices.ContainsFunc(r.Failures, func(g Failure) bool { return g.AgentID == f.AgentID && g.Reason == f.Reason }) {
		return
	}
	r.Failures = append(slices.Clone(r.Failures), f)
	r.Failures = r.Failures[max(0, len(r.Failures)-maxFailures):]
}

// over reports whether too many agents failed. reverting counts those that are on their way back.
func (r Release) over(reverting int64) bool {
	failed := r.Counts.Reverted + reverting - r.Forgiven
	return failed > 0 && failed*100 > int64(r.MaxFailed)*r.Counts.Moved
}

// last reports whether the present wave is the last one.
func (r Release) last() bool { return r.Wave >= len(r.Waves)-1 }

// quota is how many agents may have moved by the end of the present wave.
func (r Release) quota() int64 {
	if r.last() {
		return 1 << 62
	}
	return (r.Total*int64(r.Waves[r.Wave]) + 99) / 100
}

// Limit is how many agents may be down because of the release: as many as the present wave moves, and on the way back
// as many as the largest wave so far.
func (r Release) Limit() int64 {
	if r.State != Reverting {
		return r.waveSize()
	}
	most := int64(1)
	for r.Wave = min(r.Wave, len(r.Waves)-1); r.Wave >= 0; r.Wave-- {
		most = max(most, r.waveSize())
	}
	return most
}

// waveSize is how many agents the present wave moves.
func (r Release) waveSize() int64 {
	before := int64(0)
	if r.Wave > 0 {
		before = (r.Total*int64(r.Waves[r.Wave-1]) + 99) / 100
	}
	if r.last() {
		return max(r.Total-before, 1)
	}
	return r.quota() - before
}

// target is what an agent of a cell runs after the release.
func (r Release) target(cell string) image.Choice {
	to := r.Target.Clone()
	for _, c := range r.Cells {
		if c.Cell == cell {
			to.Reference = c.Reference
		}
	}
	return to
}

// ID names a release of an image.
func ID(image string, number int64) string { return fmt.Sprintf("%s-%d", image, number) }
