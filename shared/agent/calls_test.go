package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
)

// noon is when the agents of these tests get their schedules.
func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// withSchedules is a running agent with schedules, which are due five past each hour by default.
func withSchedules(t *testing.T, specs ...agent.ScheduleSpec) agent.Agent {
	t.Helper()
	for i := range specs {
		s := &specs[i]
		if s.ID == "" {
			s.ID = "s"
		}
		if s.Cron == "" {
			s.Cron = "5 * * * *"
		}
		s.Path = "/run"
	}
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell", agent.Draft{Name: "a"}, noon())
	return edit(t, a, func(a *agent.Agent) {
		a.BecameReady(noon())
		if err := a.Apply(agent.Patch{Schedules: &specs}, noon()); err != nil {
			t.Fatal(err)
		}
	})
}

// visit begins the call that is due at a time, as a worker does.
func visit(t *testing.T, a agent.Agent, front string, now time.Time) (agent.Agent, []agent.Order) {
	t.Helper()
	var orders []agent.Order
	asked := a.OpenCalls()
	a = edit(t, a, func(a *agent.Agent) {
		a.PrepareCalls(now)
		orders = a.RecordCalls(agent.FrontReport{Front: front, Asked: asked}, now)
	})
	return a, orders
}

func after(minutes int) time.Time { return noon().Add(time.Duration(minutes) * time.Minute) }

func TestSchedules_AreDueAsLongAsTheAgentCanBeCalled(t *testing.T) {
	t.Parallel()
	sleepy := agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.ScheduleWakes}}
	deaf := agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}}
	for name, row := range map[string]struct {
		change func(a *agent.Agent)
		want   time.Time
	}{
		"running":         {change: func(*agent.Agent) {}, want: after(5)},
		"to be woken":     {change: func(a *agent.Agent) { a.WakeAt = after(2) }, want: after(2)},
		"looked at":       {change: func(a *agent.Agent) { a.CallsPausedUntil = after(7) }, want: after(7)},
		"with work":       {change: func(a *agent.Agent) { a.Generation++ }},
		"in error":        {change: func(a *agent.Agent) { a.Status = agent.Error }},
		"stopped":         {change: func(a *agent.Agent) { a.Status = agent.Stopped }},
		"paused":          {change: func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, agent.Manual }},
		"not paid for":    {change: func(a *agent.Agent) { a.Status, a.StatusReason = agent.Paused, agent.Billing }},
		"without any":     {change: func(a *agent.Agent) { a.Schedules = nil }},
		"with disabled":   {change: func(a *agent.Agent) { a.Schedules[0].Disabled = true }},
		"asleep":          {change: func(a *agent.Agent) { sleep(a, sleepy) }, want: after(5)},
		"asleep for all":  {change: func(a *agent.Agent) { sleep(a, deaf) }},
		"later release's": {change: func(a *agent.Agent) { a.Schedules[0].Cron = "@daily" }},
	} {
		a := edit(t, withSchedules(t, agent.ScheduleSpec{}), row.change)
		equal(t, name, a.CallsDueAt, row.want)
		equal(t, name+", due in an hour", a.CallsDue(after(60)), !row.want.IsZero())
	}
}

func sleep(a *agent.Agent, p agent.SleepPolicy) {
	a.Status, a.StatusReason, a.Sleep = agent.Paused, agent.ReasonIdle, p
}

// Each move of an agent leaves its record with the time at which it is due, whatever the move does to the other work.
func TestSchedules_AreForgottenByNoChange(t *testing.T) {
	t.Parallel()
	later := after(3)
	for name, change := range map[string]func(a *agent.Agent){
		"observed":    func(a *agent.Agent) { a.MarkObserved(later) },
		"ready":       func(a *agent.Agent) { a.BecameReady(later) },
		"recovered":   func(a *agent.Agent) { a.Status = agent.Error; a.Recover(later) },
		"swept":       func(a *agent.Agent) { a.WorkDueAt = time.Time{} },
		"retried":     func(a *agent.Agent) { a.RetryDestroy("x", true, later) },
		"restarted":   func(a *agent.Agent) { _ = a.Act(agent.Restart, "", later); a.BecameReady(later) },
		"stopped":     func(a *agent.Agent) { _ = a.Act(agent.Stop, agent.Manual, later); startAgain(a, later) },
		"overwritten": func(a *agent.Agent) { a.CallsDueAt = time.Time{} },
	} {
		a := withSchedules(t, agent.ScheduleSpec{})
		a.UpdatedAt = time.Time{} // so that each change is one
		equal(t, "an agent that was "+name, edit(t, a, change).CallsDueAt, after(5))
	}
}

func startAgain(a *agent.Agent, now time.Time) {
	a.MarkObserved(now)
	_ = a.Act(agent.Start, "", now)
	a.BecameReady(now)
}

func TestSchedules_CallOnceForEachDueTime(t *testing.T) {
	t.Parallel()
	a := withSchedules(t, agent.ScheduleSpec{Body: "b"})
	if _, early := visit(t, a, "f", after(4)); len(early) > 0 {
		t.Errorf("before its time, the agent is called: %v", early)
	}
	a, orders := visit(t, a, "f", after(6))
	id := agent.CallID(a.ID, "s", after(5))
	want := []agent.Order{{ID: id, Front: "f", Schedule: "s", Path: "/run", Body: "b"}}
	if !slices.Equal(orders, want) {
		t.Fatalf("the orders are %v, want %v", orders, want)
	}
	equal(t, "the next look", a.CallsDueAt, after(7))
	if _, late := visit(t, a, "f", after(6)); len(late) != 1 || late[0].ID != id {
		t.Errorf("an order that did not arrive is given again as %v", late)
	}
	stale := edit(t, a, func(a *agent.Agent) {
		if orders := a.RecordCalls(agent.FrontReport{Front: "g"}, after(6)); len(orders) > 0 {
			t.Errorf("a worker that asked before the call began orders %v", orders)
		}
	})
	equal(t, "the front, after an answer that is older than the call", stale.Schedules[0].Call.Front, "f")
	ended := edit(t, a, func(a *agent.Agent) {
		a.RecordCalls(agent.FrontReport{Front: "f", Asked: []string{id}, Calls: map[string]agent.CallReport{
			id: {Outcome: agent.CallAnswered, Status: 503, DurationMS: 40},
		}}, after(8))
	})
	equal(t, "the result", ended.Schedules[0].Last, agent.CallResult{
		DueAt: after(5), CalledAt: after(6), Outcome: agent.CallAnswered, Status: 503, DurationMS: 40,
	})
	equal(t, "the next due time", ended.CallsDueAt, after(65))
	events := agent.Events(a, ended)
	if len(events) != 1 || events[0].Type != event.ScheduleCalled {
		t.Errorf("the events are %+v", events)
	}
}

func TestSchedules_DoNotRepeatACallWhoseFrontIsGone(t *testing.T) {
	t.Parallel()
	a, _ := visit(t, withSchedules(t, agent.ScheduleSpec{}), "f", after(6))
	a, orders := visit(t, a, "g", after(7))
	if len(orders) > 0 || a.Schedules[0].Last.Outcome != agent.CallInterrupted || a.Schedules[0].Call.Open() {
		t.Errorf("another front is told %v, and the record says %+v", orders, a.Schedules[0])
	}
}

func TestSchedules_HandleWhatWasMissedByTheirPolicy(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		missed  agent.MissedPolicy
		now     time.Time
		want    time.Time
		skipped int64
	}{
		"a little late":            {missed: agent.SkipMissed, now: after(34), want: after(5)},
		"too late":                 {missed: agent.SkipMissed, now: after(36), skipped: 1},
		"several, and one in time": {missed: agent.SkipMissed, now: after(3 * 60), skipped: 3},
		"one is in time":           {missed: agent.SkipMissed, now: after(140), want: after(125), skipped: 2},
		"too late, but once":       {missed: agent.RunMissedOnce, now: after(180), want: after(125), skipped: 2},
		"after half a year": {
			missed: agent.RunMissedOnce, now: after(180*24*60 + 6), want: after(180*24*60 + 5), skipped: 1000,
		},
		"skipped half a year": {missed: agent.SkipMissed, now: after(180 * 24 * 60), skipped: 1000},
	} {
		a, orders := visit(t, withSchedules(t, agent.ScheduleSpec{Missed: row.missed}), "f", row.now)
		equal(t, name+": called for", a.Schedules[0].Call.DueAt, row.want)
		equal(t, name+": orders", len(orders), map[bool]int{true: 1}[!row.want.IsZero()])
		equal(t, name+": skipped", a.Schedules[0].Skipped, row.skipped)
		if !a.CallsDueAt.After(row.now) {
			t.Errorf("%s: a worker looks at the agent again at %v", name, a.CallsDueAt)
		}
	}
}

func TestSchedules_CallAnAgentOnceAMinute(t *testing.T) {
	t.Parallel()
	var specs []agent.ScheduleSpec
	for i := range agent.MaxSchedules {
		specs = append(specs, agent.ScheduleSpec{ID: agent.ScheduleID(fmt.Sprintf("s%02d", i))})
	}
	a, now := withSchedules(t, specs...), after(5)
	for i := range agent.MaxSchedules {
		var orders []agent.Order
		a, orders = visit(t, a, "f", now)
		fresh := slices.DeleteFunc(orders, func(o agent.Order) bool { return o.Schedule != fmt.Sprintf("s%02d", i) })
		equal(t, "new calls in a minute", len(fresh), 1)
		if _, again := visit(t, a, "f", now.Add(30*time.Second)); len(again) > i+1 {
			t.Errorf("in the same minute, there are %d orders more", len(again)-i-1)
		}
		now = now.Add(time.Minute)
	}
	for _, s := range a.Schedules {
		equal(t, "skipped of "+s.ID, s.Skipped, 0)
	}
}

func TestSchedules_WakeAnAgent(t *testing.T) {
	t.Parallel()
	sleepy := agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.ScheduleWakes}}
	for name, row := range map[string]struct {
		wakeAt time.Time
		now    time.Time
		wakes  bool
	}{
		"before the time":  {now: after(4)},
		"at the time":      {now: after(5), wakes: true},
		"too late":         {now: after(50)},
		"by the time set":  {now: after(3), wakeAt: after(2), wakes: true},
		"before that time": {now: after(3), wakeAt: after(4)},
	} {
		a := edit(t, withSchedules(t, agent.ScheduleSpec{}), func(a *agent.Agent) {
			sleep(a, sleepy)
			a.WakeAt = row.wakeAt
		})
		a = edit(t, a, func(a *agent.Agent) {
			if a.PrepareCalls(row.now); a.WakesNow(row.now) {
				a.Wake(agent.WokenBySchedule, row.now)
			}
		})
		equal(t, name+": provisioning", a.Status == agent.Provisioning, row.wakes)
		equal(t, name+": woken by", a.WokenBy == agent.WokenBySchedule, row.wakes)
		equal(t, name+": the time set", a.WakeAt.IsZero(), row.wakeAt.IsZero() || row.wakes)
		equal(t, name+": no call is lost", a.Schedules[0].After.Before(after(5)), row.now.Before(after(50)))
	}
}

func TestSchedules_KeepAnAgentAwakeWhileTheyCall(t *testing.T) {
	t.Parallel()
	sleepy := func(a *agent.Agent) { a.Sleep = agent.SleepPolicy{AfterSeconds: 300} }
	a, _ := visit(t, edit(t, withSchedules(t, agent.ScheduleSpec{}), sleepy), "f", after(6))
	if err := a.FallAsleep("d", after(20)); err == nil {
		t.Error("the agent falls asleep, before the end of its call is known")
	}
}

func TestSchedules_GoOnAfterAChangeOfOthers(t *testing.T) {
	t.Parallel()
	called, _ := visit(t, withSchedules(t, agent.ScheduleSpec{}), "f", after(6))
	off := false
	for name, row := range map[string]struct {
		specs []agent.ScheduleSpec
		open  bool
		want  time.Time
	}{
		"another one":  {specs: []agent.ScheduleSpec{{ID: "s"}, {ID: "r"}}, open: true, want: after(65)},
		"another body": {specs: []agent.ScheduleSpec{{ID: "s", Body: "c"}}, open: true, want: after(65)},
		"another time": {specs: []agent.ScheduleSpec{{ID: "s", Cron: "50 * * * *"}}, open: true, want: after(50)},
		"another name": {specs: []agent.ScheduleSpec{{ID: "q"}}, want: after(65)},
		"switched off": {specs: []agent.ScheduleSpec{{ID: "s", Enabled: &off}}, open: true},
		"the same time": {
			specs: []agent.ScheduleSpec{{ID: "s", Timezone: "UTC", Missed: agent.SkipMissed}}, open: true,
			want: after(65),
		},
	} {
		a := edit(t, called, func(a *agent.Agent) {
			for i := range row.specs {
				if row.specs[i].Cron == "" {
					row.specs[i].Cron = "5 * * * *"
				}
				row.specs[i].Path = "/run"
			}
			if err := a.Apply(agent.Patch{Schedules: &row.specs}, after(30)); err != nil {
				t.Fatal(err)
			}
		})
		s := a.Schedules[len(a.Schedules)-1]
		equal(t, name+": the call goes on", s.Call.Open(), row.open)
		next := a.Show(identity.Caller{}, agent.Addresses{}).Schedules[len(a.Schedules)-1].NextAt
		equal(t, name+": has a next call", next != nil, !row.want.IsZero())
		if next != nil {
			equal(t, name+": next", *next, row.want)
		}
		equal(t, name+": the pod stays", a.Generation, called.Generation)
	}
}

// A client whose clock is behind that of a worker removes a schedule and adds it again right after its call.
func TestSchedules_DoNotRepeatACallThatWasRemoved(t *testing.T) {
	t.Parallel()
	a, _ := visit(t, withSchedules(t, agent.ScheduleSpec{}), "f", after(5))
	behind := after(5).Add(-3 * time.Second)
	specs := []agent.ScheduleSpec{}
	a = edit(t, a, func(a *agent.Agent) { _ = a.Apply(agent.Patch{Schedules: &specs}, behind) })
	specs = []agent.ScheduleSpec{{ID: "s", Cron: "5 * * * *", Path: "/run"}}
	a = edit(t, a, func(a *agent.Agent) { _ = a.Apply(agent.Patch{Schedules: &specs}, behind) })
	equal(t, "due", a.CallsDueAt, after(65))
}

func TestSchedules_AskAnUnreachableFrontLessAndLessOften(t *testing.T) {
	t.Parallel()
	a, now, asked := withSchedules(t, agent.ScheduleSpec{Missed: agent.RunMissedOnce}), after(5), 0
	for now.Before(after(5 + 24*60)) {
		a = edit(t, a, func(a *agent.Agent) { a.PrepareCalls(now); a.DelayCalls(now) })
		asked++
		if !a.CallsDueAt.After(now) {
			t.Fatalf("a worker asks again at %v", a.CallsDueAt)
		}
		now = a.CallsDueAt
	}
	if asked > 160 {
		t.Errorf("an unreachable front is asked %d times a day", asked)
	}
}

func TestSchedules_ShowBodiesToAdminsOnly(t *testing.T) {
	t.Parallel()
	a := withSchedules(t, agent.ScheduleSpec{Body: "a prompt"})
	for role, want := range map[identity.Role]bool{identity.RoleAdmin: true, identity.RoleMember: false} {
		v := a.Show(identity.Caller{OrganizationID: "o", Role: role}, agent.Addresses{}).Schedules[0]
		equal(t, string(role)+" sees the body", v.Body != nil && *v.Body == "a prompt", want)
	}
	for _, c := range agent.Changes(agent.Agent{}, a) {
		if c.Field == "schedules.s" && (c.Old != "" || c.New != "set") {
			t.Errorf("the audit log has %+v", c)
		}
	}
}

func TestFrontReport_IsCheckedBeforeItIsRecorded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		front  string
		report agent.CallReport
		valid  bool
	}{
		"running":           {front: "f", report: agent.CallReport{Outcome: agent.CallRunning}, valid: true},
		"answered":          {front: "f", report: agent.CallReport{Outcome: "answered", Status: 204}, valid: true},
		"no front":          {report: agent.CallReport{Outcome: agent.CallRunning}},
		"no status":         {front: "f", report: agent.CallReport{Outcome: agent.CallAnswered}},
		"status of a crash": {front: "f", report: agent.CallReport{Outcome: agent.CallFailed, Status: 500}},
		"interrupted":       {front: "f", report: agent.CallReport{Outcome: agent.CallInterrupted}},
		"unknown":           {front: "f", report: agent.CallReport{Outcome: "<script>"}},
		"negative":          {front: "f", report: agent.CallReport{Outcome: agent.CallFailed, DurationMS: -1}},
	} {
		r := agent.FrontReport{Front: row.front, Calls: map[string]agent.CallReport{"c": row.report}}
		equal(t, name, r.Valid(), row.valid)
	}
}
