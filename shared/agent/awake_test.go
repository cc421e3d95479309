package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// moment is a time on the days around a midnight: moment("1 23:50:00") is on the first day.
func moment(text string) time.Time {
	at, err := time.Parse("2006-01-2 15:04:05", "2026-03-"+text)
	if err != nil {
		panic(err)
	}
	return at
}

// awake shows how long an agent was awake, by day of the month.
func awake(a agent.Agent, now time.Time) string {
	var all []string
	for _, d := range a.AwakeDays(now) {
		all = append(all, fmt.Sprintf("%s:%d", d.Date[len("2026-"):], d.Seconds))
	}
	return strings.Join(all, " ")
}

// napper is an agent that was created at a time, and that the steps of tests put to sleep and wake.
type napper struct {
	t *testing.T
	a agent.Agent
}

func newNapper(t *testing.T, at time.Time) *napper {
	t.Helper()
	n := &napper{t, agent.New("id", "cell", agent.Draft{Name: "n", Plan: plan.Hobby}, at)}
	n.ready(at.Add(time.Minute))
	return n
}

func (n *napper) edit(change func(*agent.Agent)) { n.t.Helper(); n.a = edit(n.t, n.a, change) }

func (n *napper) ready(at time.Time) {
	n.t.Helper()
	n.edit(func(a *agent.Agent) { a.Applied(at); a.BecameReady(at) })
}

func (n *napper) sleep(at time.Time) {
	n.t.Helper()
	n.edit(func(a *agent.Agent) { do(n.t, a.FallAsleep("", at)); a.MarkObserved(at) })
}

// wake wakes the agent, which is ready a minute later.
func (n *napper) wake(at time.Time) {
	n.t.Helper()
	n.edit(func(a *agent.Agent) { a.Wake(agent.WokenByRequest, at) })
	n.ready(at.Add(time.Minute))
}

// TestAwakeDays counts the seconds by day, from the wake and not from when the pod was ready.
func TestAwakeDays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		steps func(*napper)
		now   string
		want  string
	}{
		"just created": {steps: func(*napper) {}, now: "1 12:00:00", want: "03-01:0"},
		"awake":        {steps: func(*napper) {}, now: "1 12:30:15", want: "03-01:1815"},
		"asleep": {
			steps: func(n *napper) { n.sleep(moment("1 13:00:00")) }, now: "1 20:00:00", want: "03-01:3600",
		},
		"across midnight": {
			steps: func(n *napper) { n.sleep(moment("2 00:00:10")) }, now: "2 05:00:00", want: "03-01:43200 03-02:10",
		},
		"awake over several days": {
			steps: func(*napper) {}, now: "3 00:00:01", want: "03-01:43200 03-02:86400 03-03:1",
		},
		"woken twice on a day": {
			steps: func(n *napper) {
				n.sleep(moment("1 12:10:00"))
				n.wake(moment("1 15:00:00"))
				n.sleep(moment("1 15:10:00"))
				n.wake(moment("1 23:59:00"))
				n.sleep(moment("2 00:01:00"))
			},
			now: "2 12:00:00", want: "03-01:1260 03-02:60",
		},
		"asleep for days": {
			steps: func(n *napper) {
				n.sleep(moment("1 12:10:00"))
				n.wake(moment("4 00:00:00"))
			},
			now: "4 00:30:00", want: "03-01:600 03-02:0 03-03:0 03-04:1800",
		},
		"paused while it slept": {
			steps: func(n *napper) {
				n.sleep(moment("1 12:10:00"))
				n.edit(func(a *agent.Agent) { do(n.t, a.Act(agent.Pause, agent.Manual, moment("1 14:00:00"))) })
			},
			now: "1 15:00:00", want: "03-01:600",
		},
		"stopped": {
			steps: func(n *napper) {
				n.edit(func(a *agent.Agent) { do(n.t, a.Act(agent.Stop, agent.Manual, moment("1 12:02:30"))) })
			},
			now: "1 13:00:00", want: "03-01:150",
		},
		"broken, and so with a pod": {
			steps: func(n *napper) {
				n.edit(func(a *agent.Agent) { a.Break(agent.Failure{Code: "pod_crash_loop"}, moment("1 12:05:00")) })
			},
			now: "1 13:00:00", want: "03-01:3600",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNapper(t, moment("1 12:00:00"))
			row.steps(n)
			if got := awake(n.a, moment(row.now)); got != row.want {
				t.Errorf("awake: %s, want %s", got, row.want)
			}
		})
	}
}

// TestAwakeDays_AddUp checks that parts of seconds are neither lost nor counted twice over many short times.
func TestAwakeDays_AddUp(t *testing.T) {
	t.Parallel()
	began := moment("1 12:00:00")
	n := newNapper(t, began)
	now := began.Add(time.Minute)
	for range 200 {
		now = now.Add(90*time.Second + 500*time.Millisecond)
		n.sleep(now)
		n.wake(now)
		now = now.Add(time.Minute)
	}
	if got, want := awake(n.a, now), fmt.Sprintf("03-01:%d", now.Unix()-began.Unix()); got != want {
		t.Errorf("awake: %s, want %s", got, want)
	}
}

// TestAwakeDays_AreBounded lets an agent live for a year.
func TestAwakeDays_AreBounded(t *testing.T) {
	t.Parallel()
	n := newNapper(t, moment("1 12:00:00"))
	now := moment("1 13:00:00")
	for range 365 {
		n.sleep(now)
		n.wake(now.Add(12 * time.Hour))
		now = now.AddDate(0, 0, 1)
	}
	if got := len(n.a.Awake.Seconds); got > agent.MaxAwakeDays {
		t.Errorf("the record has %d days, want at most %d", got, agent.MaxAwakeDays)
	}
	days := n.a.AwakeDays(now)
	if len(days) != agent.MaxAwakeDays || days[1].Seconds != 43200 {
		t.Errorf("%d days are shown, the second one with %d s; want %d days of 43200 s", len(days), days[1].Seconds,
			agent.MaxAwakeDays)
	}
	long := newNapper(t, moment("1 12:00:00"))
	if days := long.a.AwakeDays(now); len(days) != agent.MaxAwakeDays || days[0].Seconds != 86400 {
		t.Errorf("an agent that never slept has %d days, of %d s", len(days), days[0].Seconds)
	}
}

// TestAwakeDays_OfFormerReleases reads records whose status a release changed that knows no such log.
func TestAwakeDays_OfFormerReleases(t *testing.T) {
	t.Parallel()
	n := newNapper(t, moment("1 12:00:00"))
	running := n.a
	running.Awake = agent.AwakeLog{}
	if got := awake(running, moment("1 13:00:00")); got != "03-01:3540" {
		t.Errorf("a former release made the agent, ready at 12:01. awake: %s, want 03-01:3540", got)
	}
	fresh := edit(t, running, func(a *agent.Agent) { do(t, a.FallAsleep("", moment("1 13:00:00"))) })
	if got := awake(fresh, moment("1 14:00:00")); got != "03-01:3540" {
		t.Errorf("and this release put it to sleep. awake: %s, want 03-01:3540", got)
	}

	log := n.a.Awake
	n.sleep(moment("1 13:00:00"))
	n.a.Awake, n.a.UpdatedAt = log, moment("1 16:00:00")
	if got := awake(n.a, moment("1 17:00:00")); got != "03-01:3600" {
		t.Errorf("a former release put it to sleep. awake: %s, want 03-01:3600", got)
	}
	n.wake(moment("1 18:00:00"))
	if got := awake(n.a, moment("1 18:30:00")); got != "03-01:5400" {
		t.Errorf("and this release woke it. awake: %s, want 03-01:5400", got)
	}
}
