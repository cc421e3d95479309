package agent_test

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

func at(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }

// equal reports a value that differs from the wanted one.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// in makes a converged agent in a status.
func in(status agent.Status) agent.Agent {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	a.MarkObserved(at(0))
	a.Status = status
	return a
}

// wantTransitions is the interface's table of every status and action: the next status, "same" for a success that
// changes nothing, or "" for a conflict.
func wantTransitions() map[agent.Status]map[agent.Trigger]agent.Status {
	const same = "same"
	return map[agent.Status]map[agent.Trigger]agent.Status{
		agent.Pending:      {"resume": same, "start": same, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Provisioning: {"resume": same, "start": same, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Running: {
			"restart": agent.Running, "pause": agent.Paused, "resume": same, "start": same, "stop": agent.Stopped,
			"delete": agent.Deleting,
		},
		agent.Paused:  {"pause": same, "resume": agent.Provisioning, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Stopped: {"stop": same, "start": agent.Provisioning, "delete": agent.Deleting},
		agent.Error: {
			"restart": agent.Provisioning, "start": agent.Provisioning, "stop": agent.Stopped, "delete": agent.Deleting,
		},
		agent.Deleting: {"delete": same},
	}
}

func TestAct_FollowsTheTableOfTheInterface(t *testing.T) {
	t.Parallel()
	actions := []agent.Trigger{agent.Restart, agent.Pause, agent.Resume, agent.Stop, agent.Start, agent.Delete}
	for _, s := range agent.Status("").Values() {
		from := agent.Status(s)
		for _, action := range actions {
			a := in(from)
			before := a.Generation
			err := a.Act(action, agent.Manual, at(1))
			switch want := wantTransitions()[from][action]; want {
			case "":
				code := "agent_state_conflict"
				if from == agent.Deleting {
					code = "agent_deleting"
				}
				if fault.Code(err) != code {
					t.Errorf("%s on %s: error %v, want code %s", action, from, err, code)
				}
				if a.Status != from || a.Generation != before {
					t.Errorf("%s on %s: refused, but the agent is %s of generation %d, want %s of %d",
						action, from, a.Status, a.Generation, from, before)
				}
			case "same":
				if err != nil || a.Status != from || a.Generation != before {
					t.Errorf("%s on %s: %s of generation %d, error %v; want no change", action, from, a.Status,
						a.Generation, err)
				}
			default:
				if err != nil || a.Status != want {
					t.Errorf("%s on %s: status %s, error %v, want status %s", action, from, a.Status, err, want)
				}
				if a.Generation != before+1 || a.Converged() || a.WorkDueAt.IsZero() {
					t.Errorf("%s on %s: generation %d after %d, work due at %v; want the next generation, and work due",
						action, from, a.Generation, before, a.WorkDueAt)
				}
			}
		}
	}
}

// After a roll-back, an agent may have a status that only the later release knows. Its pod costs money and may do harm.
func TestAct_StopsAndDeletesInAStatusOfALaterRelease(t *testing.T) {
	t.Parallel()
	for action, want := range map[agent.Trigger]agent.Status{
		agent.Stop: agent.Stopped, agent.Delete: agent.Deleting, agent.Restart: "", agent.Pause: "",
		agent.Resume: "", agent.Start: "", agent.Withhold: "",
	} {
		a := in("migrating")
		allowed := a.AllowedActions()
		if got := slices.Contains(allowed, action); got != (want != "") {
			t.Errorf("allowed actions %v contain %s: %t", allowed, action, got)
		}
		err := a.Act(action, agent.Manual, at(1))
		switch {
		case want == "" && (fault.Code(err) != "agent_state_conflict" || a.Status != "migrating"):
			t.Errorf("%s: status %s, error %v, want a conflict", action, a.Status, err)
		case want != "" && (err != nil || a.Status != want || a.WorkDueAt.IsZero()):
			t.Errorf("%s: status %s, work due at %v, error %v; want status %s, and work due", action, a.Status,
				a.WorkDueAt, err, want)
		}
	}
}

func TestAllowedActions_ListsTheActionsThatChangeTheAgent(t *testing.T) {
	t.Parallel()
	for s, byAction := range wantTransitions() {
		allowed := in(s).AllowedActions()
		for action, to := range byAction {
			if got, want := slices.Contains(allowed, action), to != "same"; got != want {
				t.Errorf("%s: allowed actions %v contain %s: %t, want %t", s, allowed, action, got, want)
			}
		}
		if len(allowed) > len(byAction) {
			t.Errorf("%s: allowed actions %v, want only those of %v", s, allowed, byAction)
		}
	}
}

func becomeReady(a *agent.Agent) { a.BecameReady(at(2)) }

func crash() agent.Failure {
	return agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady, Message: "it crashes"}
}

func retry(a *agent.Agent) { a.Retry(crash(), at(2)) }

func giveUp(a *agent.Agent) { a.GiveUp(crash(), at(2)) }

func TestWorkerTriggers_LeadToTheirStatus(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		from          agent.Status
		observe       func(*agent.Agent)
		wantStatus    agent.Status
		wantConverged bool
	}{
		"ready": {from: agent.Provisioning, observe: becomeReady, wantStatus: agent.Running, wantConverged: true},
		"ready from pending": {
			from: agent.Pending, observe: becomeReady, wantStatus: agent.Running, wantConverged: true,
		},
		"ready after a restart": {
			from: agent.Running, observe: becomeReady, wantStatus: agent.Running, wantConverged: true,
		},
		"recovered": {
			from: agent.Error, observe: becomeReady, wantStatus: agent.Running, wantConverged: true,
		},
		"transient failure":               {from: agent.Provisioning, observe: retry, wantStatus: agent.Pending},
		"transient failure while running": {from: agent.Running, observe: retry, wantStatus: agent.Running},
		"redelivered": {
			from: agent.Pending, observe: (*agent.Agent).Redelivered, wantStatus: agent.Provisioning,
		},
		"given up": {
			from: agent.Provisioning, observe: giveUp, wantStatus: agent.Error, wantConverged: true,
		},
		"given up while pending": {
			from: agent.Pending, observe: giveUp, wantStatus: agent.Error, wantConverged: true,
		},
		"failure while running": {
			from: agent.Running, observe: giveUp, wantStatus: agent.Error, wantConverged: true,
		},
		"ready after a pause": {
			from: agent.Paused, observe: becomeReady, wantStatus: agent.Paused, wantConverged: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(c.from)
			a.Generation++
			c.observe(&a)
			equal(t, "Status", a.Status, c.wantStatus)
			equal(t, "Converged", a.Converged(), c.wantConverged)
		})
	}
}

func TestWorkerTriggers_ChangeNothingOnceTheWorkIsDone(t *testing.T) {
	t.Parallel()
	for name, observe := range map[string]func(*agent.Agent){
		"transient failure": retry,
		"given up":          giveUp,
		"lease":             func(a *agent.Agent) { a.AcquireLease("h", at(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(agent.Running)
			want := in(agent.Running)
			observe(&a)
			if !reflect.DeepEqual(a, want) {
				t.Errorf("agent = %+v, want no change of %+v", a, want)
			}
		})
	}
}

func TestBecameReady_EndsEveryStage(t *testing.T) {
	t.Parallel()
	a := in(agent.Provisioning)
	a.Generation++
	a.EndStage(agent.StageNamespace, agent.StageSucceeded, at(1))
	a.EndStage(agent.StageSecrets, agent.StageSkipped, at(1))
	a.BeginStage(agent.StageStorage, at(1))
	a.Retry(agent.Failure{Code: "timeout", Stage: agent.StageReady, Message: "m"}, at(1))
	later := agent.Stage{Name: "of_a_later_release", Status: agent.StagePending}
	a.Stages = append(a.Stages, later)
	a.BecameReady(at(2))
	for _, s := range a.Stages {
		want := agent.StageSucceeded
		switch s.Name {
		case agent.StageSecrets:
			want = agent.StageSkipped
		case later.Name:
			want = agent.StagePending // this release knows nothing about it
		}
		equal(t, string("stage "+s.Name), s.Status, want)
		equal(t, string("error of stage "+s.Name), s.ErrorCode, "")
	}
	equal(t, "unfinished stages", len(a.Unfinished()), 0)
	equal(t, "Routed", a.Routed, true)
}

func TestFailRun_EndsTheWorkOnlyForTheAgentsOwnFailure(t *testing.T) {
	t.Parallel()
	const tooLate = "The agent did not become ready in time. Start it again. Last problem: m"
	expired := func(a *agent.Agent) { a.Deadline = at(2) }
	hasTime := func(a *agent.Agent) { a.Deadline = at(3) }
	manyAttempts := func(a *agent.Agent) { a.Attempts = agent.MaxAttempts }
	for name, c := range map[string]struct {
		from        agent.Status
		given       func(*agent.Agent)
		outage      bool
		permanent   bool
		wantEnd     bool
		wantStatus  agent.Status
		wantMessage string // "m" if empty
	}{
		"first failure": {from: agent.Provisioning, wantStatus: agent.Pending},
		"permanent": {
			from: agent.Provisioning, permanent: true, wantEnd: true, wantStatus: agent.Error,
		},
		"permanent of a running agent": {from: agent.Running, permanent: true, wantEnd: true, wantStatus: agent.Error},
		"permanent of a deletion":      {from: agent.Deleting, permanent: true, wantStatus: agent.Deleting},
		"permanent of a stopped agent": {from: agent.Stopped, permanent: true, wantStatus: agent.Stopped},
		"before the deadline":          {from: agent.Running, given: hasTime, wantStatus: agent.Running},
		"at the deadline": {
			from: agent.Running, given: expired, wantEnd: true, wantStatus: agent.Error, wantMessage: tooLate,
		},
		"at the deadline, new agent": {
			from: agent.Provisioning, given: expired, wantEnd: true, wantStatus: agent.Error, wantMessage: tooLate,
		},
		"at the deadline, outage": {from: agent.Running, given: expired, outage: true, wantStatus: agent.Running},
		"last attempt": {
			from: agent.Provisioning, given: manyAttempts, wantEnd: true, wantStatus: agent.Error,
			wantMessage: "All attempts to bring up the agent failed. Last problem: m",
		},
		"last attempt, outage": {
			from: agent.Provisioning, given: manyAttempts, outage: true, wantStatus: agent.Pending,
		},
		"last attempt of a deletion": {from: agent.Deleting, given: manyAttempts, wantStatus: agent.Deleting},
		"many attempts, pod has time": {
			from: agent.Provisioning, given: func(a *agent.Agent) { manyAttempts(a); hasTime(a) },
			wantStatus: agent.Pending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(c.from)
			a.Generation++
			if c.given != nil {
				c.given(&a)
			}
			f := agent.Failure{Code: "c", Stage: agent.StageReady, Message: "m", Retryable: true, Outage: c.outage}
			equal(t, "FailRun", a.FailRun(f, c.permanent, at(2)), c.wantEnd)
			equal(t, "Status", a.Status, c.wantStatus)
			equal(t, "Converged", a.Converged(), c.wantEnd)
			equal(t, "work is due", !a.WorkDueAt.IsZero(), !c.wantEnd)
			f.Message = cmp.Or(c.wantMessage, "m")
			equal(t, "Failure", *a.Failure, f)
		})
	}
}

func TestMarkObserved_EndsTheFailureOfAStop(t *testing.T) {
	t.Parallel()
	for _, trigger := range []agent.Trigger{agent.Stop, agent.Pause} {
		a := in(agent.Running)
		if err := a.Act(trigger, agent.Manual, at(1)); err != nil {
			t.Fatal(err)
		}
		a.Retry(agent.Failure{Code: "cluster_unavailable", Retryable: true, Outage: true}, at(2))
		equal(t, "shows the outage", a.Failure != nil, true)
		a.MarkObserved(at(3))
		equal(t, string(trigger)+" shows an outage that is over", a.Failure != nil, false)
	}
}

func TestHeldUsage_FollowsTheStatus(t *testing.T) {
	t.Parallel()
	for _, s := range agent.Status("").Values() {
		a := in(agent.Status(s))
		u := a.HeldUsage()
		deleting, stopped := s == "deleting", s == "stopped"
		equal(t, s+" holds a slot", u.Agents > 0, !deleting)
		equal(t, s+" holds CPU", u.CPUMillis > 0, !deleting && !stopped)
		equal(t, s+" holds memory", u.MemoryBytes > 0, !deleting && !stopped)
		equal(t, s+" holds storage", u.StorageBytes > 0, !deleting)
	}
}

func TestAct_WithholdPausesEveryAgentThatHasOrWantsAPod(t *testing.T) {
	t.Parallel()
	for _, s := range agent.Status("").Values() {
		from := agent.Status(s)
		a := in(from)
		a.StatusReason = agent.Manual
		before := a.Generation
		err := a.Act(agent.Withhold, agent.Billing, at(1))
		switch from {
		case agent.Pending, agent.Provisioning, agent.Running, agent.Error:
			if err != nil || a.Status != agent.Paused || a.StatusReason != agent.Billing || a.WantsPod() {
				t.Errorf("%s: %s (%s), error %v, want paused (billing)", from, a.Status, a.StatusReason, err)
			}
			if a.Generation != before+1 || a.WorkDueAt.IsZero() || !a.Deadline.IsZero() {
				t.Errorf("%s: generation %d after %d, work due at %v, deadline %v; want work without a deadline", from,
					a.Generation, before, a.WorkDueAt, a.Deadline)
			}
			if err := a.Act(agent.Resume, agent.Billing, at(2)); err != nil || a.Status != agent.Provisioning {
				t.Errorf("%s: %s after a resume, error %v, want provisioning", from, a.Status, err)
			}
		case agent.Paused:
			if err != nil || a.StatusReason != agent.Manual || a.Generation != before {
				t.Errorf("paused by its owner: reason %s, error %v, want no change", a.StatusReason, err)
			}
		case agent.Stopped, agent.Deleting:
			if !fault.Is(err, fault.Conflict) || a.Status != from {
				t.Errorf("%s: %s, error %v, want a conflict", from, a.Status, err)
			}
		}
	}
}

// Billing resumes what it paused once that is paid. An owner who pauses such an agent does not want it back then.
func TestAct_PauseOfAWithheldAgentOutlastsThePayment(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	for _, step := range []struct {
		trigger    agent.Trigger
		reason     agent.StatusReason
		wantReason agent.StatusReason
		wantPause  bool // whether the agent can be paused then
	}{
		{trigger: agent.Withhold, reason: agent.Billing, wantReason: agent.Billing, wantPause: true},
		{trigger: agent.Pause, reason: agent.Manual, wantReason: agent.Manual},
		{trigger: agent.Withhold, reason: agent.Billing, wantReason: agent.Manual},
	} {
		err := a.Act(step.trigger, step.reason, at(1))
		if err != nil || a.Status != agent.Paused || a.StatusReason != step.wantReason {
			t.Errorf("%s: %s (%s), error %v, want paused (%s)", step.trigger, a.Status, a.StatusReason, err,
				step.wantReason)
		}
		if got := slices.Contains(a.AllowedActions(), agent.Pause); got != step.wantPause {
			t.Errorf("%s: pause is an allowed action: %t, want %t", step.trigger, got, step.wantPause)
		}
	}
	before := a.Clone()
	if err := a.Act(agent.Pause, agent.Manual, at(2)); err != nil || !a.Equal(before) {
		t.Errorf("a second pause: error %v, want none and no change", err)
	}
}
