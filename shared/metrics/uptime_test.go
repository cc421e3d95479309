package metrics_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/plan"
)

// life is what happens to an agent, by minute. It is created at minute 0.
type life map[int]step

// step changes the agent. Its times are in minutes.
type step func(*agent.Agent, func(minutes float64) time.Time)

func ready(at float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) { a.BecameReady(t(at)) }
}

func does(trigger agent.Trigger, at float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) { _ = a.Act(trigger, agent.Manual, t(at)) }
}

// restarts is a request whose objects are applied in the same minute.
func restarts(at float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) {
		_ = a.Act(agent.Restart, agent.Manual, t(at))
		a.Applied(t(at))
	}
}

// breaks is a pod of a running agent that has not been Ready since a time.
func breaks(at, since float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) {
		a.Break(agent.Failure{Code: "pod_crash_loop", Observed: agent.Observation{Since: t(since)}}, t(at))
	}
}

// givesUp is a worker's, on a pod that has not been Ready since a time.
func givesUp(at, since float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) {
		a.GiveUp(agent.Failure{Code: "image_pull_failed", Observed: agent.Observation{Since: t(since)}}, t(at))
	}
}

func recovers(at float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) { a.Recover(t(at)) }
}

func notReady(since float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) { a.See(agent.PodSight{UID: "pod", Since: t(since)}) }
}

// readyAgain is a Ready pod that was lost before.
func readyAgain(lost, since float64) step {
	return func(a *agent.Agent, t func(float64) time.Time) {
		a.See(agent.PodSight{UID: "pod", Ready: true, Lost: t(lost), Since: t(since)})
	}
}

// flaps has twenty outages of a minute, from minute 10 on.
func flaps() life {
	l := life{0: ready(0)}
	for n := 10; n < 50; n += 2 {
		l[n], l[n+1] = notReady(float64(n)), readyAgain(float64(n), float64(n)+1)
	}
	return l
}

// TestCollect_UptimeOfALife follows the record of an agent through its life, with a collector that runs every minute.
// A client looks at the metrics in the last minute.
func TestCollect_UptimeOfALife(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		life  life
		until int
		// resumes is the minute from which the collector runs again after minute 5; 0 if it runs all the time.
		resumes int
		want    float64
	}{
		"young": {life: life{2: ready(2)}, until: 7, want: 100},
		"crash loop from its fourth minute on": {
			life: life{0: ready(0), 5: breaks(5, 4)}, until: 7, want: 100 * 4.0 / 7,
		},
		"crash loop with a start that fails": {
			life:  life{0: ready(0), 10: breaks(10, 10), 12: does(agent.Start, 12), 20: givesUp(20, 12.5)},
			until: 40, want: 100 * 10.0 / 40,
		},
		"image can't be pulled, then recovers": {
			life: life{0: ready(0), 11: breaks(11, 10), 20: recovers(20)}, until: 47, want: 100 * 37.0 / 47,
		},
		"short outage": {
			life: life{0: ready(0), 11: notReady(10), 13: readyAgain(10, 12)}, until: 20, want: 100 * 18.0 / 20,
		},
		"outage between two looks": {
			life: life{0: ready(0), 11: readyAgain(10.25, 10.75)}, until: 20, want: 100 * 19.5 / 20,
		},
		"end of a container before the agent ran": {
			life: life{2: ready(2), 3: readyAgain(1, 1.5)}, until: 20, want: 100,
		},
		"paused in between": {
			life:  life{0: ready(0), 10: does(agent.Pause, 10), 20: does(agent.Resume, 20), 23: ready(23)},
			until: 30, want: 100,
		},
		"paused, after an outage": {
			life: life{0: ready(0), 8: breaks(8, 6), 9: does(agent.Stop, 9)}, until: 60, want: 100 * 6.0 / 9,
		},
		"restarted by its owner": {life: life{0: ready(0), 10: restarts(10), 11: ready(11)}, until: 20, want: 100},
		"restarted by its owner, slowly": {
			life: life{0: ready(0), 10: restarts(10), 15: ready(15)}, until: 20, want: 100 * 15.0 / 18,
		},
		"restarted by its owner, and broken": {
			life: life{0: ready(0), 10: restarts(10), 20: givesUp(20, 10.5)}, until: 30, want: 100 * 10.0 / 28,
		},
		"creation fails": {life: life{10: givesUp(10, 1)}, until: 20, want: 0},
		"start after a stop fails": {
			life: life{
				0: ready(0), 10: does(agent.Stop, 10), 20: does(agent.Start, 20), 30: givesUp(30, 21),
			},
			until: 40, want: 100 * 10.0 / 20,
		},
		"outage goes on": {life: life{0: ready(0), 12: breaks(12, 10)}, until: 60, want: 100 * 10.0 / 60},
		"outage goes on, and a start waits": {
			life: life{0: ready(0), 10: breaks(10, 10), 20: does(agent.Start, 20)}, until: 28, want: 100 * 10.0 / 28,
		},
		"outage goes on for two days": {life: life{0: ready(0), 10: breaks(10, 10)}, until: 50 * 60, want: 0},
		"outage that no worker notices for an hour": {
			life: life{0: ready(0), 70: breaks(70, 10)}, until: 80, want: 100 * 10.0 / 80,
		},
		"outage while nothing is collected": {
			life: life{0: ready(0), 21: breaks(21, 20), 40: recovers(40)}, until: 60, resumes: 59,
			want: 100 * 40.0 / 60,
		},
		"clock of the machine ahead": {
			life: life{0: ready(0), 10: breaks(10, 12)}, until: 20, want: 100 * 10.0 / 20,
		},
		"more changes than the record keeps": {life: flaps(), until: 60, want: 100 * 40.0 / 60},
		// The record has the last six outages, from minute 38 on.
		"more changes than the record keeps while nothing is collected": {
			life: flaps(), until: 60, resumes: 59, want: 100 * (5 + 16.0) / (5 + 22),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCollectorFixture(t)
			born := f.now.Truncate(time.Minute)
			at := func(minutes float64) time.Time { return born.Add(time.Duration(minutes * float64(time.Minute))) }
			a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "one",
				agent.Draft{Name: "a", Plan: plan.Starter}, born)
			a.OrganizationID = "o"
			a = f.Put(a)
			f.source.agents = []string{a.ID}
			for minute := 0; minute <= row.until; minute++ {
				f.now = at(float64(minute)).Add(7 * time.Second)
				if change := row.life[minute]; change != nil {
					changed, _, err := a.Edit(func(a *agent.Agent) error { change(a, at); return nil }, nil)
					if err != nil {
						t.Fatal(err)
					}
					a = f.Put(changed)
				}
				if minute <= 5 || minute >= row.resumes {
					f.collect()
				}
				if minute == row.until-1 {
					f.view(a.ID)
				}
			}
			f.wantUptime(a.ID, row.want)
		})
	}
}

// TestCollect_CollectsARestingAgentOnce views the metrics of an agent that was paused an hour before, soon after a
// collection.
func TestCollect_CollectsARestingAgentOnce(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	a := f.putAgent(agent.Running)
	f.collect()
	paused, _, err := a.Edit(func(a *agent.Agent) error { return a.Act(agent.Pause, agent.Manual, f.now) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Put(paused)
	f.advance(60)
	f.source.takeQueries()
	f.Counts()
	f.view(a.ID)
	f.advance(1)
	for _, q := range f.wantQueries("after a view", len(metrics.Metrics())) {
		if read := q.Span.To.Sub(q.Span.From); read > 15*time.Minute {
			t.Errorf("read %s of samples, want only the present ones", read)
		}
	}
	f.advance(10)
	f.wantQueries("once the snapshot has all", 0)
	if _, saves, _ := f.Counts(); saves != 1 {
		t.Errorf("the snapshot was written %d times, want once", saves)
	}
}
