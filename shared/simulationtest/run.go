package simulationtest

import (
	"cmp"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
)

// arrange applies the setup.
func (w *World) arrange() {
	u := w.setup
	w.Faults, w.FaultRate, w.Stalls, w.StallRate = u.Faults, cmp.Or(u.FaultRate, 0.04), u.Stalls, 0.03
	w.FaultService = u.FaultService
	if u.Verdicts != nil {
		w.Verdicts = u.Verdicts
	}
	for i, script := range u.Scripts {
		w.clients = append(w.clients, &client{name: fmt.Sprint("client ", i), script: script, repeats: w.Choose(3)})
	}
	w.Queue.Twice = u.Twice
	w.skews = []time.Duration{u.Skew, 0, -u.Skew, u.Skew / 2}
	w.Secrets.Lag = func() int {
		if w.setup.Lags > 0 && !w.quiet && w.Chance(0.5) {
			w.setup.Lags--
			return 1 + w.Choose(2)
		}
		return 0
	}
	w.Cluster.Rules, w.Secrets.Rules, w.Database.Rules = w.Plant.Cluster, w.Plant.Secrets, w.Plant.Database
	w.Secrets.Added = func(id, key string) {
		if w.Database.gone[id] {
			w.violate("late secrets", "a version of %s was added after agent %s was gone", key, short(id))
		}
	}
	w.Secrets.Accessed = w.checkRead
	w.Database.Started = func(id string) { delete(w.lostVolume, id) }
	w.Database.Moved = w.checkDeparture
	w.Database.Changed = func(o organizationDocument, before, after agent.Agent) {
		w.checkPause(o, before, after)
		w.checkResize(o, before, after)
		w.checkWake(before, after)
	}
	w.Database.Removed = func(id string, d agent.Deletion) {
		w.checkReceipt(id, d)
		if n := w.removedFrom(id); n != nil && n.terminating {
			w.violate("removed early", "the record of agent %s was removed before its namespace was gone", short(id))
		}
	}
	w.Cluster.deleted, w.Cluster.wasCut = w.checkDropped, w.checkQuiet
	w.Cluster.storage.cutTime = w.setup.CutTime
	w.Cluster.observed, w.unnotified = w.observe, w.Chance(0.25)
	w.subscribe()
	if w.setup.webhooks() {
		w.addWebhooks()
	}
	if w.setup.Release != nil {
		w.arrangeFleet()
	}
	if w.setup.Schedules {
		w.addSchedules()
	}
	if w.setup.Visitors > 0 {
		w.arrangeVisitors()
	}
	w.arrangeCells()
}

// waits are how long time passes while processes could go on.
var waits = [...]time.Duration{ //nolint:gochecknoglobals // a constant
	100 * time.Millisecond, time.Second, 6 * time.Second, 31 * time.Second, 61 * time.Second,
}

// play runs the part of the schedule in which faults may happen.
func (w *World) play() {
	for range w.setup.Steps {
		if w.Chance(0.02) {
			synctest.Wait()
			w.Pass(waits[w.Choose(len(waits))])
		}
		if !w.Next(w.environment()) {
			if w.over() {
				return
			}
			w.Pass(w.untilNext())
		}
		synctest.Wait()
		if w.check(); w.violation != "" {
			return
		}
	}
}

// over reports whether nothing is left to do.
func (w *World) over() bool {
	return w.live == 0 && len(w.late) == 0 && len(w.Queue.messages) == 0 && len(w.Queue.dead) == 0 &&
		len(w.webhookQueue.messages) == 0 && !w.clientsReady() && w.nextDue().IsZero() && len(w.events) == 0 &&
		len(w.setup.Payments) == 0 && w.setup.Visitors == 0 && w.visitors.held() == 0
}

func (w *World) clientsReady() bool {
	for _, c := range w.clients {
		if c.ready() {
			return true
		}
	}
	return false
}

// nextDue is the earliest time at which an agent is due; zero for none.
func (w *World) nextDue() (due time.Time) {
	due = w.webhooksDue()
	for _, r := range w.Database.releases {
		if at := r.release.DueAt; !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	for _, d := range w.Database.agents {
		for _, at := range [...]time.Time{d.agent.WorkDueAt, w.callsDue(&d.agent)} {
			if !at.IsZero() && (due.IsZero() || at.Before(due)) {
				due = at
			}
		}
	}
	return due
}

// untilNext is the time until something can happen again.
func (w *World) untilNext() time.Duration {
	now := w.Elapsed()
	next := now + time.Minute
	consider := func(at time.Duration) {
		if at > now {
			next = min(next, at)
		}
	}
	for _, m := range slices.Concat(w.Queue.messages, w.webhookQueue.messages) {
		if !m.delivered {
			consider(m.notBefore)
		}
	}
	for _, m := range w.Queue.dead {
		consider(m.notBefore)
	}
	for _, e := range w.events {
		consider(e.notBefore)
	}
	w.mu.Lock()
	for _, waiting := range w.parked {
		consider(waiting.process.stalledUntil)
	}
	w.mu.Unlock()
	for _, c := range w.cells() {
		for _, n := range c.namespaces {
			if n.terminating {
				consider(n.stuckUntil)
			}
		}
	}
	return max(next-now, time.Millisecond)
}

// environment lists what can happen outside of the running processes.
func (w *World) environment() []Action {
	synctest.Wait() // for the consequences of the last step
	actions := w.Cluster.Actions(w.Elapsed(), w.actions[:0])
	if w.Other != nil {
		actions = w.Other.Actions(w.Elapsed(), actions)
	}
	actions = w.visits(actions)
	actions = w.paymentActions(w.webhookDeliveries(w.deliveries(actions)))
	if !w.quiet {
		actions = w.disturbances(actions)
	}
	for _, c := range w.clients {
		if c.ready() {
			actions = append(actions, Action{"sends", c.name, func() { w.send(c) }})
		}
	}
	w.actions = actions
	return actions
}

// restTime is how long a world may take to come to rest after the last fault.
const restTime = 90 * time.Hour

// settle ends all faults and runs the world until nothing is left to do.
func (w *World) settle() {
	w.quiet, w.quietSince = true, w.Elapsed()
	w.setup.Workers = 3
	w.Faults, w.Stalls, w.Queue.Twice = 0, 0, false
	asked := map[string]bool{}
	patient := w.Chance(0.5)
	rounds, turns, collections := 0, 0, 0
	for w.violation == "" && rounds < 1 {
		if turns++; w.Elapsed()-max(w.quietSince, w.receiver.upSince) > restTime || turns > 100_000 {
			w.violate("rest", "not at rest after %v: %s", restTime, w.describe())
			return
		}
		if w.Next(w.environment()) {
			synctest.Wait()
			w.check()
			continue
		}
		now := w.Elapsed()
		due := w.nextDue()
		switch {
		case !due.IsZero() && !due.After(w.Now()) && now-w.swept >= time.Minute:
			w.sweep()
		case w.live > 0 || len(w.late) > 0 || len(w.Queue.messages) > 0 || len(w.Queue.dead) > 0,
			len(w.events) > 0, len(w.webhookQueue.messages) > 0:
			w.Pass(w.untilNext())
		case !due.IsZero():
			w.Pass(max(due.Sub(w.Now()), time.Minute-(now-w.swept), time.Millisecond))
		case patient && w.careful(asked):
		case w.awaitVisitors():
		case w.enforceLater(), w.webhookAgain(), w.finally():
		case (w.orphans() || w.setup.WrongDatabase) && collections < 3:
			w.Pass([]time.Duration{2 * time.Hour, 25 * time.Hour, 25 * time.Hour}[collections])
			collections++
			w.collect()
		default:
			if w.maintain() {
				rounds++
			} else {
				rounds = 0
			}
		}
		synctest.Wait()
		w.check()
	}
}

// maintain runs the scheduled workers once and reports whether they found nothing to do.
func (w *World) maintain() bool {
	wait := time.Minute
	for _, d := range w.Database.agents {
		if d.agent.Status == agent.Error && w.healthyPod(d.agent) {
			wait = 11 * time.Minute // a pod that had crashed must be ready for this long
		}
		if d.agent.Status == agent.Running && w.home(d.agent.ID).trouble(d.agent.ID) != healthy {
			wait = 11 * time.Minute // until the pod counts as broken
		}
	}
	if w.clocksJumped {
		wait = max(wait, maxJumps+time.Minute) // until no record is newer than the clock
	}
	w.Pass(wait)
	before, published := w.Database.Commits, w.Queue.Published
	w.checkHealth()
	w.checkDrift()
	w.sweep()
	for !w.Idle() && w.violation == "" {
		if !w.Next(nil) {
			w.Pass(w.untilNext())
		}
	}
	return w.Database.Commits == before && w.Queue.Published == published
}

// describe says what keeps the world from rest.
func (w *World) describe() string {
	text := fmt.Sprintf("%d processes, %d late effects, %d messages", w.live, len(w.late), len(w.Queue.messages))
	for _, id := range w.Database.ids {
		a, _ := w.Database.Agent(id)
		text += fmt.Sprintf("; agent %s is %s, generation %d observed %d, attempts %d, failure %+v, due %v, "+
			"deadline %v, operations %+v", short(id), a.Status, a.Generation, a.ObservedGeneration, a.Attempts,
			a.Failure, a.WorkDueAt.Sub(w.Now()), a.Deadline, a.Operations)
	}
	return text
}
