package simulationtest

import (
	"errors"
	"math"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// maxPush is how long a push may be held.
const maxPush = 10 * time.Second

// push is one delivery to a worker, for the oracle.
type push struct {
	world   *World
	process *Process
	message *message
	began   time.Duration
	// before is the record at the beginning, and number counts the deliveries until then.
	before agent.Agent
	number int
	alone  bool
}

// beginPush returns a delivery that begins. The caller holds no lock.
func (w *World) beginPush(p *Process, m *message) push {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _ := w.Database.Agent(m.agentID)
	return push{w, p, m, w.Elapsed(), before, w.Queue.Delivered, w.workers == 1}
}

// end checks a delivery that ended with an answer.
func (d push) end(err error) {
	w := d.world
	if d.process.crashed {
		return
	}
	w.mu.Lock()
	held := w.Elapsed() - d.began - d.process.parked
	after, exists := w.Database.Agent(d.message.agentID)
	alone := d.alone && w.Queue.Delivered == d.number
	w.mu.Unlock()
	id := short(d.message.agentID)
	if held > maxPush {
		w.violate("push", "a push for agent %s took %v", id, held)
	}
	var pod *provisioning.PodFailure
	unrecorded := fault.Code(err) == "store_unavailable"
	if errors.As(err, &pod) && !pod.Permanent && !unrecorded && !w.clocksJumped {
		w.violate("waiting", "a push for agent %s, which only waits, failed: %v", id, err)
	}
	if err != nil || !exists || after.WaitingSince.IsZero() || after.Converged() ||
		after.Generation != d.before.Generation {
		return
	}
	// A push that meets another run's lease writes nothing. The attempt is then that of the other run, which may be
	// dead.
	wrote := after.Version != d.before.Version
	if alone && wrote && after.Attempts > 0 && after.RetryAt.IsZero() {
		w.violate("waiting", "agent %s waits, and that consumed an attempt: %d", id, after.Attempts)
	}
	young := d.process.Now().Sub(d.before.AppliedAt) < agent.NudgeGrace && !w.clocksJumped
	if d.before.Waits() && alone && young && d.process.applied > 0 {
		w.violate("waiting", "a look at agent %s applied %d objects", id, d.process.applied)
	}
	d.countLook(after)
}

// countLook checks that a worker looks less and less often at an agent that waits, if only the sweep makes it look.
func (d push) countLook(a agent.Agent) {
	w := d.world
	if !w.quiet || !d.message.swept || w.clocksJumped || !a.RetryAt.IsZero() || a.Failure != nil && a.Failure.Outage {
		return
	}
	w.mu.Lock()
	key := a.ID + a.WaitingSince.String()
	w.looks[key]++
	looks := w.looks[key]
	w.mu.Unlock()
	minutes := max(0, w.Now().Sub(a.WaitingSince).Minutes())
	if most := 6 + math.Log2(1+minutes) + minutes/5; float64(looks) > most {
		w.violate("looks", "agent %s has waited for %.0f minutes, and the sweep made a worker look %d times",
			short(a.ID), minutes, looks)
	}
}

// checkCredentials checks that the record names the credentials of the agent's workload.
func (w *World) checkCredentials(a *agent.Agent) {
	n := w.home(a.ID).namespaces[a.ID]
	if n != nil && n.set != nil && n.set.replicas > 0 && a.CredentialVersion < n.set.credential {
		w.violate("credentials", "the workload of agent %s has version %d of its credentials, and the record %d",
			short(a.ID), n.set.credential, a.CredentialVersion)
	}
}
