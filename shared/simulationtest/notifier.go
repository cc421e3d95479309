package simulationtest

import "time"

// observe is what the notifier makes of a change of an agent's objects: a nudge, which may be lost, late or doubled. In
// some schedules there is no notifier at all.
func (w *World) observe(id string) {
	if w.unnotified || w.Chance(0.1) {
		return
	}
	publish := func() {
		for _, m := range w.Queue.publish(id, w.Elapsed()) {
			m.observed = true
		}
	}
	for range 1 + w.Choose(10)/9 {
		if w.Chance(0.3) {
			w.later("nudge of the notifier", w.Elapsed()+delays[w.Choose(len(delays))], publish)
		} else {
			publish()
		}
	}
}

// delays are how late a nudge of the notifier may be.
var delays = [...]time.Duration{ //nolint:gochecknoglobals // a constant
	100 * time.Millisecond, time.Second, 10 * time.Second, 70 * time.Second,
}
