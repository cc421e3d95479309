package provisioning

import (
	"context"
	"errors"
	"log/slog"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
)

// CallingFront is the front of a running agent, which makes the calls of the agent's schedules. A worker that dies
// leaves nothing half done there.
type CallingFront interface {
	// Calls asks the front for its name, and for what it knows of some calls. Errors: Unavailable.
	Calls(ctx context.Context, a agent.Agent, c credential.Credentials, ids []string) (agent.FrontReport, error)
	// Order tells the front to make a call. It may be repeated. Another process of the front than the order names does
	// not make the call. Errors: Unavailable; the call may be made nevertheless.
	Order(ctx context.Context, a agent.Agent, c credential.Credentials, o agent.Order) error
}

// runSchedules handles what is due of an agent's schedules, and wakes the agent if it sleeps. A front that does not
// answer is no failure: a worker asks again later.
func (w *run) runSchedules(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	a, err := w.Records.Update(ctx, a, func(a *agent.Agent) { a.PrepareCalls(w.Now()) })
	if err != nil {
		return a, err
	}
	if a.WakesNow(w.Now()) {
		return w.wakeForSchedule(ctx, a)
	}
	if !a.AsksFront(w.Now()) {
		return a, nil
	}
	report, keys, err := w.askFront(ctx, a)
	if err != nil {
		slog.WarnContext(ctx, "the agent's front could not be asked about its calls", "agent_id", a.ID, "error", err)
		last, cancel := w.record(ctx)
		defer cancel()
		return w.Records.Update(last, a, func(a *agent.Agent) { a.DelayCalls(w.Now()) })
	}
	var orders []agent.Order
	last, cancel := w.record(ctx)
	defer cancel()
	a, err = w.Records.Update(last, a, func(a *agent.Agent) { orders = a.RecordCalls(report, w.Now()) })
	if err != nil {
		return a, err
	}
	for _, o := range orders {
		if err := w.Front.Order(ctx, a, keys, o); err != nil {
			slog.WarnContext(ctx, "a call of a schedule could not be ordered", "agent_id", a.ID, "schedule_id",
				o.Schedule, "error", err) // the next worker that asks the front orders it again
		}
	}
	return a, nil
}

// wakeForSchedule wakes an agent that sleeps. If its organization's account does not allow that, a worker tries again
// later.
func (w *run) wakeForSchedule(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	if err := w.wake(ctx, a.ID, agent.WokenBySchedule, w.Now()); err != nil {
		return a, err
	}
	a, err := w.Records.Load(ctx, a.ID)
	if err != nil || !a.WakesNow(w.Now()) {
		return a, err
	}
	return w.Records.Update(ctx, a, func(a *agent.Agent) { a.DelayCalls(w.Now()) })
}

// askFront asks the front about the calls whose results the record lacks.
func (w *run) askFront(ctx context.Context, a agent.Agent) (agent.FrontReport, credential.Credentials, error) {
	if w.Front == nil {
		return agent.FrontReport{}, credential.Credentials{}, errors.New("no way to the fronts of agents")
	}
	keys, err := w.Secrets.GetCredentials(ctx, a.ID, a.CredentialVersion)
	if err != nil {
		return agent.FrontReport{}, keys, err
	}
	asked := a.OpenCalls()
	report, err := w.Front.Calls(ctx, a, keys, asked)
	report.Asked = asked
	return report, keys, err
}
