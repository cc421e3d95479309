package provisioning_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// doors is a way to agents whose fronts say something about their doors.
type doors struct {
	provisioning.AgentProber
	says provisioning.Door
	err  error
	// asked counts.
	asked *int
}

func (d doors) Door(context.Context, agent.Agent) (provisioning.Door, error) {
	*d.asked++
	return d.says, d.err
}

// sleepy has a running agent that falls asleep behind a door.
func sleepy(t *testing.T, door string) *world {
	t.Helper()
	w := newWorld(t)
	w.settle()
	w.change(func(a *agent.Agent) {
		a.Sleep = agent.SleepPolicy{AfterSeconds: 300, WakeOn: []agent.Waker{agent.RequestWakes}}
	})
	w.change(func(a *agent.Agent) {
		if err := a.FallAsleep(door, time.Now()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestReconcile_TakesThePodOfAnAgentThatSleeps(t *testing.T) {
	t.Parallel()
	const closed, open, unreachable = true, false, false
	for name, c := range map[string]struct {
		door   string
		says   provisioning.Door
		err    error
		asked  int
		asleep bool
		failed bool
	}{
		"closed": {
			door: "d", says: provisioning.Door{Closed: "d", Left: dataplane.DoorMargin}, asked: 1, asleep: closed,
		},
		"no pod": {door: "d", says: provisioning.Door{Gone: true}, asked: 1, asleep: closed},
		"opened": {door: "d", asked: 1, asleep: open},
		"about to open": {
			door: "d", says: provisioning.Door{Closed: "d", Left: dataplane.DoorMargin - 1}, asked: 1, asleep: open,
		},
		"another door": {
			door: "d", says: provisioning.Door{Closed: "e", Left: dataplane.DoorTime}, asked: 1, asleep: open,
		},
		"no answer": {
			door: "d", err: fault.New(fault.Unavailable, "gateway_unhealthy", "No answer."), asked: 1,
			asleep: unreachable, failed: true,
		},
		"at a client's wish": {door: "", asleep: closed},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, asked := sleepy(t, c.door), 0
			r := w.reconciler()
			r.Prober = doors{r.Prober, c.says, c.err, &asked}
			err := r.Reconcile(t.Context(), w.id)
			a := w.record()
			switch {
			case (err != nil) != c.failed || asked != c.asked:
				t.Errorf("Reconcile = %v, and the front was asked %d times", err, asked)
			case c.failed && (!a.Asleep() || a.Converged()):
				t.Errorf("the agent is %s and converged: %t; want that the work is repeated", a.Status,
					a.Converged())
			case !c.failed && c.asleep != (a.Asleep() && !w.existence().Pod):
				t.Errorf("the agent is %s (%s)", a.Status, a.StatusReason)
			case !c.failed && !c.asleep && (a.Status != agent.Running || a.WokenBy != agent.WokenByUse):
				t.Errorf("the agent is %s, woken by %q; want that it runs", a.Status, a.WokenBy)
			}
		})
	}
}

// waker is a worker that may wake agents.
func (w *world) waker() *provisioning.Reconciler {
	r := w.reconciler()
	r.Agents = simulationtest.Agents{Database: w.database, Process: w}
	return r
}

func TestWake_StartsAnAgentThatSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := sleepy(t, "")
		w.settle()
		must(t, w.waker().Wake(t.Context(), w.id, agent.WokenByRequest, time.Now()))
		if a := w.record(); a.Status != agent.Running || a.WokenBy != agent.WokenByRequest {
			t.Errorf("the agent is %s, woken by %q", a.Status, a.WokenBy)
		}
		var wakes []audit.Entry
		for _, e := range w.database.Entries {
			if e.Actor.Type == identity.System {
				wakes = append(wakes, e.Entry)
			}
		}
		if len(wakes) != 1 || wakes[0].Action != "WakeAgent" || wakes[0].Target.ID != w.id {
			t.Errorf("the audit log has %+v, want the wake", wakes)
		}
	})
}

func TestWake_LeavesOtherAgents(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*agent.Agent){
		"running":              func(*agent.Agent) {},
		"paused by its owner":  act(agent.Pause),
		"stopped by its owner": act(agent.Stop),
		"paused by its owner while it slept": func(a *agent.Agent) {
			_ = a.Act(agent.Pause, agent.ReasonIdle, time.Now())
			act(agent.Pause)(a)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			w.change(change)
			w.settle()
			before := w.record()
			if err := w.waker().Wake(t.Context(), w.id, agent.WokenByRequest, time.Now()); err != nil {
				t.Error(err)
			}
			if after := w.record(); !after.Equal(before) {
				t.Errorf("the agent was %s and is %s", before.Status, after.Status)
			}
		})
	}
}

// TestWake_IgnoresAWakeOfAnEarlierSleep: a message that comes late wakes no agent that fell asleep since.
func TestWake_IgnoresAWakeOfAnEarlierSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := time.Now()
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		w := sleepy(t, "")
		w.settle()
		if err := w.waker().Wake(t.Context(), w.id, agent.WokenByRequest, asked); err != nil || !w.record().Asleep() {
			t.Errorf("the agent is %s (%v), want that it sleeps", w.record().Status, err)
		}
	})
}

func TestWake_OfNoAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const unknown = "3fa85f64-5717-4562-b3fc-2c963f66afa7"
		if err := w.waker().Wake(t.Context(), unknown, agent.WokenByRequest, time.Now()); err != nil {
			t.Error(err)
		}
	})
}

// TestReconcile_RecordsTheHashOfTheAPIKey: the control plane knows an agent by the key that its pod has.
func TestReconcile_RecordsTheHashOfTheAPIKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		check := func(when string) {
			t.Helper()
			a := w.record()
			c, err := w.secretClient().GetCredentials(t.Context(), w.id, a.CredentialVersion)
			if err != nil || a.APIKeyHash != credential.HashKey(w.id, c.APIKey) {
				t.Errorf("%s: the record has the hash %q of another key (%v)", when, a.APIKeyHash, err)
			}
		}
		check("created")
		w.rotate()
		w.settle()
		if w.record().CredentialVersion != 2 {
			t.Errorf("the agent has version %d of its credentials, want 2", w.record().CredentialVersion)
		}
		check("rotated")
	})
}
