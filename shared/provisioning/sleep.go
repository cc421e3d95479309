package provisioning

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// Door is what a front says of its door. See dataplane.HeaderDoor.
type Door struct {
	// Gone is true if no pod serves on the agent's hostname.
	Gone bool
	// Closed names the door that is closed; empty if it is open. It stays closed for at least Left.
	Closed string
	Left   time.Duration
}

// wakeSkew is more than the clocks of the queue and of a worker differ.
const wakeSkew = 30 * time.Second

// Wake wakes an agent that sleeps, if its policy allows that, and reconciles it, as it does any other agent. It wakes
// none that fell asleep after the wake was asked for: a message that comes late is for an earlier sleep, and the router
// asks again while it holds a request.
func (r *Reconciler) Wake(ctx context.Context, agentID string, cause agent.WakeCause, asked time.Time) error {
	return r.reconcile(ctx, agentID, func(ctx context.Context) error { return r.wake(ctx, agentID, cause, asked) })
}

func (r *Reconciler) wake(ctx context.Context, agentID string, cause agent.WakeCause, asked time.Time) error {
	a, err := r.Records.Load(ctx, agentID)
	if fault.Is(err, fault.NotFound) || err == nil && (!a.Asleep() || asked.Before(a.UpdatedAt.Add(-wakeSkew))) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx = call.WithRequest(call.AsSystem(ctx, "wake", a.OrganizationID),
		audit.Request{Action: "WakeAgent", RequestID: uuid.NewString()})
	_, err = r.Agents.Change(ctx, agentID, func(a *agent.Agent) error {
		a.Wake(cause, r.Now())
		return nil
	})
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.PaymentRequired) {
		slog.InfoContext(ctx, "an agent was not woken", "agent_id", agentID, "code", fault.Code(err))
		return nil // repeating it does not help
	}
	return err
}

// checkDoor asks the front of an agent that falls asleep once more, before its pod goes. If the front has opened the
// door again, or is about to, the agent is woken.
func (w *run) checkDoor(ctx context.Context, a agent.Agent) error {
	if !a.Asleep() || a.Door == "" {
		return nil
	}
	door, err := w.Prober.Door(ctx, a)
	if err != nil {
		return w.failed(ctx, a, agent.StageRuntime, err)
	}
	if door.Gone || door.Closed == a.Door && door.Left >= dataplane.DoorMargin {
		return nil
	}
	if _, err = w.progress(ctx, a, func(a *agent.Agent) { a.Wake(agent.WokenByUse, w.Now()) }); err != nil {
		return err
	}
	return agent.ErrSuperseded // the desired state is another one
}
