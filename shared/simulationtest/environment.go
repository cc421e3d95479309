package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// deliveries lists what the queue can do.
func (w *World) deliveries(actions []Action) []Action {
	now := w.Elapsed()
	for _, m := range w.Queue.messages {
		expired := m.delivered && now-m.since >= pushTime
		if (!m.delivered && m.notBefore <= now || expired) && w.workers < w.setup.Workers {
			actions = append(actions, Action{"delivers", m.label(), func() { w.deliver(m) }})
		}
	}
	for _, m := range w.Queue.dead {
		if m.notBefore <= now {
			actions = append(actions, Action{"dead letter", m.label(), func() { w.bury(m) }})
		}
	}
	return actions
}

// disturbances lists what can go wrong, as often as the setup allows.
func (w *World) disturbances(actions []Action) []Action {
	u := &w.setup
	if u.Duplicates > 0 && w.Chance(0.1) {
		for _, m := range w.Queue.messages {
			actions = append(actions, Action{"duplicates", m.label(), func() {
				u.Duplicates--
				w.Queue.publish(m.agentID, w.Elapsed())
			}})
		}
	}
	if u.DeadLetters > 0 && w.Chance(0.1) {
		for _, m := range w.Queue.messages {
			if !m.delivered {
				actions = append(actions, Action{"gives up", m.label(), func() {
					u.DeadLetters--
					m.attempts = maxDeliveries
					w.Queue.end(m, &Error{}, w.Elapsed())
				}})
			}
		}
	}
	if u.Ticks > 0 && w.Chance(0.1) {
		actions = append(actions,
			Action{"tick", "sweep", func() { u.Ticks--; w.sweep() }},
			Action{"tick", "health", func() { u.Ticks--; w.checkHealth() }},
			Action{"tick", "drift", func() { u.Ticks--; w.checkDrift() }})
	}
	if u.Restarts > 0 && w.Chance(0.1) {
		for _, c := range w.cells() {
			for _, a := range c.Disturbances(nil) {
				actions = append(actions, Action{a.Name, a.Object, func() { u.Restarts--; a.Do() }})
			}
		}
	}
	if u.DeletedObjects > 0 && w.Chance(0.1) {
		actions = w.handiwork(actions)
	}
	return w.disasters(w.loseVolume(w.clockJumps(w.rollouts(actions))))
}

// disasters lists outages, troubles of pods and what people do by hand.
func (w *World) disasters(actions []Action) []Action {
	u, id := &w.setup, agentID(1)
	if u.OutageTime > 0 && w.Chance(0.1) {
		actions = append(actions, Action{"outage begins", u.Outage.String(), func() {
			w.SetDown(u.Outage, true)
			until := w.Elapsed() + u.OutageTime
			u.OutageTime = 0
			w.later("outage ends", until, func() { w.SetDown(u.Outage, false); w.quietSince = w.Elapsed() })
		}})
	}
	if u.TroubleTime > 0 && w.Chance(0.1) {
		actions = append(actions, Action{"pods get into trouble", string(u.Trouble), func() {
			trouble, until := u.Trouble, w.Elapsed()+u.TroubleTime
			u.TroubleTime, w.mayFail[id] = 0, true
			w.suffer(id, trouble)
			w.later("pods recover", until, func() { w.suffer(id, healthy); w.Cluster.notify() })
		}})
	}
	if n := w.Cluster.namespaces[id]; n != nil && u.Stuck > 0 && n.terminating {
		n.stuckUntil = w.Elapsed() + u.Stuck
		u.Stuck = 0
	}
	if n := w.home(id).namespaces[id]; n != nil && u.DeletedByHand && w.Chance(0.05) {
		actions = append(actions, Action{"a person deletes the namespace", short(id), func() {
			u.DeletedByHand = false
			w.mayFail[id], w.deletedByHand[id] = true, true
			if a, _ := w.Database.Agent(id); a.Status != agent.Provisioning && a.Status != agent.Pending {
				w.lostVolume = map[string]int{id: n.volume()}
			}
			w.home(id).deleteNamespace(id, "", "person")
		}})
	}
	return actions
}

// later makes something happen at a time.
func (w *World) later(name string, at time.Duration, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, effect{process: "environment", name: name, do: do, landBy: at, exact: true})
}
