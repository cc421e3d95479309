package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Bounds of SleepPolicy.AfterSeconds, other than 0.
const (
	MinSleepSeconds = 300
	MaxSleepSeconds = 7 * 24 * 60 * 60
)

// maxDoor bounds the name of a front's door.
const maxDoor = 64

// SleepPolicy says when an agent falls asleep and what wakes it. An agent with the zero value never sleeps.
type SleepPolicy struct {
	// AfterSeconds is how long the agent must be idle to fall asleep; 0 is never.
	AfterSeconds int64
	// WakeOn is sorted.
	WakeOn []Waker
}

// Waker is something that wakes an agent if its policy lets it.
type Waker string

// What wakes agents.
const (
	RequestWakes  Waker = "request"
	ScheduleWakes Waker = "schedule"
)

// Values lists the wakers.
func (Waker) Values() []string { return []string{string(RequestWakes), string(ScheduleWakes)} }

// WakeCause is why an agent was woken.
type WakeCause string

// The causes.
const (
	WokenByRequest  WakeCause = "request"
	WokenBySchedule WakeCause = "schedule"
	// WokenByResume: a client resumed the agent.
	WokenByResume WakeCause = "resume"
	// WokenByUse: the agent was in use again before its pod was gone.
	WokenByUse WakeCause = "use"
)

// Values lists the causes.
func (WakeCause) Values() []string {
	return []string{string(WokenByRequest), string(WokenBySchedule), string(WokenByResume), string(WokenByUse)}
}

// DefaultSleep is the policy of an agent of a plan whose client asks for none.
func DefaultSleep(p plan.Plan) SleepPolicy { return SleepAfter(p.SleepAfterSeconds) }

// SleepAfter is the policy of an agent that everything wakes; after 0 seconds, it never sleeps.
func SleepAfter(seconds int64) SleepPolicy {
	if seconds == 0 {
		return SleepPolicy{}
	}
	return SleepPolicy{AfterSeconds: seconds, WakeOn: []Waker{RequestWakes, ScheduleWakes}}
}

// Equal reports whether two policies are the same.
func (p SleepPolicy) Equal(q SleepPolicy) bool {
	return p.AfterSeconds == q.AfterSeconds && slices.Equal(p.WakeOn, q.WakeOn)
}

// WakesOn reports whether something wakes agents with the policy.
func (p SleepPolicy) WakesOn(w Waker) bool { return slices.Contains(p.WakeOn, w) }

// wakesOnTime reports whether a schedule or a time wakes the agent if it sleeps. One that never sleeps needs no waker.
func (a Agent) wakesOnTime() bool {
	return a.Sleep.AfterSeconds == 0 && !a.Asleep() || a.Sleep.WakesOn(ScheduleWakes)
}

// setSleep changes the policy. A time that no longer wakes the agent is forgotten: it would be shown, and would wake
// the agent late once its policy lets it.
func (a *Agent) setSleep(change func(former SleepPolicy) SleepPolicy) {
	if change != nil {
		a.Sleep = change(a.Sleep)
	}
	if !a.wakesOnTime() {
		a.WakeAt = time.Time{}
	}
}

// SleepView is a policy of sleep that clients receive.
type SleepView struct {
	AfterSeconds *int64  `json:"after_seconds" jsonschema:"How many seconds without a request, an open connection and work that its program tells of the agent stays awake; null if it never sleeps."`
	WakeOn       []Waker `json:"wake_on" jsonschema:"What wakes the agent, in addition to calls that resume it."`
}

func (a Agent) showSleep() SleepView {
	return SleepView{AfterSeconds: optional(a.Sleep.AfterSeconds), WakeOn: append([]Waker{}, a.Sleep.WakeOn...)}
}

// Asleep reports whether the agent sleeps: it was paused because it was idle.
func (a Agent) Asleep() bool { return a.Status == Paused && a.StatusReason == ReasonIdle }

// StartsOnRequest reports whether a request starts the agent if it has no pod.
func (a Agent) StartsOnRequest() bool {
	return a.Sleep.AfterSeconds > 0 && a.Sleep.WakesOn(RequestWakes) && (a.WantsPod() || a.Asleep())
}

// FallAsleep puts an agent to sleep whose front has found it idle and has closed its door, or whose client asks for it,
// without a door. Errors: Conflict if the agent does not run, never sleeps, has work, or is awake again: then the front
// opens the door.
//
// A front repeats the call while its door is closed. An agent that was woken, and whose pod a late worker of the
// former generation may still take away, is not awake yet.
func (a *Agent) FallAsleep(door string, now time.Time) error {
	switch {
	case len(door) > maxDoor:
		return fault.New(fault.BadRequest, "door_too_long", "The name of a door has at most %d characters.", maxDoor)
	case a.Asleep() && door == "", door != "" && a.Door == door && (!a.WantsPod() || a.BeingProvisioned()):
		return nil
	case a.Status != Running && !a.BeingProvisioned() && !a.Asleep():
		return a.conflict("sleep")
	case a.Sleep.AfterSeconds == 0:
		return fault.New(fault.Conflict, "sleep_disabled", "The agent never sleeps. Set sleep.after_seconds to let it "+
			"sleep, or pause it.").WithMeta(a.ConflictMeta())
	case a.Status != Running || !a.Converged() || a.OperationsDue() || a.replacesPod() || a.callsOpen(),
		door != "" && (a.Door == door || now.Before(a.AwakeUntil)):
		return fault.New(fault.Conflict, "agent_in_use", "The agent has work to do and stays awake.").
			WithMeta(a.ConflictMeta())
	}
	if err := a.Act(Pause, ReasonIdle, now); err != nil {
		return err
	}
	a.Door = door
	return nil
}

// Wake starts an agent that sleeps, if its policy lets the cause wake it. It does nothing for other agents: wakes are
// repeated and come late.
func (a *Agent) Wake(cause WakeCause, now time.Time) {
	if !a.Asleep() ||
		cause == WokenByRequest && !a.Sleep.WakesOn(RequestWakes) ||
		cause == WokenBySchedule && !a.Sleep.WakesOn(ScheduleWakes) {
		return
	}
	a.startProvisioning(now)
	a.WokenBy = cause
	a.forgetWakeAt(now)
}

// StayAwake keeps the agent from falling asleep until a time. Calls that run commands in its container are not seen by
// its front.
func (a *Agent) StayAwake(until time.Time) {
	if a.Sleep.AfterSeconds > 0 && a.Status == Running && until.After(a.AwakeUntil) {
		a.AwakeUntil = until
	}
}
