package simulationtest

import (
	"context"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// FrontRules undo guards of the fronts of agents. The zero value has all guards.
type FrontRules struct {
	// NoMemory makes a call again if it is ordered again.
	NoMemory bool
	// OneName gives all processes the same name.
	OneName bool
}

// front is a process of an agent's front.
type front struct {
	name string
	// ends is when each call ends.
	ends map[string]time.Time
}

// newFront starts the front of a pod.
func (c *Cluster) newFront() *front {
	c.fronts++
	name := "front " + strconv.Itoa(c.fronts)
	if c.Fronts.OneName {
		name = "front"
	}
	return &front{name: name, ends: map[string]time.Time{}}
}

// Front is one process's way to the fronts of agents. It implements provisioning.CallingFront.
type Front struct {
	Prober
}

var _ provisioning.CallingFront = Front{}

// reach returns the front of an agent that accepts the key.
func (f Front) reach(a agent.Agent, c credential.Credentials) (*front, error) {
	values := f.serving(a)
	if values == nil || values[keyVariable] != c.APIKey {
		return nil, unhealthy()
	}
	return f.in(a).namespaces[a.ID].pod.process, nil
}

// Calls implements provisioning.CallingFront.
func (f Front) Calls(ctx context.Context, a agent.Agent, c credential.Credentials, ids []string) (
	r agent.FrontReport, err error,
) {
	err = f.Process.Look(ctx, ProberService, "ask about calls", func() error {
		found, err := f.reach(a, c)
		if err != nil {
			return err
		}
		r = agent.FrontReport{Front: found.name, Calls: map[string]agent.CallReport{}}
		for _, id := range ids {
			ends, known := found.ends[id]
			switch {
			case !known:
			case ends.After(f.Cluster.now()):
				r.Calls[id] = agent.CallReport{Outcome: agent.CallRunning}
			default:
				r.Calls[id] = agent.CallReport{Outcome: agent.CallAnswered, Status: 200, DurationMS: 1}
			}
		}
		return nil
	})
	return r, f.answer(a, err)
}

// Order implements provisioning.CallingFront.
func (f Front) Order(ctx context.Context, a agent.Agent, c credential.Credentials, o agent.Order) error {
	return f.answer(a, f.Process.Step(ctx, ProberService, "order a call", func() error {
		found, err := f.reach(a, c)
		if err != nil {
			return err
		}
		if found.name != o.Front {
			return fault.New(fault.Unavailable, "gateway_unhealthy", "The order is for another front.")
		}
		if _, known := found.ends[o.ID]; known && !f.Cluster.Fronts.NoMemory {
			return nil
		}
		found.ends[o.ID] = f.Cluster.now().Add(durationOf(o.ID))
		f.Cluster.executed[o.ID]++
		f.Cluster.notify()
		return nil
	}))
}

// durationOf is how long the container takes for a call.
func durationOf(id string) time.Duration {
	durations := [...]time.Duration{0, 0, 20 * time.Second, 2 * time.Minute}
	return durations[id[0]%byte(len(durations))]
}

// scheduled is what the oracle knows of calls.
type scheduled struct {
	// claimed counts how often the record took a due time, and results are what it says of it.
	claimed map[string]int
	results map[string]agent.CallOutcome
	// begun is when the schedules began.
	begun time.Time
	// lastDown is when the agent last was in a state in which it cannot be called.
	lastDown time.Time
	// woken: the agent slept at the beginning.
	slept bool
}

const (
	// calledHours are the hours of the schedules, so that each schedule comes to rest.
	calledHours = "1-5 1 1 *"
	callsEnd    = 6 * time.Hour
)

// arrangeSchedules chooses a setup with schedules.
func arrangeSchedules(s *Scheduler, u *Setup) {
	pick := func(most int) int { return s.Choose(most + 1) }
	*u = Setup{
		Start: agent.Running, Schedules: true, Asleep: s.Choose(3) == 0, Workers: 2 + pick(1),
		Steps:  200 + s.Choose(200),
		Faults: pick(4), FaultRate: 0.1, Stalls: pick(3), Duplicates: pick(4), Restarts: pick(3), Ticks: 10 + pick(10),
		Skew: []time.Duration{0, maxSkew}[s.Choose(2)],
	}
	if u.Asleep {
		u.Start = agent.Paused
	}
	if s.Choose(2) == 0 {
		service := ProberService
		u.FaultService, u.FaultRate = &service, 0.3
	}
	if s.Choose(3) == 0 {
		var script []string
		for range 1 + s.Choose(3) {
			all := []string{"stop", "start", "pause", "resume", "restart", "patch", "rotate"}
			script = append(script, all[s.Choose(len(all))])
		}
		u.Scripts = [][]string{script}
	}
	if s.Choose(6) == 0 {
		u.Outage = []Service{DatabaseService, ClusterService, ProberService}[s.Choose(3)]
		u.OutageTime = []time.Duration{2 * time.Minute, 50 * time.Minute}[s.Choose(2)]
	}
}

// addSchedules gives the agent its schedules.
func (w *World) addSchedules() {
	w.Cluster.Fronts = w.Plant.Fronts
	w.called = scheduled{
		claimed: map[string]int{}, results: map[string]agent.CallOutcome{}, begun: w.Now(), lastDown: w.Now(),
		slept: w.setup.Asleep,
	}
	id := agentID(1)
	after, _, err := w.Database.agents[id].agent.Edit(func(a *agent.Agent) error {
		if w.setup.Asleep {
			a.StatusReason = agent.ReasonIdle
			a.Sleep = agent.SleepPolicy{AfterSeconds: agent.MinSleepSeconds, WakeOn: []agent.Waker{agent.ScheduleWakes}}
		}
		specs := []agent.ScheduleSpec{
			{ID: "often", Cron: "*/5 " + calledHours, Path: "/often"},
			{ID: "rarely", Cron: "*/30 " + calledHours, Path: "/rarely", Missed: agent.RunMissedOnce},
		}
		return a.Apply(agent.Patch{Schedules: &specs}, w.Now())
	}, nil)
	if err != nil {
		panic(err) //nolint:forbidigo // the world reports it
	}
	w.Database.Arrange(id, func(a *agent.Agent) { *a = after })
	w.Database.Updated = w.checkUpdate
}

// checkUpdate checks what a worker's commit says of schedules.
func (w *World) checkUpdate(before, after agent.Agent) {
	for i, s := range after.Schedules {
		if i >= len(before.Schedules) {
			continue
		}
		former := before.Schedules[i]
		if s.Call.Open() && !s.Call.DueAt.Equal(former.Call.DueAt) {
			id := agent.CallID(after.ID, s.ID, s.Call.DueAt)
			if w.called.claimed[id]++; w.called.claimed[id] > 1 {
				w.violate("calls", "the due time %v of schedule %s was taken twice", s.Call.DueAt, s.ID)
			}
			if late := w.Now().Sub(s.Call.DueAt); s.Missed == agent.SkipMissed && late > agent.CallGrace+time.Minute {
				w.violate("calls", "schedule %s skips what it missed, and was called %v late", s.ID, late)
			}
		}
		if s.Last.Outcome != "" && !s.Last.DueAt.Equal(former.Last.DueAt) {
			w.called.results[agent.CallID(after.ID, s.ID, s.Last.DueAt)] = s.Last.Outcome
		}
	}
	if due := after.CallsDueAt; after.Status == agent.Running && after.Converged() && due.IsZero() &&
		len(after.Schedules) > 0 {
		w.violate("calls", "agent %s runs, has schedules, and no worker will look at them", short(after.ID))
	}
}

// noteDown notes when the agent could not be called.
func (w *World) noteDown() {
	if !w.setup.Schedules {
		return
	}
	if d := w.Database.agents[agentID(1)]; d != nil && (!d.agent.Converged() || d.agent.Status != agent.Running) {
		w.called.lastDown = w.Now()
	}
}

// checkCalls checks that no due time was called twice.
func (w *World) checkCalls() {
	for id, n := range w.Cluster.executed {
		switch {
		case n > 1:
			w.violate("calls", "the call %s was made %d times", id, n)
		case w.called.claimed[id] == 0:
			w.violate("calls", "the call %s was made without a record", id)
		}
	}
}

// callsDue is when a worker must look at the schedules or snapshots of an agent; zero for none soon: schedules are for
// one day, and daily snapshots never end.
func (w *World) callsDue(a *agent.Agent) time.Time {
	ahead := soon
	if w.setup.Schedules {
		ahead = callsEnd
	}
	if a.CallsDueAt.Sub(w.Now()) > ahead {
		return time.Time{}
	}
	return a.CallsDueAt
}

// checkCallsAtRest checks that each due time was called, or is recorded as interrupted or skipped.
func (w *World) checkCallsAtRest() {
	a, ok := w.Database.Agent(agentID(1))
	if !ok {
		return
	}
	if a.Status != agent.Running {
		if w.called.slept && a.Asleep() {
			w.violate("calls", "agent %s sleeps, and its schedules were due", short(a.ID))
		}
		return
	}
	for _, s := range a.Schedules {
		w.checkSchedule(a, s)
	}
}

func (w *World) checkSchedule(a agent.Agent, s agent.Schedule) {
	var skipped int64
	step := map[string]time.Duration{"often": 5 * time.Minute, "rarely": 30 * time.Minute}[s.ID]
	for due := epoch.Add(time.Hour); due.Before(epoch.Add(callsEnd)); due = due.Add(step) {
		if !due.After(w.called.begun.Add(5 * time.Second)) {
			continue
		}
		id := agent.CallID(a.ID, s.ID, due)
		result, executed := w.called.results[id], w.Cluster.executed[id]
		switch {
		case w.called.claimed[id] == 0:
			skipped++
			calm := epoch.Add(w.quietSince)
			if w.called.lastDown.After(calm) {
				calm = w.called.lastDown
			}
			if s.ID == "rarely" && due.After(calm.Add(time.Hour)) {
				w.violate("calls", "agent %s has run since %v, and was not called at %v", short(a.ID), calm, due)
			}
		case result == "":
			w.violate("calls", "the record does not say how the call of %s at %v ended", s.ID, due)
		case result == agent.CallAnswered && executed != 1:
			w.violate("calls", "the record has the answer of %s at %v, and there were %d calls", s.ID, due, executed)
		}
	}
	if s.Skipped != skipped {
		w.violate("calls", "%d due times of %s were skipped, and the record says %d", skipped, s.ID, s.Skipped)
	}
}
