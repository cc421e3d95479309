package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// A due time of a schedule is handled in these steps, each of which a worker may leave undone. The worker asks the
// front of the running agent for its name, which no other front ever has, and records the call with that name. Then it
// orders the call, of that front only. The front makes each call once, and reports on it when it is asked. A call whose
// front is gone was made once or not at all, and is not made again.

// Call is a call that a worker has told the agent's front to make, or is about to.
type Call struct {
	DueAt     time.Time
	OrderedAt time.Time
	// Front names the process that makes the call.
	Front string
	// LookAt is when a worker asks for the result.
	LookAt time.Time
}

// Open reports whether there is a call.
func (c Call) Open() bool { return !c.OrderedAt.IsZero() }

// CallID names the call for a due time of a schedule. It is the call's idempotency key.
func CallID(agentID, scheduleID string, due time.Time) string {
	sum := sha256.Sum256([]byte(agentID + "\n" + scheduleID + "\n" + strconv.FormatInt(due.Unix(), 10)))
	const length = 16
	return hex.EncodeToString(sum[:length])
}

// CallOutcome is how a call ended.
type CallOutcome string

// The outcomes.
const (
	// CallRunning: the call has not ended. No record has it.
	CallRunning CallOutcome = dataplane.CallRunning
	// CallAnswered: the agent's container answered, with any status.
	CallAnswered CallOutcome = dataplane.CallAnswered
	// CallFailed: the agent's container did not answer.
	CallFailed CallOutcome = dataplane.CallFailed
	// CallTimedOut: the agent's container took too long.
	CallTimedOut CallOutcome = dataplane.CallTimedOut
	// CallInterrupted: the agent's pod ended before the result was known.
	CallInterrupted CallOutcome = "interrupted"
)

// Values lists the outcomes.
func (CallOutcome) Values() []string {
	return []string{
		string(CallRunning), string(CallAnswered), string(CallFailed), string(CallTimedOut), string(CallInterrupted),
	}
}

// CallResult is a call that has ended.
type CallResult struct {
	DueAt    time.Time
	CalledAt time.Time
	Outcome  CallOutcome
	// Status is that of the container's answer; 0 if there is none.
	Status int64
	// DurationMS is how long the call took; 0 if that is unknown.
	DurationMS int64
}

// Order is what a worker tells a front.
type Order struct {
	ID       string
	Front    string
	Schedule string
	Path     string
	Body     string
}

// FrontReport is what a front says about its calls.
type FrontReport struct {
	// Front is its name.
	Front string
	// Asked lists the ids of the calls that it was asked for.
	Asked []string
	// Calls has those that it knows, by their ids.
	Calls map[string]CallReport
}

// CallReport is what a front says about one call.
type CallReport struct {
	Outcome    CallOutcome
	Status     int64
	DurationMS int64
}

// maxFrontBytes bounds the name of a front.
const maxFrontBytes = 64

// Valid reports whether a front can have made the report: programs in the agent's pod may answer in its place.
func (r FrontReport) Valid() bool {
	for _, c := range r.Calls {
		switch c.Outcome {
		case CallAnswered:
			if c.Status < 100 || c.Status > 999 {
				return false
			}
		case CallRunning, CallFailed, CallTimedOut:
			if c.Status != 0 {
				return false
			}
		case CallInterrupted:
			return false
		default:
			return false
		}
		if c.DurationMS < 0 {
			return false
		}
	}
	return r.Front != "" && len(r.Front) <= maxFrontBytes
}

const (
	// CallGrace is how late a call may begin. A due time that is longer ago is missed.
	CallGrace = 30 * time.Minute
	// callGap is the shortest time between two calls of an agent, whatever schedule they are of.
	callGap = time.Minute
	// maxCounted bounds how many missed due times are counted one by one.
	maxCounted = 1000
)

// mayCall reports whether workers look at the agent's schedules: it runs, or they may wake it. They leave an agent with
// other work to the worker that does it.
func (a *Agent) mayCall() bool {
	return a.Converged() && (a.Status == Running || a.Asleep() && a.Sleep.WakesOn(ScheduleWakes))
}

// nextCalls is when a worker must look at the agent's schedules; zero if it need not. Each commit records it: see Edit.
func (a *Agent) nextCalls() time.Time {
	if !a.mayCall() {
		return time.Time{}
	}
	at := a.WakeAt
	for i := range a.Schedules {
		if look := a.Schedules[i].attendAt(); !look.IsZero() && (at.IsZero() || look.Before(at)) {
			at = look
		}
	}
	if !at.IsZero() && at.Before(a.CallsPausedUntil) {
		return a.CallsPausedUntil
	}
	return at
}

// attendAt is when a worker must look at the schedule.
func (s *Schedule) attendAt() time.Time {
	if s.Call.Open() {
		return s.Call.LookAt
	}
	return s.next(s.After)
}

// CallsDue reports whether a worker must look at the agent's schedules now.
func (a Agent) CallsDue(now time.Time) bool {
	at := a.nextCalls()
	return !at.IsZero() && !at.After(now)
}

// SetWakeAt sets when the agent is woken if it sleeps; a zero time never wakes it. Errors: Conflict while the agent is
// being deleted, and for a time at which its policy would let it sleep on.
func (a *Agent) SetWakeAt(at, now time.Time) error {
	switch {
	case a.Status == Deleting:
		return a.conflict("wake-at")
	case !at.IsZero() && !a.wakesOnTime():
		return fault.New(fault.Conflict, "wake_disabled", "No schedule or time wakes the agent. Add schedule to "+
			"sleep.wake_on to let them.").WithMeta(a.ConflictMeta())
	}
	if !a.WakeAt.Equal(at) {
		a.WakeAt, a.UpdatedAt = at, now
	}
	return nil
}

// maxWakeAhead is how far ahead the time of SetWakeAt may be.
const maxWakeAhead = 366 * day

// CheckWakeAt checks a time of SetWakeAt. Errors: Invalid.
func CheckWakeAt(at, now time.Time) error {
	if at.After(now.Add(maxWakeAhead)) {
		return fault.Validation(fault.ValueError([]any{"body", "at"}, "the time is more than 366 days ahead"))
	}
	return nil
}

// PrepareCalls counts the due times that were missed.
func (a *Agent) PrepareCalls(now time.Time) {
	if !a.mayCall() {
		return
	}
	for i := range a.Schedules {
		s := &a.Schedules[i]
		if a.Asleep() && s.Call.Open() {
			s.end(CallReport{Outcome: CallInterrupted})
		}
		if !s.Call.Open() {
			s.skipMissed(now)
		}
	}
	if !a.Asleep() {
		a.forgetWakeAt(now)
	}
}

// forgetWakeAt forgets a time that has passed.
func (a *Agent) forgetWakeAt(now time.Time) {
	if !a.WakeAt.After(now) {
		a.WakeAt = time.Time{}
	}
}

// WakesNow reports whether a worker must wake the agent: it sleeps, and a schedule is due, or the time that was set.
func (a Agent) WakesNow(now time.Time) bool {
	due := func(s Schedule) bool { return !s.dueAt(now).IsZero() }
	return a.Asleep() && a.CallsDue(now) &&
		(!a.WakeAt.IsZero() && !a.WakeAt.After(now) || slices.ContainsFunc(a.Schedules, due))
}

// skipMissed handles the due times that are too long ago, unless the schedule wants a call for them.
func (s *Schedule) skipMissed(now time.Time) {
	if s.Missed != RunMissedOnce {
		s.skipUntil(now.Add(-CallGrace))
	}
}

// skipUntil handles the due times before a time without a call.
func (s *Schedule) skipUntil(end time.Time) {
	times := s.recurrence()
	for range maxCounted {
		next := times.next(s.After)
		if next.IsZero() || !next.Before(end) {
			return
		}
		s.After = next
		s.Skipped++
	}
	s.After = end.Add(-time.Nanosecond) // it was not called for months
}

// dueAt is the latest due time that is not handled; zero if there is none.
func (s *Schedule) dueAt(now time.Time) (due time.Time) {
	times := s.recurrence()
	if next := times.next(s.After); next.IsZero() || next.After(now) {
		return time.Time{}
	}
	after := s.After
	for _, ago := range []time.Duration{time.Hour, day, 31 * day, 366 * day} {
		begin := now.Add(-ago)
		if next := times.next(begin); begin.After(after) && !next.IsZero() && !next.After(now) {
			after = begin
			break
		}
	}
	for next := times.next(after); !next.IsZero() && !next.After(now); next = times.next(next) {
		due = next
	}
	return due
}

// AsksFront reports whether a worker must ask the front of the running agent: for results, or to call.
func (a Agent) AsksFront(now time.Time) bool { return a.Status == Running && a.CallsDue(now) }

// OpenCalls lists the ids of the calls whose results are not known.
func (a Agent) OpenCalls() (ids []string) {
	for _, s := range a.Schedules {
		if s.Call.Open() {
			ids = append(ids, CallID(a.ID, s.ID, s.Call.DueAt))
		}
	}
	return ids
}

// RecordCalls records what the front reports, and begins one call that is due. It returns the calls that the front must
// make.
func (a *Agent) RecordCalls(r FrontReport, now time.Time) (orders []Order) {
	if a.Status != Running {
		return nil
	}
	for i := range a.Schedules {
		s := &a.Schedules[i]
		id := CallID(a.ID, s.ID, s.Call.DueAt)
		if !s.Call.Open() || !slices.Contains(r.Asked, id) {
			continue // another worker began it since the front was asked
		}
		report, known := r.Calls[id]
		switch {
		case s.Call.Front != r.Front:
			s.end(CallReport{Outcome: CallInterrupted})
		case !known:
			orders = append(orders, a.order(*s))
			s.Call.LookAt = nextCallLook(s.Call, now)
		case report.Outcome == CallRunning:
			s.Call.LookAt = nextCallLook(s.Call, now)
		default:
			s.end(report)
		}
	}
	if s := a.firstDue(now); s != nil && !a.CallsPausedUntil.After(now) {
		s.Call = Call{DueAt: s.dueAt(now), OrderedAt: now, Front: r.Front, LookAt: now.Add(callGap)}
		s.skipUntil(s.Call.DueAt)
		s.After = s.Call.DueAt
		a.CallsPausedUntil = now.Add(callGap)
		orders = append(orders, a.order(*s))
	}
	return orders
}

// firstDue returns the schedule that has been due for the longest time, or nil.
func (a *Agent) firstDue(now time.Time) (first *Schedule) {
	for i := range a.Schedules {
		s := &a.Schedules[i]
		if s.Call.Open() || s.dueAt(now).IsZero() {
			continue
		}
		if first == nil || s.next(s.After).Before(first.next(first.After)) {
			first = s
		}
	}
	return first
}

func (a Agent) order(s Schedule) Order {
	return Order{
		ID: CallID(a.ID, s.ID, s.Call.DueAt), Front: s.Call.Front, Schedule: s.ID, Path: s.Path, Body: s.Body,
	}
}

// nextCallLook is when a worker asks again for the result of a call: the longer it takes, the later.
func nextCallLook(c Call, now time.Time) time.Time {
	const most = 4 * time.Minute
	return now.Add(min(max(now.Sub(c.OrderedAt), callGap), most))
}

// end records the result of the call.
func (s *Schedule) end(r CallReport) {
	s.Last = CallResult{
		DueAt: s.Call.DueAt, CalledAt: s.Call.OrderedAt, Outcome: r.Outcome, Status: r.Status, DurationMS: r.DurationMS,
	}
	s.Call = Call{}
}

// DelayCalls records that the agent's front could not be asked. The longer that goes on, the later a worker asks again.
func (a *Agent) DelayCalls(now time.Time) {
	since := now
	for _, s := range a.Schedules {
		if at := s.attendAt(); !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	a.CallsPausedUntil = now.Add(min(max(now.Sub(since), minWait), maxWait))
}

// callsOpen reports whether the agent's front makes a call whose result is not known.
func (a *Agent) callsOpen() bool {
	return slices.ContainsFunc(a.Schedules, func(s Schedule) bool { return s.Call.Open() })
}
