package simulationtest

import (
	"context"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// starter is who starts an agent without a pod.
type starter string

// starterOf is who starts an agent, as its route must say.
func starterOf(a agent.Agent) starter {
	switch {
	case a.StartsOnRequest():
		return dataplane.StarterRequest
	case !a.WantsPod():
		return dataplane.StarterOwner
	default:
		return ""
	}
}

// SleepRules undo guards of the router and of the front. The zero value has all guards.
type SleepRules struct {
	// OpenDoor forwards requests through a closed door, and CloseBusy closes a door behind which requests are answered.
	OpenDoor, CloseBusy bool
	// Reclose closes a door once more that was opened because nothing answered in time.
	Reclose bool
	// AskOnce asks for each wake once.
	AskOnce bool
	// DropWakes takes a wake for any other nudge.
	DropWakes bool
}

// door is the door of a pod's front.
type door struct {
	// name is that of the door that is closed, until a time at which it opens because nothing has answered.
	name  string
	until time.Duration
	// checked: a worker saw that the door is closed for long enough. expired: the front opened it without an answer.
	checked, expired bool
}

func (d door) closed(now time.Duration) bool { return d.name != "" && now < d.until }

// visitor is a request to the agent.
type visitor struct {
	number int
	// at is the pod that has the request; nil while the router holds it.
	at       *pod
	answered bool
}

// visitors are the requests to the agent, and what is known of them.
type visitors struct {
	all []*visitor
	// asked is when the router last asked for a wake.
	asked time.Duration
	doors int
	// paused: the only client has paused the agent, and has not started it since.
	paused, single bool
	// last: the request that is sent when all is at rest was sent.
	last bool
}

// held counts the requests that the router holds.
func (v *visitors) held() (n int) {
	for _, each := range v.all {
		if !each.answered && each.at == nil {
			n++
		}
	}
	return n
}

// busy reports whether a pod has a request.
func (v *visitors) busy(at *pod) bool {
	for _, each := range v.all {
		if !each.answered && each.at == at {
			return true
		}
	}
	return false
}

// heard is told of the answer to a client's call.
func (v *visitors) heard(action string, ok bool) {
	if action == "pause" && ok {
		v.paused = v.single
	}
}

// arrangeVisitors makes the agent one that sleeps.
func (w *World) arrangeVisitors() {
	id := agentID(1)
	if w.Database.agents[id] == nil {
		return
	}
	w.Database.Arrange(id, func(a *agent.Agent) { a.Sleep = agent.SleepAfter(agent.MinSleepSeconds) })
	if n := w.Cluster.namespaces[id]; n != nil {
		n.starter = starterOf(w.Database.agents[id].agent)
	}
	w.visitors.asked, w.visitors.single = -time.Hour, len(w.setup.Scripts) < 2
	w.Cluster.ended = w.checkCut
}

// visits lists what requests, the router and the front can do.
func (w *World) visits(actions []Action) []Action {
	id := agentID(1)
	n := w.Cluster.namespaces[id]
	if n == nil || w.Cluster.ended == nil {
		w.setup.Visitors, w.visitors.all = 0, nil // there is no such agent
		return actions
	}
	add := func(name string, do func()) { actions = append(actions, Action{name, short(id), do}) }
	if w.setup.Visitors > 0 && w.Chance(0.1) {
		add("a visitor comes", func() { w.setup.Visitors--; w.visit() })
	}
	for _, v := range w.visitors.all {
		if v.at != nil && !v.answered && (w.quiet || w.Chance(0.2)) {
			add("visitor "+strconv.Itoa(v.number)+" is answered", func() { v.answered, v.at = true, nil })
		}
	}
	serves := n.pod != nil && n.pod.ready && n.stages[agent.StageRoute] && !n.terminating
	now := w.Elapsed()
	if w.visitors.held() > 0 {
		actions = w.route(n, serves, actions)
	}
	if serves && w.setup.Idles > 0 && n.pod.door.name == "" && n.starter == dataplane.StarterRequest &&
		(!w.visitors.busy(n.pod) || w.Plant.Sleep.CloseBusy) && w.Chance(0.1) {
		add("the front closes its door", func() { w.setup.Idles--; w.closeDoor(id, n.pod, now) })
	}
	return actions
}

// route lists what the router can do with the requests that it holds.
func (w *World) route(n *namespace, serves bool, actions []Action) []Action {
	id, now := agentID(1), w.Elapsed()
	add := func(name string, do func()) { actions = append(actions, Action{name, short(id), do}) }
	open := serves && (!n.pod.door.closed(now) || w.Plant.Sleep.OpenDoor)
	switch {
	case open:
		add("the router forwards", func() {
			for _, v := range w.visitors.all {
				if v.at == nil && !v.answered {
					v.at = n.pod
				}
			}
		})
	case n.terminating, n.starter == dataplane.StarterOwner && !serves:
		add("visitors read that only the owner starts the agent", func() {
			for _, v := range w.visitors.all {
				v.answered = v.answered || v.at == nil
			}
		})
	case now-w.visitors.asked >= askAgain && (!w.Plant.Sleep.AskOnce || w.visitors.asked < 0):
		add("the router asks for a wake", func() {
			w.visitors.asked = now
			w.wake(id)
		})
	}
	return actions
}

// askAgain is how long the router waits before it asks for the same wake again.
const askAgain = 5 * time.Second

// visit adds a request, which the router holds first.
func (w *World) visit() {
	w.visitors.all = append(w.visitors.all, &visitor{number: len(w.visitors.all) + 1})
}

// wake is the notifier's nudge for a wake, which may be lost, late or doubled.
func (w *World) wake(id string) {
	if !w.quiet && w.Chance(0.2) {
		return
	}
	publish := func() {
		for _, m := range w.Queue.publish(id, w.Elapsed()) {
			m.wake, m.observed, m.asked = true, true, w.Now()
		}
	}
	for range 1 + w.Choose(10)/9 {
		if w.Chance(0.3) {
			w.later("nudge for a wake", w.Elapsed()+delays[w.Choose(len(delays))], publish)
		} else {
			publish()
		}
	}
}

// closeDoor closes the door of a front, which then reports until it knows whether the agent sleeps.
func (w *World) closeDoor(id string, at *pod, now time.Duration) {
	w.visitors.doors++
	name := "door " + strconv.Itoa(w.visitors.doors)
	at.door = door{name: name, until: now + dataplane.DoorTime}
	w.start("front", func(ctx context.Context, p *Process) error {
		ctx = apicall.With(ctx, &apicall.Call{
			Caller:  identity.Caller{Type: identity.Agent, ID: id, OrganizationID: organizationID},
			Request: audit.Request{Action: "SleepAgent", RequestID: name}, Entry: audit.NewCallEntry(),
		})
		store := w.agents("front", p) // not after a pause, which ends while the scheduler runs
		for {
			_, err := store.Change(ctx, id, func(a *agent.Agent) error {
				return a.FallAsleep(name, p.Now().UTC())
			})
			if pause := w.answerFront(p, at, name, err); pause > 0 {
				time.Sleep(pause) //nolint:forbidigo // in the bubble's time
				continue
			}
			return err
		}
	})
}

// answerFront tells a front the answer to its report, and returns when it reports again; 0 for never.
func (w *World) answerFront(p *Process, at *pod, name string, err error) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, now := &at.door, w.Elapsed()
	n := w.Cluster.namespaces[agentID(1)]
	switch expired := now >= d.until && !w.Plant.Sleep.Reclose; {
	case n == nil || n.pod != at || d.name != name:
		return 0
	case p.crashed, expired, err != nil && !fault.Is(err, fault.Unavailable):
		d.name, d.expired = "", expired || p.crashed
		return 0
	case err == nil:
		d.until = now + dataplane.DoorTime
		return askAgain
	default:
		return 2 * time.Second
	}
}

// checkCut checks that a pod that goes because its agent sleeps has no request. One that came because nothing answered
// the front in time is not lost: the front answers it before it ends.
func (w *World) checkCut(id string, n *namespace) {
	d := n.pod.door
	expired := d.checked && (d.expired || d.name != "" && w.Elapsed() >= d.until)
	for _, v := range w.visitors.all {
		if v.at != n.pod || v.answered {
			continue
		}
		if n.set.asleep && !expired {
			w.violate("sleep", "agent %s fell asleep while visitor %d was being answered", short(id), v.number)
		}
		v.answered, v.at = true, nil
	}
}

// checkWake checks the commit of a wake: only an agent that sleeps is woken, and never one that a client has paused.
func (w *World) checkWake(before, after agent.Agent) {
	if before.ID != agentID(1) || before.Status != agent.Paused || !after.Status.Up() {
		return
	}
	if after.WokenBy != agent.WokenByRequest || before.WokenBy == agent.WokenByRequest && !before.Asleep() {
		w.visitors.paused = false // a client's call
		return
	}
	if before.StatusReason != agent.ReasonIdle || w.visitors.paused {
		w.violate("wake", "a request woke agent %s, which was paused (%s)", short(after.ID), before.StatusReason)
	}
}

// awaitVisitors sends one more request once all is at rest, and lets time pass while the router holds some. It reports
// whether it did either.
func (w *World) awaitVisitors() bool {
	if w.Cluster.ended == nil {
		return false
	}
	if !w.visitors.last {
		w.visitors.last, w.setup.Idles = true, 0
		w.visit()
		return true
	}
	if a, _ := w.Database.Agent(agentID(1)); w.visitors.held() == 0 || a.Status == agent.Error ||
		w.Elapsed()-w.quietSince > visitTime {
		return false
	}
	w.Pass(askAgain)
	return true
}

// visitTime is more than a request waits for an agent in a world without faults.
const visitTime = 80 * time.Hour

// checkVisitorsAtRest checks that no request waits for an agent that a request starts.
func (w *World) checkVisitorsAtRest() {
	if w.Cluster.ended == nil {
		return
	}
	for _, v := range w.visitors.all {
		a, ok := w.Database.Agent(agentID(1))
		if ok && !v.answered && a.Status != agent.Error {
			w.violate("visitors", "visitor %d waits for agent %s, which is %s (%s)", v.number, short(a.ID), a.Status,
				a.StatusReason)
		}
	}
}
