package provisioning

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// CodeNamespaceMissing is the code of the error for an agent whose namespace does not exist.
const CodeNamespaceMissing = "namespace_missing"

// failed records the failure and decides between giving up and another run.
func (w *run) failed(ctx context.Context, a agent.Agent, stage agent.StageName, cause error) error {
	if errors.Is(cause, agent.ErrSuperseded) || errors.Is(cause, errFinished) {
		return cause
	}
	var stale *Stale
	if errors.As(cause, &stale) && (stale.Generation > a.Generation || a.Egress.Mode == "") {
		return w.passGeneration(ctx, a, stale.Generation)
	}
	f, permanent := describe(a, stage, cause, w.Now())
	last, cancel := w.record(ctx)
	defer cancel()
	ended, expired := false, false
	a, err := w.progress(last, a, func(a *agent.Agent) {
		if !w.begun {
			a.Attempts++
		}
		expired = a.Expired(w.Now())
		if ended = a.FailRun(f, permanent, w.Now()); !ended && f.Code == CodeNamespaceMissing {
			a.ForgetStages()
		}
	})
	switch {
	case errors.Is(err, errFinished):
		return err
	case err != nil:
		return errors.Join(err, cause)
	case !ended:
		return fault.New(fault.Unavailable, "provisioning_failed", "%s", f.Message).WithCause(cause)
	}
	if expired {
		slog.WarnContext(ctx, "work on an agent ended at its deadline", logevent.Key, logevent.AgentsExpired,
			"agent_id", a.ID, "cell", a.Cell, "code", f.Code)
	}
	if !a.Converged() {
		return agent.ErrSuperseded // the agent was reverted to the previous desired state
	}
	return nil
}

// passGeneration raises the record's generation above the cluster's, so that the cluster accepts it. Usually another
// worker applied a newer generation and the record shows it: then the write has no effect. The record is older than the
// cluster only if the database was restored from a backup. It may also lack the rules of an agent's way out.
func (w *run) passGeneration(ctx context.Context, a agent.Agent, above int64) error {
	_, err := w.progress(ctx, a, func(a *agent.Agent) { a.PassGeneration(above, w.Now()) })
	if err != nil {
		return err
	}
	slog.WarnContext(ctx, "record older than its cluster; generation raised", "agent_id", a.ID,
		"cell", a.Cell, "generation", a.Generation, "cluster_generation", above)
	return agent.ErrSuperseded
}

// describe turns an error into the failure that clients see.
func describe(a agent.Agent, stage agent.StageName, cause error, now time.Time) (f agent.Failure, permanent bool) {
	var pod *PodFailure
	var refused *Permanent
	switch {
	case errors.As(cause, &refused):
		return agent.Failure{Code: refused.Code, Stage: stage, Message: refused.Message}, true
	case errors.As(cause, &pod):
		return agent.Failure{
			Code: pod.Code, Stage: stage, Message: pod.Message, Retryable: !pod.Permanent, Observed: pod.observation(),
		}, pod.Permanent || pod.overdue(a, now)
	case fault.Code(cause) == CodeNamespaceMissing && a.LastReadyIsolation != "":
		return volumeLost(stage), true
	default:
		e := fault.From(cause)
		return agent.Failure{
			Code: e.Code, Stage: stage, Message: e.Detail, Retryable: true, Outage: isOutage(e),
		}, false
	}
}

// volumeLost is the failure of an agent that ran and whose volume is gone, alone or with the namespace. No worker makes
// a new one: the client decides.
func volumeLost(stage agent.StageName) agent.Failure {
	return agent.Failure{
		Code: CodeNamespaceMissing, Stage: stage, Retryable: true,
		Message: "The agent's volume was deleted outside the control plane. " +
			"Start the agent to provision it again with an empty volume.",
	}
}

// isOutage reports whether an error says that the control plane could not reach what it depends on. The other errors
// are about the agent: its values, its namespace, its quota and its answers.
func isOutage(e *fault.Error) bool {
	switch e.Code {
	case agent.CodeValueUnavailable, CodeNamespaceMissing, codeQuotaExceeded, codeGatewayUnhealthy:
		return false
	default:
		return e.Kind == fault.Unavailable
	}
}

// Codes of errors about the agent.
const (
	codeQuotaExceeded    = "quota_exceeded"
	codeGatewayUnhealthy = "gateway_unhealthy"
)
