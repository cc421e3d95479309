package agent_test

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// sleeper returns an agent that runs, and that everything wakes once it sleeps.
func sleeper() agent.Agent {
	a := in(agent.Running)
	a.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes, agent.ScheduleWakes}}
	return a
}

// asleep returns an agent that sleeps.
func asleep(t *testing.T) agent.Agent {
	t.Helper()
	a := sleeper()
	if err := a.FallAsleep("door 1", at(1)); err != nil || !a.Asleep() {
		t.Fatalf("the agent is %s (%s): %v", a.Status, a.StatusReason, err)
	}
	a.MarkObserved(at(2))
	return a
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWake is the table of what wakes an agent and what does not.
func TestWake(t *testing.T) {
	t.Parallel()
	sleeps := func(*testing.T, *agent.Agent) {}
	for name, row := range map[string]struct {
		prepare func(*testing.T, *agent.Agent)
		cause   agent.WakeCause
		wakes   bool
	}{
		"request":  {prepare: sleeps, cause: agent.WokenByRequest, wakes: true},
		"schedule": {prepare: sleeps, cause: agent.WokenBySchedule, wakes: true},
		"use":      {prepare: sleeps, cause: agent.WokenByUse, wakes: true},
		"a request, and only schedules wake it": {
			prepare: func(_ *testing.T, a *agent.Agent) { a.Sleep.WakeOn = []agent.Waker{agent.ScheduleWakes} },
			cause:   agent.WokenByRequest,
		},
		"a schedule, and only requests wake it": {
			prepare: func(_ *testing.T, a *agent.Agent) { a.Sleep.WakeOn = []agent.Waker{agent.RequestWakes} },
			cause:   agent.WokenBySchedule,
		},
		"paused by its owner while it slept": {
			prepare: func(t *testing.T, a *agent.Agent) { t.Helper(); do(t, a.Act(agent.Pause, agent.Manual, at(3))) },
			cause:   agent.WokenByRequest,
		},
		"withheld by billing while it slept": {
			prepare: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				do(t, a.Act(agent.Withhold, agent.Billing, at(3)))
			},
			cause: agent.WokenByRequest,
		},
		"stopped while it slept": {
			prepare: func(t *testing.T, a *agent.Agent) { t.Helper(); do(t, a.Act(agent.Stop, agent.Manual, at(3))) },
			cause:   agent.WokenByRequest,
		},
		"deleted while it slept": {
			prepare: func(t *testing.T, a *agent.Agent) { t.Helper(); do(t, a.Act(agent.Delete, "", at(3))) },
			cause:   agent.WokenByRequest,
		},
		"paused by its owner": {
			prepare: func(t *testing.T, a *agent.Agent) {
				t.Helper()
				*a = sleeper()
				do(t, a.Act(agent.Pause, agent.Manual, at(3)))
			},
			cause: agent.WokenByRequest,
		},
		"runs": {prepare: func(_ *testing.T, a *agent.Agent) { *a = sleeper() }, cause: agent.WokenByRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := asleep(t)
			row.prepare(t, &a)
			before := a.Clone()
			a.Wake(row.cause, at(4))
			switch {
			case row.wakes && (a.Status != agent.Provisioning || a.WokenBy != row.cause || a.StatusReason != ""):
				t.Errorf("the agent is %s (%s), woken by %q", a.Status, a.StatusReason, a.WokenBy)
			case !row.wakes && !a.Equal(before):
				t.Errorf("the agent was %s (%s) and is %s", before.Status, before.StatusReason, a.Status)
			}
		})
	}
}

func TestFallAsleep(t *testing.T) {
	t.Parallel()
	awake := func(a agent.Agent) agent.Agent {
		a.Wake(agent.WokenByRequest, at(3))
		return a
	}
	ready := func(a agent.Agent) agent.Agent {
		a.BecameReady(at(4))
		return a
	}
	busy := func(change func(*agent.Agent)) agent.Agent {
		a := sleeper()
		change(&a)
		return a
	}
	slept := asleep(t)
	for name, row := range map[string]struct {
		agent agent.Agent
		door  string
		code  string // of the refusal
	}{
		"idle":                       {agent: sleeper(), door: "door 1"},
		"at a client's wish":         {agent: sleeper()},
		"at a client's wish, in use": {agent: busy(func(a *agent.Agent) { a.StayAwake(at(60)) })},
		"repeated":                   {agent: slept, door: "door 1"},
		"woken, and not applied":     {agent: awake(slept), door: "door 1"},
		"woken, and ready":           {agent: ready(awake(slept)), door: "door 1", code: "agent_in_use"},
		"idle again":                 {agent: ready(awake(slept)), door: "door 2"},
		"asleep behind another door": {agent: slept, door: "door 2", code: "agent_in_use"},
		"never sleeps":               {agent: in(agent.Running), door: "door 1", code: "sleep_disabled"},
		"is being provisioned":       {agent: awake(slept), door: "door 2", code: "agent_in_use"},
		"has work": {
			agent: busy(func(a *agent.Agent) { a.Generation++ }), door: "d", code: "agent_in_use",
		},
		"runs a command": {
			agent: busy(func(a *agent.Agent) { a.StayAwake(at(60)) }), door: "d", code: "agent_in_use",
		},
		"ran a command": {agent: busy(func(a *agent.Agent) { a.StayAwake(at(1)) }), door: "d"},
		"stopped":       {agent: in(agent.Stopped), door: "d", code: "agent_state_conflict"},
		"paused by its owner": {
			agent: busy(func(a *agent.Agent) { a.Status = agent.Paused }), code: "agent_state_conflict",
		},
		"in error":      {agent: busy(func(a *agent.Agent) { a.Status = agent.Error }), code: "agent_state_conflict"},
		"being deleted": {agent: busy(func(a *agent.Agent) { a.Status = agent.Deleting }), code: "agent_deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := row.agent.Clone()
			err := a.FallAsleep(row.door, at(5))
			if got := fault.Code(err); got != row.code && (err != nil || row.code != "") {
				t.Errorf("refused with %q, want %q", got, row.code)
			}
			if err != nil && !a.Equal(row.agent) {
				t.Error("a refusal changed the agent")
			}
		})
	}
}

func TestAct_OnAnAgentThatSleeps(t *testing.T) {
	t.Parallel()
	a := asleep(t)
	want := []agent.Trigger{agent.Pause, agent.Resume, agent.Stop, agent.Delete}
	if got := a.AllowedActions(); len(got) != len(want) {
		t.Errorf("allowed actions = %v, want %v", got, want)
	}
	do(t, a.Act(agent.Resume, agent.Manual, at(3)))
	equal(t, "status", a.Status, agent.Provisioning)
	equal(t, "woken by", a.WokenBy, agent.WokenByResume)
}

// TestApply_NeverSleepsAgain: an agent that shall never sleep is not left asleep.
func TestApply_NeverSleepsAgain(t *testing.T) {
	t.Parallel()
	a := asleep(t)
	never := func(agent.SleepPolicy) agent.SleepPolicy { return agent.SleepPolicy{} }
	do(t, a.Apply(agent.Patch{Sleep: never}, at(3)))
	equal(t, "status", a.Status, agent.Provisioning)
}

// TestApply_APlanBringsItsPolicyOfSleep: who buys a larger plan expects that the agent stays awake. A policy that a
// client asked for stays.
func TestApply_APlanBringsItsPolicyOfSleep(t *testing.T) {
	t.Parallel()
	asked := agent.SleepPolicy{AfterSeconds: 600, WakeOn: []agent.Waker{agent.RequestWakes}}
	for name, row := range map[string]struct {
		draft *agent.SleepPolicy
		want  agent.SleepPolicy
	}{
		"the default":           {want: agent.SleepPolicy{}},
		"what a client wants":   {draft: &asked, want: asked},
		"what a client refuses": {draft: &agent.SleepPolicy{}, want: agent.SleepPolicy{}},
	} {
		a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1",
			agent.Draft{Name: "a", Plan: "hobby", Sleep: row.draft}, at(0))
		if (a.Sleep.AfterSeconds == 1800) != (row.draft == nil) {
			t.Errorf("%s: a new agent sleeps after %d s", name, a.Sleep.AfterSeconds)
		}
		larger := plan.Starter
		do(t, a.Apply(agent.Patch{Plan: &larger}, at(1)))
		if !a.Sleep.Equal(row.want) {
			t.Errorf("%s: on the larger plan it is %+v, want %+v", name, a.Sleep, row.want)
		}
	}
}

func TestChanges_NameThePolicyOfSleep(t *testing.T) {
	t.Parallel()
	before, after := sleeper(), sleeper()
	after.Sleep = agent.SleepPolicy{AfterSeconds: 600, WakeOn: []agent.Waker{agent.RequestWakes}}
	for name, row := range map[string]struct {
		before, after agent.Agent
		want          []audit.Change
	}{
		"another policy": {before: before, after: after, want: []audit.Change{
			{Field: "sleep.after_seconds", Old: "300", New: "600"},
			{Field: "sleep.wake_on", Old: "request schedule", New: "request"},
		}},
		"none": {before: after, after: in(agent.Running), want: []audit.Change{
			{Field: "sleep.after_seconds", Old: "600"}, {Field: "sleep.wake_on", Old: "request"},
		}},
	} {
		if got := agent.Changes(row.before, row.after); !slices.Equal(got, row.want) {
			t.Errorf("%s: changes = %v, want %v", name, got, row.want)
		}
	}
}

func TestStayAwake_OnlyGrows(t *testing.T) {
	t.Parallel()
	a := sleeper()
	a.StayAwake(at(10))
	a.StayAwake(at(5))
	equal(t, "awake until", a.AwakeUntil, at(10))
	never := in(agent.Running)
	never.StayAwake(at(10))
	equal(t, "awake until", never.AwakeUntil, time.Time{})
}
