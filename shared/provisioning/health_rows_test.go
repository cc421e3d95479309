package provisioning_test

import (
	"fmt"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// healthRow is a state of records and clusters, and the result of one health check of it.
type healthRow struct {
	given func(*healthFixture)
	// concurrently happens to the agent between the controller's read and its write; nil for nothing.
	concurrently func(*agent.Agent)
	wantStatus   agent.Status // "" if the record is gone
	wantFailure  string       // the code; "" for none
	wantCalls    string       // the calls about the agent, in order
	// wantAgent returns what else is wrong with the agent, or ""; nil checks nothing.
	wantAgent func(agent.Agent) string
	wantError bool // of the health check
}

// all applies one step after another.
func all(steps ...func(*healthFixture)) func(*healthFixture) {
	return func(s *healthFixture) {
		for _, do := range steps {
			do(s)
		}
	}
}

func withPod(p provisioning.Pod) func(*healthFixture) {
	return func(s *healthFixture) { s.pods["cell-1"] = append(s.pods["cell-1"], p) }
}

// withAgent replaces the running agent.
func withAgent(a agent.Agent) func(*healthFixture) { return func(s *healthFixture) { s.add(a) } }

// changed changes the record of the agent.
func changed(change func(*agent.Agent)) func(*healthFixture) {
	return func(s *healthFixture) { s.change(own, change) }
}

// failing makes a call fail.
func failing(call string) func(*healthFixture) {
	return func(s *healthFixture) { s.failing[call] = true }
}

// existing sets which objects of the agent exist.
func existing(e provisioning.Existence) func(*healthFixture) {
	return func(s *healthFixture) { s.existence[own] = e }
}

func emptyCell(s *healthFixture) { s.pods["cell-1"] = nil }

func removed(s *healthFixture) { s.remove(own) }

// justWritten makes the record so young that a list may show the state before it.
func justWritten(s *healthFixture) {
	s.change(own, func(a *agent.Agent) { a.UpdatedAt = checkedAt.Add(-4 * time.Second) })
}

// completed is a client's action that a worker completed a minute ago.
func completed(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) {
		_ = a.Act(trigger, agent.Manual, checkedAt.Add(-time.Minute))
		a.MarkObserved(checkedAt.Add(-time.Minute))
	}
}

// underRepair gives a worker work on the agent.
func underRepair(a *agent.Agent) { a.Repair(checkedAt.Add(-time.Minute)) }

// requested is a client's action.
func requested(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) { _ = a.Act(trigger, agent.Manual, checkedAt) }
}

// broke wants a failure at run time and no work for a worker.
func broke(permanent bool) func(agent.Agent) string {
	return func(a agent.Agent) string {
		f := a.Failure
		if f.Stage != "" || f.Retryable == permanent || f.Message == "" {
			return fmt.Sprintf("failure %+v, want one without a stage, with a message and Retryable %t", f, !permanent)
		}
		known := f.Observed.Reason == "Reported" && !f.Observed.Since.IsZero()
		if f.Code != provisioning.CodeNamespaceMissing && !known {
			return fmt.Sprintf("observation %+v, want that of the pod", f.Observed)
		}
		if !a.Converged() || !a.WorkDueAt.IsZero() {
			return fmt.Sprintf("generation %d observed %d, work due at %v, want no work", a.Generation,
				a.ObservedGeneration, a.WorkDueAt)
		}
		return ""
	}
}

// recovered wants an agent whose provisioning is complete and which has no work.
func recovered(a agent.Agent) string {
	if len(a.Unfinished()) > 0 || a.Warming {
		return fmt.Sprintf("unfinished %v, warming %t, want neither", a.Unfinished(), a.Warming)
	}
	if !a.Converged() || !a.WorkDueAt.IsZero() {
		return fmt.Sprintf("generation %d observed %d, work due at %v, want no work", a.Generation,
			a.ObservedGeneration, a.WorkDueAt)
	}
	return ""
}

// beingRepaired wants work for a worker.
func beingRepaired(a agent.Agent) string {
	if a.Converged() || !a.Warming || a.WorkDueAt.IsZero() {
		return fmt.Sprintf("converged %t, warming %t, work due at %v, want a worker to replace the pod",
			a.Converged(), a.Warming, a.WorkDueAt)
	}
	return ""
}

// warmingUp wants no work for a worker, but a dashboard that is warming up.
func warmingUp(a agent.Agent) string {
	if !a.Converged() || !a.Warming || a.Failure != nil {
		return fmt.Sprintf("converged %t, warming %t, failure %v, want true, true, none", a.Converged(), a.Warming,
			a.Failure)
	}
	return ""
}

// untouched wants no work for a worker.
func untouched(a agent.Agent) string {
	if !a.Converged() || a.Warming {
		return fmt.Sprintf("converged %t, warming %t, want no change", a.Converged(), a.Warming)
	}
	return ""
}

// Codes of failures.
const (
	crashLoop     = "pod_crash_loop"
	outOfMemory   = "out_of_memory"
	imagePull     = "image_pull_failed"
	unschedulable = "pod_unschedulable"
	notReady      = "readiness_timeout"
)

// rowsOfBrokenPods have a running agent whose pod exists.
func rowsOfBrokenPods() map[string]healthRow {
	const minute = time.Minute
	stays := func(p provisioning.Pod) healthRow {
		return healthRow{given: withPod(p), wantStatus: agent.Running, wantAgent: untouched}
	}
	goesDown := func(p provisioning.Pod) healthRow {
		r := stays(p)
		r.wantCalls, r.wantAgent = "update", func(a agent.Agent) string {
			last := a.ServingHistory()[len(a.ServingHistory())-1]
			if last.Serving != agent.Down || !last.Since.Equal(p.Since) {
				return fmt.Sprintf("the agent is %s since %v, want down since its pod is not ready", last.Serving,
					last.Since)
			}
			return untouched(a)
		}
		return r
	}
	breaks := func(p provisioning.Pod) healthRow {
		return healthRow{
			given: withPod(p), wantStatus: agent.Error, wantFailure: p.Failure.Code, wantCalls: "load update",
			wantAgent: broke(p.Failure.Permanent),
		}
	}
	// served wants the latest changes of what the agent does, with their ages.
	served := func(want string) func(agent.Agent) string {
		return func(a agent.Agent) string {
			var got []string
			for _, c := range a.ServingHistory() {
				got = append(got, fmt.Sprintf("%s %v", c.Serving, checkedAt.Sub(c.Since)))
			}
			if all := strings.Join(got, ", "); all != want {
				return fmt.Sprintf("the agent is %s, want %s", all, want)
			}
			return untouched(a)
		}
	}
	lost := func(lost, since time.Duration) provisioning.Pod {
		p := readyPod(own, since)
		p.Lost = checkedAt.Add(-lost)
		return p
	}
	sees := func(p provisioning.Pod, calls, want string) healthRow {
		return healthRow{given: withPod(p), wantStatus: agent.Running, wantCalls: calls, wantAgent: served(want)}
	}
	crashLooping := withPod(brokenPod(crashLoop, true, minute, time.Second))
	return map[string]healthRow{
		"ready again after 20 seconds": sees(lost(50*time.Second, 30*time.Second), "update",
			"up 1h0m0s, down 50s, up 30s"),
		"ready since the agent runs": sees(lost(2*time.Hour, time.Hour), "", "up 1h0m0s"),
		"ready again, by a clock that is ahead": sees(lost(time.Minute, -time.Minute), "update",
			"up 1h0m0s, down 1m0s, up 0s"),
		"ready pod":                             stays(readyPod(own, minute)),
		"pod just became ready":                 stays(readyPod(own, 0)),
		"crash loop":                            breaks(brokenPod(crashLoop, true, 0, time.Second)),
		"out of memory repeatedly":              breaks(brokenPod(outOfMemory, true, minute, minute)),
		"invalid image name":                    breaks(brokenPod(imagePull, true, 0, 0)),
		"image pull fails for 29 seconds":       stays(brokenPod(imagePull, false, 29*time.Second, 0)),
		"image pull fails for 30 seconds":       breaks(brokenPod(imagePull, false, 30*time.Second, 0)),
		"unschedulable for five minutes":        breaks(brokenPod(unschedulable, false, 5*minute, 0)),
		"not ready for almost ten minutes":      goesDown(brokenPod(notReady, false, 10*minute-time.Second, 0)),
		"not ready for ten minutes":             breaks(brokenPod(notReady, false, 10*minute, 0)),
		"some crashes in one minute":            goesDown(brokenPod(crashLoop, false, minute, time.Second)),
		"some crashes in ten minutes":           breaks(brokenPod(crashLoop, false, 10*minute, time.Second)),
		"crash after a long run":                goesDown(brokenPod(crashLoop, true, minute, 10*minute)),
		"down for ten minutes after a long run": breaks(brokenPod(crashLoop, true, 10*minute, 10*minute)),
		"crash loop, record just written": {
			given:      all(crashLooping, justWritten),
			wantStatus: agent.Running, wantCalls: "load", wantAgent: untouched,
		},
		"crash loop while a worker has work": {
			given:      all(crashLooping, changed(underRepair)),
			wantStatus: agent.Running, wantCalls: "load",
		},
		"crash loop of a paused agent": {
			given:      all(crashLooping, changed(completed(agent.Pause))),
			wantStatus: agent.Paused, wantCalls: "load",
		},
		"crash loop of a stopped agent": {
			given:      all(crashLooping, changed(completed(agent.Stop))),
			wantStatus: agent.Stopped, wantCalls: "load",
		},
		"crash loop of a deleting agent": {
			given:      all(crashLooping, changed(completed(agent.Delete))),
			wantStatus: agent.Deleting, wantCalls: "load",
		},
		"crash loop of an agent in error": {
			given:      all(withAgent(failedAt(own, "")), crashLooping),
			wantStatus: agent.Error, wantFailure: crashLoop,
		},
		"crash loop of an agent in error, list of errors fails": {
			given:      all(withAgent(failedAt(own, "")), crashLooping, failing("list error")),
			wantStatus: agent.Error, wantFailure: crashLoop, wantCalls: "load", wantError: true,
		},
		"crash loop, list of running agents fails": {
			given:      all(crashLooping, failing("list running")),
			wantStatus: agent.Error, wantFailure: crashLoop, wantCalls: "load update", wantAgent: broke(true),
			wantError: true,
		},
		"crash loop in a cell that is not the agent's": {
			given: all(crashLooping, func(s *healthFixture) {
				s.change(own, func(a *agent.Agent) { a.Cell = "cell-2" })
				s.pods["cell-2"] = []provisioning.Pod{readyPod(own, minute)}
			}),
			wantStatus: agent.Running, wantCalls: "load", wantAgent: untouched,
		},
		"crash loop, restarted concurrently": {
			given: crashLooping, concurrently: requested(agent.Restart),
			wantStatus: agent.Running, wantCalls: "load update", wantAgent: beingRepaired,
		},
		"crash loop, stopped concurrently": {
			given: crashLooping, concurrently: requested(agent.Stop),
			wantStatus: agent.Stopped, wantCalls: "load update",
		},
		"crash loop already recorded by another run": {
			given: crashLooping,
			concurrently: func(a *agent.Agent) {
				a.Break(agent.Failure{Code: notReady, Message: "m"}, checkedAt)
			},
			wantStatus: agent.Error, wantFailure: notReady, wantCalls: "load update",
		},
		"crash loop, removed concurrently": {
			given: crashLooping, concurrently: requested(agent.Delete),
			wantStatus: "", wantCalls: "load update",
		},
		"crash loop, removed before": {
			given:      all(crashLooping, removed),
			wantStatus: "", wantCalls: "load",
		},
		"crash loop, load fails": {
			given:      all(crashLooping, failing("load")),
			wantStatus: agent.Running, wantCalls: "load", wantAgent: untouched, wantError: true,
		},
		"crash loop, update fails": {
			given:      all(crashLooping, failing("update")),
			wantStatus: agent.Running, wantCalls: "load update", wantAgent: untouched, wantError: true,
		},
		"crash loop, another cell's list fails": {
			given:      all(crashLooping, failing("pods cell-2")),
			wantStatus: agent.Error, wantFailure: crashLoop, wantCalls: "load update", wantAgent: broke(true),
			wantError: true,
		},
	}
}

// rowsOfMovedPods have a running agent whose pod waits for a machine, or did.
func rowsOfMovedPods() map[string]healthRow {
	const minute = time.Minute
	waiting := withPod(brokenPod(unschedulable, false, 5*minute-time.Second, 0))
	readyForAnHour := withPod(readyPod(own, time.Hour))
	warming := changed(func(a *agent.Agent) {
		a.See(agent.PodSight{Since: checkedAt.Add(-2 * minute)})
		a.Warming = true
	})
	unread := func(s *healthFixture) { s.failing["list running"] = true } // as with more agents than a run reads
	row := func(given func(*healthFixture), wantCalls string, want func(agent.Agent) string) healthRow {
		return healthRow{given: given, wantStatus: agent.Running, wantCalls: wantCalls, wantAgent: want}
	}
	unreadRow := func(given func(*healthFixture), wantCalls string, want func(agent.Agent) string) healthRow {
		r := row(all(given, unread), wantCalls, want)
		r.wantError = true
		return r
	}
	return map[string]healthRow{
		"waits for a machine":                     row(waiting, "update", warmingUp),
		"waits for a machine, already recorded":   row(all(waiting, warming), "", warmingUp),
		"waits for a machine, just written":       row(all(waiting, justWritten), "", untouched),
		"waits for a machine, not read":           unreadRow(waiting, "load update", warmingUp),
		"waits for a machine, recorded, not read": unreadRow(all(waiting, warming), "load", warmingUp),
		"found a machine":                         row(all(withPod(readyPod(own, 0)), warming), "update", untouched),
		"found a machine long ago":                row(all(readyForAnHour, warming), "update", untouched),
		"found a machine, not read": unreadRow(all(withPod(readyPod(own, 3*minute)), warming), "load update",
			untouched),
		"found a machine long ago, not read": unreadRow(all(withPod(readyPod(own, 3*minute+1)), warming), "",
			warmingUp),
		"found a machine, not ready yet": row(all(withPod(brokenPod(notReady, false, minute, 0)), warming), "",
			warmingUp),
		"waits for a machine while a worker has work": {
			given:      all(waiting, changed(underRepair)),
			wantStatus: agent.Running, wantAgent: beingRepaired,
		},
		"waits for a machine, restarted concurrently": {
			given: waiting, concurrently: requested(agent.Restart),
			wantStatus: agent.Running, wantCalls: "update", wantAgent: beingRepaired,
		},
		"found a machine, restarted concurrently": {
			given: all(withPod(readyPod(own, 0)), warming), concurrently: requested(agent.Restart),
			wantStatus: agent.Running, wantCalls: "update", wantAgent: beingRepaired,
		},
		"waits for a machine, removed concurrently": {
			given: waiting, concurrently: requested(agent.Delete), wantStatus: "", wantCalls: "update",
		},
		"paused agent whose pod waits for a machine": {
			given:      all(waiting, changed(completed(agent.Pause))),
			wantStatus: agent.Paused, wantCalls: "load",
		},
	}
}

// rowsOfRecoveredPods have an agent in error, most of them with a ready pod.
func rowsOfRecoveredPods() map[string]healthRow {
	const minute = time.Minute
	inError := withAgent(failedAt(own, ""))
	readyFor := func(ready, lastRun time.Duration) func(*healthFixture) {
		p := readyPod(own, ready)
		p.LastRun = lastRun
		return all(inError, withPod(p))
	}
	stays := func(given func(*healthFixture), wantCalls string) healthRow {
		return healthRow{given: given, wantStatus: agent.Error, wantFailure: crashLoop, wantCalls: wantCalls}
	}
	recovers := func(given func(*healthFixture)) healthRow {
		return healthRow{given: given, wantStatus: agent.Running, wantCalls: "probe update", wantAgent: recovered}
	}
	ready := readyFor(minute, 0)
	return map[string]healthRow{
		"ready for 14 seconds":                   stays(readyFor(14*time.Second, 0), ""),
		"ready for 15 seconds":                   recovers(readyFor(15*time.Second, 0)),
		"ready for less than twice its last run": stays(readyFor(119*time.Second, minute), ""),
		"ready for twice its last run":           recovers(readyFor(120*time.Second, minute)),
		"ready for almost ten minutes":           stays(readyFor(10*minute-time.Second, 9*minute), ""),
		"ready for ten minutes":                  recovers(readyFor(10*minute, 9*minute)),
		"ready for 15 seconds after a long run":  recovers(readyFor(15*time.Second, 10*minute)),
		"ready, but does not answer":             stays(all(ready, failing("probe")), "probe"),
		"ready pod of a former configuration": stays(all(ready, func(s *healthFixture) { s.former[own] = true }),
			""),
		"ready, record just written": stays(all(ready, justWritten), ""),
		"ready while a worker has work": stays(all(ready, changed(func(a *agent.Agent) { a.Generation++ })),
			""),
		"ready in a cell that is not the agent's": stays(all(ready,
			changed(func(a *agent.Agent) { a.Cell = "cell-2" })), ""),
		"ready for the first time": recovers(all(withAgent(failedAt(own, agent.StageReady)),
			withPod(readyPod(own, minute)))),
		"ready, but provisioning lacks the route": stays(all(withAgent(failedAt(own, agent.StageRoute)),
			withPod(readyPod(own, minute))), ""),
		"in error without a pod": stays(inError, ""),
		"ready, list of pods fails": {
			given:      all(ready, failing("pods cell-1")),
			wantStatus: agent.Error, wantFailure: crashLoop, wantError: true,
		},
		"ready, update fails": {
			given:      all(ready, failing("update")),
			wantStatus: agent.Error, wantFailure: crashLoop, wantCalls: "probe update", wantError: true,
		},
		"ready, started concurrently": {
			given: ready, concurrently: requested(agent.Start),
			wantStatus: agent.Provisioning, wantCalls: "probe update",
		},
		"ready, stopped concurrently": {
			given: ready, concurrently: requested(agent.Stop),
			wantStatus: agent.Stopped, wantCalls: "probe update",
		},
	}
}

// rowsOfMissingPods have a running agent whose pod is not in the list.
func rowsOfMissingPods() map[string]healthRow {
	noPod, noNamespace := existing(provisioning.Existence{Namespace: true}), existing(provisioning.Existence{})
	stays := func(given func(*healthFixture), wantCalls string) healthRow {
		return healthRow{given: given, wantStatus: agent.Running, wantCalls: wantCalls, wantAgent: untouched}
	}
	staysWithError := func(given func(*healthFixture), wantCalls string) healthRow {
		row := stays(given, wantCalls)
		row.wantError = true
		return row
	}
	return map[string]healthRow{
		"not in the list, but exists":   stays(all(), "existence"),
		"empty list, but exists":        stays(emptyCell, "existence"),
		"no namespace in an empty cell": stays(all(noNamespace, emptyCell), "existence"),
		"no namespace in an unknown cell": stays(all(noNamespace, changed(func(a *agent.Agent) { a.Cell = "cell-3" })),
			""),
		"no namespace, just written":   stays(all(noNamespace, justWritten), ""),
		"existence can't be read":      staysWithError(all(noNamespace, failing("existence")), "existence"),
		"list of pods fails":           staysWithError(all(noNamespace, failing("pods cell-1")), ""),
		"list of running agents fails": staysWithError(all(noNamespace, failing("list running")), ""),
		"no pod, update fails":         staysWithError(all(noPod, failing("update")), "existence update"),
		"no pod": {
			given:      noPod,
			wantStatus: agent.Running, wantCalls: "existence update nudge",
			wantAgent: func(a agent.Agent) string {
				if agent.LastServing(a.ServingHistory()) != agent.Down {
					return fmt.Sprintf("the agent's history is %+v, want it down", a.ServingHistory())
				}
				return beingRepaired(a)
			},
		},
		"no pod in an empty cell": {
			given:      all(noPod, emptyCell),
			wantStatus: agent.Running, wantCalls: "existence update nudge", wantAgent: beingRepaired,
		},
		"no pod, another cell's list fails": {
			given:      all(noPod, failing("pods cell-2")),
			wantStatus: agent.Running, wantCalls: "existence update nudge", wantAgent: beingRepaired, wantError: true,
		},
		"no pod, restarted concurrently": {
			given: noPod, concurrently: requested(agent.Restart),
			wantStatus: agent.Running, wantCalls: "existence update", wantAgent: beingRepaired,
		},
		"no pod, nudge fails": {
			given:      all(noPod, failing("nudge")),
			wantStatus: agent.Running, wantCalls: "existence update nudge", wantAgent: beingRepaired, wantError: true,
		},
		"no namespace": {
			given:      noNamespace,
			wantStatus: agent.Error, wantFailure: provisioning.CodeNamespaceMissing, wantCalls: "existence update",
			wantAgent: broke(false),
		},
		"no namespace while a worker has work": {
			given:      all(noNamespace, changed(underRepair)),
			wantStatus: agent.Running, wantAgent: beingRepaired,
		},
		"no namespace of a paused agent": {
			given:      all(noNamespace, changed(completed(agent.Pause))),
			wantStatus: agent.Paused,
		},
		"no namespace, stopped concurrently": {
			given: noNamespace, concurrently: requested(agent.Stop),
			wantStatus: agent.Stopped, wantCalls: "existence update",
		},
		"no namespace, removed concurrently": {
			given: noNamespace, concurrently: requested(agent.Delete),
			wantStatus: "", wantCalls: "existence update",
		},
	}
}
