package simulationtest

import (
	"time"

	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/secret"
)

// repeatUnanswered makes a client repeat a request with values, with its key, that got no answer. It reports whether it
// sent anything.
func (w *World) repeatUnanswered(done map[string]bool) bool {
	if w.Elapsed() > idempotency.Retention-time.Hour {
		return false // the answers are not kept any more
	}
	if w.setup.Skew != 0 {
		return false // by the clocks, a value may be older than its request: a repeat adds it again
	}
	for _, c := range w.calls {
		brings := c.action == "create with secrets" || c.action == "put"
		if done[c.name] || c.running || c.answered || !brings {
			continue
		}
		done[c.name], c.undisturbed = true, true
		w.request(c)
		return true
	}
	return false
}

// checkStored checks that a successful repeat that nothing disturbed has stored its values.
func (w *World) checkStored(c *call) {
	for _, id := range w.Database.Order {
		o := w.Database.Operations[id]
		if w.Database.Calls[id] == c.name && o.Open() && o.Stage == secret.Store {
			w.violate("repeats", "the repeat of %s succeeded, and the value of its operation %s is not stored", c.name,
				o.Key)
		}
	}
}
