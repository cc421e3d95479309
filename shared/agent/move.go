package agent

import (
	"time"

	"agents.example/controlplane/shared/fault"
)

// An agent moves to another cell with a snapshot of its quiet volume. Until that is ready, nothing has changed but that
// its pod is stopped. Then one commit changes the record's cell and volume, and a worker brings the agent up in the new
// cell. The former cell keeps everything until the agent runs there: if it does not, another commit takes it back. What
// is left in the cell that the agent is not in is deleted until it stays gone.

// Move is an agent's move to another cell, the last one if it failed.
type Move struct {
	State    MoveState
	From, To Place
	// SnapshotID is what takes the agent's data along.
	SnapshotID string
	// Volume is the one in the cell that the agent leaves.
	Volume      Volume
	RequestedAt time.Time
	// Since is when the state was reached.
	Since time.Time
	// Cleared is true once nothing runs in the cell from which the agent returns.
	Cleared bool
	// LookAt is when a worker looks again at the cell that the agent leaves, and GoneAt when nothing of the agent was
	// first observed there; see lateness.
	LookAt, GoneAt time.Time
	// Reason is why the move failed.
	Reason string
}

// Place is a cell and its region.
type Place struct {
	Cell, Region string
}

// MoveState is how far a move is.
type MoveState string

// The states. An agent that has moved has none.
const (
	// MoveCopying: the snapshot is being taken in the former cell.
	MoveCopying MoveState = "copying"
	// MoveStarting: the agent is being brought up in the new cell.
	MoveStarting MoveState = "starting"
	// MoveAdopting: the agent has moved, and its snapshots are being made ones of the new cell.
	MoveAdopting MoveState = "adopting"
	// MoveLeaving: what is left in the former cell is being deleted.
	MoveLeaving MoveState = "leaving"
	// MoveReturning: the agent did not become ready in the new cell. What is left there is being deleted.
	MoveReturning MoveState = "returning"
	// MoveFailed: the agent is in its former cell as if nothing had happened.
	MoveFailed MoveState = "failed"
)

const (
	// moveRetention is how long the snapshot that took an agent to another cell is kept.
	moveRetention = 7 * day
	// copyTime is how long storage may take to copy it. The agent's pod is stopped for so long.
	copyTime = 30 * time.Minute
	// ReturnMargin is more than a worker takes from reading a record until its last call, with what clocks differ.
	ReturnMargin = 20 * time.Second
)

// Open reports whether the move has not ended.
func (m Move) Open() bool { return m.State != "" && m.State != MoveFailed }

// Settled reports whether the agent is where it will stay: it has moved, or the move failed.
func (m Move) Settled() bool {
	return m.State != MoveCopying && m.State != MoveStarting && !m.foreign()
}

// foreign reports whether only another release knows the state of the move, such as after a roll-back. Both cells may
// have the agent's data then.
func (m Move) foreign() bool {
	switch m.State {
	case "", MoveCopying, MoveStarting, MoveAdopting, MoveLeaving, MoveReturning, MoveFailed:
		return false
	default:
		return true
	}
}

// OtherCell is the cell in which the agent may have objects besides its own; empty if there is none.
func (a Agent) OtherCell() string {
	switch a.Move.State {
	case MoveStarting, MoveAdopting, MoveLeaving:
		return a.Move.From.Cell
	case MoveReturning:
		return a.Move.To.Cell
	case "", MoveCopying, MoveFailed:
		return ""
	}
	if a.Cell == a.Move.From.Cell { // only another release knows the state
		return a.Move.To.Cell
	}
	return a.Move.From.Cell
}

// In is the agent as if it were in a cell, to name what it has there.
func (a Agent) In(cell string) Agent {
	a.Cell = cell
	return a
}

// CheckMove checks that an operator may move the agent now. An agent whose image policy gives a time for changes moves
// at such a time only, unless force is true. Errors: Conflict, which says when it may move.
func (a Agent) CheckMove(to Place, force bool, now time.Time) error {
	refuse := func(code, detail string) error { return fault.New(fault.Conflict, code, "%s", detail) }
	switch {
	case a.Cell == to.Cell:
		return refuse("move_same_cell", "The agent is in this cell.")
	case a.Move.Open():
		return agentMoving()
	case a.Status != Running && a.Status != Paused && a.Status != Stopped || !a.Converged():
		return refuse("move_unsettled", "The agent is "+string(a.Status)+" and does not rest. Wait, or stop it.")
	case a.WatchedBy != "":
		return refuse("move_watched", "A release watches the agent.")
	case !a.hasData() || a.Volume.Unmade:
		return refuse("move_without_volume", "The agent's volume is not made yet: start the agent once.")
	case len(a.FormerVolumes) > 0 || a.StoppedFor != "" || a.snapshotsOpen() || !a.Reader.ended():
		return refuse("move_snapshots", "A snapshot of the agent is being taken, deleted, restored or exported.")
	case !force && !a.imageOpen(now):
		return refuse("move_not_agreed",
			"The agent's image policy allows no interruption now. Wait for its maintenance window, or force the move.")
	}
	return nil
}

func (a Agent) snapshotsOpen() bool {
	for _, s := range a.Snapshots {
		if s.Status == SnapshotPending || s.Status == SnapshotDeleting {
			return true
		}
	}
	return false
}

// StartMove begins to move the agent to another cell. Errors: those of CheckMove.
func (a *Agent) StartMove(to Place, force bool, now time.Time) error {
	if err := a.CheckMove(to, force, now); err != nil {
		return err
	}
	s := a.addSnapshot(Snapshot{
		Name: "Move to " + to.Region, Cause: SnapshotByMove, Consistency: ConsistentByStop,
		ExpiresAt: now.Add(moveRetention),
	}, now)
	a.Move = Move{
		State: MoveCopying, From: Place{a.Cell, a.Region}, To: to, SnapshotID: s.ID, RequestedAt: now, Since: now,
	}
	return nil
}

func agentMoving() *fault.Error {
	return fault.New(fault.Conflict, "agent_moving", "The agent is being moved to another cluster. Wait for it.")
}

// copies reports whether the agent's volume must stay as it is: it is on its way to another cell.
func (a Agent) copies() bool { return !a.Move.Settled() }

// keepsSnapshots reports whether no snapshot may be deleted, because two cells have them.
func (a Agent) keepsSnapshots() bool { return a.copies() || a.Move.State == MoveAdopting }

// moves reports whether a snapshot takes the agent to another cell.
func (a Agent) moves(s Snapshot) bool {
	return a.Move.State == MoveCopying && a.Move.SnapshotID == s.ID
}

// departs reports whether the agent can leave its cell once the snapshot is ready: no pod may run there.
func (a Agent) departs() bool {
	return a.StoppedFor == a.Move.SnapshotID || !a.WantsPod() && a.Converged()
}

// depart makes the new cell the agent's. Its volume there is made from the snapshot.
func (a *Agent) depart(now time.Time) {
	s := a.snapshot(a.Move.SnapshotID)
	if s == nil {
		return
	}
	a.Move.State, a.Move.Since, a.Move.Volume = MoveStarting, now, a.Volume
	a.Volume = a.volumeFrom(*s)
	a.settle(a.Move.To, now)
}

// settle makes a worker bring the agent to its state in a cell.
func (a *Agent) settle(in Place, now time.Time) {
	a.Cell, a.Region = in.Cell, in.Region
	a.StoppedFor, a.Failure, a.Lease = "", nil, Lease{}
	if a.WantsPod() {
		a.ForgetStages()
		a.Warming = a.Warming || a.Status == Running
	}
	a.bumpGeneration(now)
}

// endCopy records that the move ended before the agent left its cell.
func (a *Agent) endCopy(reason string, now time.Time) {
	if s := a.snapshot(a.Move.SnapshotID); s != nil && s.Status == SnapshotPending {
		s.Status, s.Problem, s.ExpiresAt, s.LookAt = SnapshotFailed, reason, now.Add(failureRetention), time.Time{}
	}
	a.Move.State, a.Move.Since, a.Move.Reason = MoveFailed, now, reason
}

// goBack takes the agent back to its former cell and volume, because it did not become ready in the new one. What a
// container wrote there is lost.
func (a *Agent) goBack(reason string, now time.Time) {
	a.Volume = a.Move.Volume
	a.Move.State, a.Move.Since, a.Move.Reason, a.Move.LookAt = MoveReturning, now, reason, now
	a.settle(a.Move.From, now)
}

// arrive records that the agent has its desired state in the new cell.
func (a *Agent) arrive(now time.Time) {
	if a.Move.State == MoveStarting {
		a.Move.State, a.Move.Since, a.Move.LookAt = MoveAdopting, now, now
	}
}

// Arrives reports whether a worker must make the source of the agent's volume one of the new cell.
func (a Agent) Arrives() bool { return a.Move.State == MoveStarting }

// Returns reports whether the agent's pod must wait until nothing runs in the cell from which the agent returns.
func (a Agent) Returns() bool {
	return a.Move.State == MoveReturning && !a.Move.Cleared && a.WantsPod()
}

// AwaitReturn records that it still waits.
func (a *Agent) AwaitReturn(now time.Time) {
	if a.Returns() && !a.Converged() {
		a.Attempts, a.RetryAt, a.Lease = 0, time.Time{}, Lease{}
		a.WorkDueAt = now.Add(minWait / 6)
	}
}

// MoveDue reports whether a worker must look at the cell that the agent leaves now.
func (a Agent) MoveDue(now time.Time) bool {
	at := a.nextMoveWork()
	return !at.IsZero() && !at.After(now)
}

func (a Agent) nextMoveWork() time.Time {
	switch a.Move.State {
	case MoveAdopting, MoveLeaving, MoveReturning:
		return a.Move.LookAt
	default:
		return time.Time{}
	}
}

// DelayMove records that a worker could not do its part of the move.
func (a *Agent) DelayMove(now time.Time) {
	if a.MoveDue(now) {
		a.Move.LookAt = now.Add(minWait)
	}
}

// SnapshotsToAdopt lists the snapshots whose data the move takes along.
func (a Agent) SnapshotsToAdopt() (all []Snapshot) {
	for _, s := range a.Snapshots {
		if s.Handle != "" && (s.Status == SnapshotReady || s.Status == SnapshotDeleting) {
			all = append(all, s)
		}
	}
	return all
}

// Adopted records that the new cell has the agent's snapshots, so that the former one can go.
func (a *Agent) Adopted(now time.Time) {
	if a.Move.State == MoveAdopting {
		a.Move.State, a.Move.Since, a.Move.LookAt = MoveLeaving, now, now
	}
}

// RecordLeft records whether the cell that the agent leaves, or from which it returns, has nothing of it.
func (a *Agent) RecordLeft(gone bool, now time.Time) {
	m := &a.Move
	if m.State != MoveLeaving && m.State != MoveReturning {
		return
	}
	m.GoneAt, m.LookAt = seenGone(m.GoneAt, gone, now)
	if gone && now.Sub(m.Since) >= ReturnMargin {
		m.Cleared = true
	}
	switch {
	case m.State == MoveReturning && !m.Cleared:
		m.LookAt = now.Add(minWait / 6)
	case !m.LookAt.IsZero():
	case m.State == MoveLeaving:
		*m = Move{}
	default:
		*m = Move{
			State: MoveFailed, From: m.From, To: m.To, SnapshotID: m.SnapshotID, RequestedAt: m.RequestedAt, Since: now,
			Reason: m.Reason,
		}
	}
}
