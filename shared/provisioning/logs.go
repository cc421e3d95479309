package provisioning

import (
	"context"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
)

// EndedContainer is a run of an agent's container that has ended.
type EndedContainer struct {
	agentlog.Ended
	// Held is true while no other run has replaced it.
	Held bool
	// Said is kept in the place of a log that no cluster has any more; empty if the cluster may have it.
	Said string
}

// LogKeeper keeps the ends of the logs of containers in the agents' own namespaces. The cluster itself has only the log
// of the last run of a pod, and none of a pod that is gone.
type LogKeeper interface {
	// KeepLogs keeps the logs of these runs of an agent's container, unless they are kept already. What the cluster no
	// longer has is left out. Errors: Unavailable.
	KeepLogs(ctx context.Context, cell, agentID string, ended []EndedContainer) error
	// KeepLastLogs looks at an agent's pod and keeps the logs of the runs that have ended. Errors: Unavailable.
	KeepLastLogs(ctx context.Context, a agent.Agent) error
	// DropLog deletes a kept log, if it is still that of the container.
	DropLog(ctx context.Context, cell string, l KeptLog) error
}

// KeptLog is a log that a namespace keeps.
type KeptLog struct {
	AgentID string
	// Name names the object, and Version is the one that was listed.
	Name, Version, UID string
	EndedAt            time.Time
}

const (
	// keepTime bounds what a run for all agents spends on logs. No agent's state depends on them, so they come last.
	keepTime = 20 * time.Second
	// keepPause bounds them in a run for one agent, whose objects matter more.
	keepPause = 3 * time.Second
)

// keepLogs keeps the logs of a list of pods. It fails for no log: the next run tries again.
func (o *HealthController) keepLogs(ctx context.Context, s podSnapshot) {
	if o.Logs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	var work []func() error
	for cell, pods := range s.cells {
		for id, p := range pods {
			if len(p.Ended) > 0 {
				work = append(work, func() error {
					warnUnkept(ctx, cell, id, o.Logs.KeepLogs(ctx, cell, id, p.Ended))
					return nil
				})
			}
		}
	}
	_ = runConcurrently(work)
}

// keepSeen keeps the logs of a pod that a look has found not ready.
func (w *run) keepSeen(ctx context.Context, a agent.Agent, seen *PodFailure) {
	if w.Logs != nil && seen != nil && len(seen.Ended) > 0 {
		ctx, cancel := context.WithTimeout(ctx, keepPause)
		defer cancel()
		warnUnkept(ctx, a.Cell, a.ID, w.Logs.KeepLogs(ctx, a.Cell, a.ID, seen.Ended))
	}
}

// keepLast keeps the logs of a pod that the run is about to stop or replace. It looks only at the pods of agents that
// are known to have ended before, so that the others cost nothing.
func (w *run) keepLast(ctx context.Context, a agent.Agent) {
	if w.Logs != nil && (a.PodRestarts.Pod != "" || a.Failure != nil && a.Failure.Observed.Exited) {
		ctx, cancel := context.WithTimeout(ctx, keepPause)
		defer cancel()
		warnUnkept(ctx, a.Cell, a.ID, w.Logs.KeepLastLogs(ctx, a))
	}
}

func warnUnkept(ctx context.Context, cell, agentID string, err error) {
	if err != nil {
		slog.WarnContext(ctx, "the log of a container that has ended could not be kept", "agent_id", agentID,
			"cell", cell, "error", err)
	}
}
