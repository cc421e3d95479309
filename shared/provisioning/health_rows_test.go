package provisioning_test

import (
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// row is a world, and what one look at it leads to.
type row struct {
	prepare func(*scene)
	status  agent.Status
	// code is that of the failure; empty for none.
	code string
	// calls are those about the agent.
	calls string
	// also tells what else is wrong with the agent; it may be nil.
	also   func(agent.Agent) string
	failed bool
}

// pod is a world with this pod of the running agent.
func pod(p provisioning.Pod) func(*scene) {
	return func(s *scene) { s.pods["cell-1"] = append(s.pods["cell-1"], p) }
}

// with does one thing after another.
func with(steps ...func(*scene)) func(*scene) {
	return func(s *scene) {
		for _, do := range steps {
			do(s)
		}
	}
}

// as has the agent be another than one that runs.
func as(a agent.Agent) func(*scene) { return func(s *scene) { s.add(a) } }

// turned has something have been done to the agent a while ago.
func turned(change func(*agent.Agent)) func(*scene) {
	return func(s *scene) { change(s.agents[own]) }
}

func down(what string) func(*scene) { return func(s *scene) { s.down[what] = true } }

func has(p provisioning.Existence) func(*scene) { return func(s *scene) { s.presence[own] = p } }

func meanwhile(trigger agent.Trigger) func(*scene) {
	return func(s *scene) { s.meanwhile = func(a *agent.Agent) { _ = a.Act(trigger, agent.Manual, observedAt) } }
}

func empty(s *scene) { s.pods["cell-1"] = nil }

// justWritten has the record been written a moment ago, so that a list may tell of what was before.
func justWritten(s *scene) { s.agents[own].UpdatedAt = observedAt.Add(-4 * time.Second) }

func broken(permanent bool) func(agent.Agent) string {
	return func(a agent.Agent) string {
		if f := a.Failure; f.Stage != "" || f.Retryable == permanent || f.Message == "" || !a.Converged() ||
			!a.WorkDueAt.IsZero() {
			return fmt.Sprintf("failure %+v, generation %d observed %d", f, a.Generation, a.ObservedGeneration)
		}
		return ""
	}
}

func mended(a agent.Agent) string {
	if len(a.Unfinished()) > 0 || !a.Converged() || a.Warming || !a.WorkDueAt.IsZero() {
		return fmt.Sprintf("unfinished %v, generation %d observed %d", a.Unfinished(), a.Generation,
			a.ObservedGeneration)
	}
	return ""
}

func repaired(a agent.Agent) string {
	if a.Converged() || !a.Warming || a.Deadline.IsZero() || a.WorkDueAt.IsZero() {
		return "nobody is asked to bring it up again"
	}
	return ""
}

func untouched(a agent.Agent) string {
	if !a.Converged() || a.Warming {
		return "it was touched"
	}
	return ""
}

// breaking are the worlds in which a pod is there and isn't well.
func breaking() map[string]row {
	const minute, image, room = time.Minute, "image_pull_failed", "pod_unschedulable"
	crash, timeout := "pod_crash_loop", "readiness_timeout"
	kept := func(p provisioning.Pod) row { return row{prepare: pod(p), status: agent.Running, also: untouched} }
	lost := func(p provisioning.Pod) row {
		return row{
			prepare: pod(p), status: agent.Error, code: p.Failure.Code, calls: "load record",
			also: broken(p.Failure.Permanent),
		}
	}
	looping := pod(brokenPod(crash, true, minute, time.Second))
	return map[string]row{
		"well":                             kept(readyPod(own, minute)),
		"ready a moment ago":               kept(readyPod(own, 0)),
		"a crash loop":                     lost(brokenPod(crash, true, 0, time.Second)),
		"out of memory, again and again":   lost(brokenPod("out_of_memory", true, minute, minute)),
		"an image without a name":          lost(brokenPod(image, true, 0, 0)),
		"an image, for a moment":           kept(brokenPod(image, false, 29*time.Second, 0)),
		"an image":                         lost(brokenPod(image, false, 30*time.Second, 0)),
		"no room, for a moment":            kept(brokenPod(room, false, 29*time.Second, 0)),
		"no room":                          lost(brokenPod(room, false, 30*time.Second, 0)),
		"not ready for nearly ten minutes": kept(brokenPod(timeout, false, 10*minute-time.Second, 0)),
		"not ready for ten minutes":        lost(brokenPod(timeout, false, 10*minute, 0)),
		"some crashes":                     kept(brokenPod(crash, false, minute, time.Second)),
		"some crashes for ten minutes":     lost(brokenPod(crash, false, 10*minute, time.Second)),
		"a crash after a long life":        kept(brokenPod(crash, true, minute, 10*minute)),
		"the same for ten minutes":         lost(brokenPod(crash, true, 10*minute, 10*minute)),
		"broken, but just written": {
			prepare: with(looping, justWritten), status: agent.Running, code: "",
			calls: "load", also: untouched, failed: false,
		},
		"broken, and a worker is at it": {
			prepare: with(looping,
				turned(func(a *agent.Agent) { a.Repair(observedAt.Add(-minute)) })), status: agent.Running, code: "",
			calls: "load", also: nil, failed: false,
		},
		"broken, of a paused agent": {
			prepare: with(looping, turned(settled(agent.Pause))),
			status:  agent.Paused, code: "", calls: "load", also: nil, failed: false,
		},
		"broken, of a stopped agent": {
			prepare: with(looping, turned(settled(agent.Stop))),
			status:  agent.Stopped, code: "", calls: "load", also: nil, failed: false,
		},
		"broken, of one that is deleted": {
			prepare: with(looping, turned(settled(agent.Delete))),
			status:  agent.Deleting, code: "", calls: "load", also: nil, failed: false,
		},
		"broken, of one in error": {
			prepare: with(as(failedAt(own, "")), looping), status: agent.Error,
			code: crash, calls: "", also: nil, failed: false,
		},
		"broken, and errors can't be listed": {
			prepare: with(as(failedAt(own, "")), looping, down("list error")),
			status:  agent.Error, code: crash, calls: "load", also: nil, failed: true,
		},
		"broken, and others can't be listed": {
			prepare: with(looping, down("list running")), status: agent.Error,
			code: crash, calls: "load record", also: broken(true), failed: true,
		},
		"broken, in a cell that isn't its": {prepare: func(s *scene) {
			s.agents[own].Cell, s.pods["cell-2"] = "cell-2", []provisioning.Pod{readyPod(own, minute)}
			looping(s)
		}, status: agent.Running, code: "", calls: "load", also: untouched, failed: false},
		"broken, and restarted meanwhile": {
			prepare: with(looping, meanwhile(agent.Restart)), status: agent.Running,
			code: "", calls: "load record", also: repaired, failed: false,
		},
		"broken, and stopped meanwhile": {
			prepare: with(looping, meanwhile(agent.Stop)), status: agent.Stopped,
			code: "", calls: "load record", also: nil, failed: false,
		},
		"broken, and another saw it first": {prepare: with(looping, func(s *scene) {
			s.meanwhile = func(a *agent.Agent) { a.Break(agent.Failure{Code: timeout, Message: "m"}, observedAt) }
		}), status: agent.Error, code: timeout, calls: "load record", also: nil, failed: false},
		"broken, and gone meanwhile": {
			prepare: with(looping, meanwhile(agent.Delete)), status: "", code: "",
			calls: "load record", also: nil, failed: false,
		},
		"broken, and gone": {
			prepare: with(looping, func(s *scene) { delete(s.agents, own) }),
			status:  "", code: "", calls: "load", also: nil, failed: false,
		},
		"broken, and the record can't be had": {
			prepare: with(looping, down("load")), status: agent.Running, code: "",
			calls: "load", also: untouched, failed: true,
		},
		"broken, and can't be written": {
			prepare: with(looping, down("record")), status: agent.Running, code: "",
			calls: "load record", also: untouched, failed: true,
		},
		"broken, while a cell is out": {
			prepare: with(looping, down("pods cell-2")), status: agent.Error,
			code: crash, calls: "load record", also: broken(true), failed: true,
		},
	}
}

// settled has a client's action have been brought about a while ago.
func settled(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) {
		_ = a.Act(trigger, agent.Manual, observedAt.Add(-time.Minute))
		a.MarkObserved(observedAt.Add(-time.Minute))
	}
}

// mending are the worlds in which an agent is in error and its pod is well.
func mending() map[string]row {
	const crash, minute = "pod_crash_loop", time.Minute
	failed := as(failedAt(own, ""))
	after := func(ready, lastRun time.Duration) func(*scene) {
		p := readyPod(own, ready)
		p.LastRun = lastRun
		return with(failed, pod(p))
	}
	stays := func(prepare func(*scene), calls string) row {
		return row{prepare: prepare, status: agent.Error, code: crash, calls: calls}
	}
	mends := func(prepare func(*scene)) row {
		return row{prepare: prepare, status: agent.Running, calls: "probe record", also: mended}
	}
	well := after(minute, 0)
	return map[string]row{
		"ready for a moment":             stays(after(14*time.Second, 0), ""),
		"ready":                          mends(after(15*time.Second, 0)),
		"ready, not for long enough":     stays(after(119*time.Second, minute), ""),
		"ready for longer than it lived": mends(after(120*time.Second, minute)),
		"ready for nearly ten minutes":   stays(after(10*minute-time.Second, 9*minute), ""),
		"ready for ten minutes":          mends(after(10*minute, 9*minute)),
		"ready after a long life":        mends(after(15*time.Second, 10*minute)),
		"ready, and doesn't answer":      stays(with(well, down("probe")), "probe"),
		"ready, of a former state":       stays(with(well, func(s *scene) { s.former[own] = true }), ""),
		"ready, but just written":        stays(with(well, justWritten), ""),
		"ready, and a worker is at it":   stays(with(well, turned(func(a *agent.Agent) { a.Generation++ })), ""),
		"ready, and the cell is out": {
			prepare: with(well, down("pods cell-1")), status: agent.Error, code: crash,
			calls: "", also: nil, failed: true,
		},
		"ready, and can't be written": {
			prepare: with(well, down("record")), status: agent.Error, code: crash,
			calls: "probe record", also: nil, failed: true,
		},
		"ready, in a cell that isn't its": stays(with(well, turned(func(a *agent.Agent) { a.Cell = "cell-2" })), ""),
		"never was ready, and is":         mends(with(as(failedAt(own, agent.StageReady)), pod(readyPod(own, minute)))),
		"ready, but has no route": {prepare: with(as(failedAt(own, agent.StageRoute)),
			pod(readyPod(own, minute))), status: agent.Error, code: crash, calls: "", also: nil, failed: false},
		"ready, and started meanwhile": {
			prepare: with(well, meanwhile(agent.Start)), status: agent.Provisioning,
			code: "", calls: "probe record", also: nil, failed: false,
		},
		"ready, and stopped meanwhile": {
			prepare: with(well, meanwhile(agent.Stop)), status: agent.Stopped, code: "",
			calls: "probe record", also: nil, failed: false,
		},
		"in error without a pod": stays(failed, ""),
	}
}

// missing are the worlds in which a running agent has no pod.
func missing() map[string]row {
	const gone = provisioning.CodeNamespaceMissing
	noPod, nothing := has(provisioning.Existence{Namespace: true}), has(provisioning.Existence{})
	stays := func(prepare func(*scene), calls string, failed bool) row {
		return row{prepare: prepare, status: agent.Running, calls: calls, also: untouched, failed: failed}
	}
	return map[string]row{
		"not in the list, and there": stays(with(), "presence", false),
		"an empty list, and there":   stays(empty, "presence", false),
		"without a pod": {
			prepare: noPod, status: agent.Running, code: "",
			calls: "presence record nudge", also: repaired, failed: false,
		},
		"an empty list, without a pod": {
			prepare: with(noPod, empty), status: agent.Running, code: "",
			calls: "presence record nudge", also: repaired, failed: false,
		},
		"without a namespace": {
			prepare: nothing, status: agent.Error, code: gone,
			calls: "presence record", also: broken(false), failed: false,
		},
		"an empty cell":      stays(with(nothing, empty), "presence", false),
		"nobody can say":     stays(with(nothing, down("presence")), "presence", true),
		"a list that failed": stays(with(nothing, down("pods cell-1")), "", true),
		"a list of others that failed": {
			prepare: with(noPod, down("pods cell-2")), status: agent.Running,
			code: "", calls: "presence record nudge", also: repaired, failed: true,
		},
		"a cell that isn't known": stays(with(nothing, turned(func(a *agent.Agent) { a.Cell = "cell-3" })),
			"", false),
		"just written": stays(with(nothing, justWritten), "", false),
		"a worker is at it": {
			prepare: with(nothing,
				turned(func(a *agent.Agent) { a.Repair(observedAt.Add(-time.Minute)) })), status: agent.Running, code: "",
			calls: "", also: repaired, failed: false,
		},
		"paused": {
			prepare: with(nothing, turned(settled(agent.Pause))),
			status:  agent.Paused, code: "", calls: "", also: nil, failed: false,
		},
		"records can't be listed": stays(with(nothing, down("list running")), "", true),
		"without a pod, restarted meanwhile": {
			prepare: with(noPod, meanwhile(agent.Restart)), status: agent.Running,
			code: "", calls: "presence record", also: repaired, failed: false,
		},
		"without a namespace, stopped then": {
			prepare: with(nothing, meanwhile(agent.Stop)), status: agent.Stopped,
			code: "", calls: "presence record", also: nil, failed: false,
		},
		"without a namespace, gone then": {
			prepare: with(nothing, meanwhile(agent.Delete)), status: "", code: "",
			calls: "presence record", also: nil, failed: false,
		},
		"without a pod, and can't be written": stays(with(noPod, down("record")), "presence record", true),
		"without a pod, and the queue is down": {
			prepare: with(noPod, down("nudge")), status: agent.Running, code: "",
			calls: "presence record nudge", also: repaired, failed: true,
		},
	}
}
