package workers

import (
	"context"
	"log/slog"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// DeadLetter handles nudges that were delivered too often: the work on their agents ends or is nudged again. A message
// without an agent is logged and dropped: no work depends on it.
func DeadLetter(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "DeadLetterAgent", Topic: function.AgentNudgesDead,
		Summary: "End or repeat the work on an agent whose nudge failed too often",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle: func(ctx context.Context, m function.Message) error {
			id, err := agentID(m)
			if err != nil {
				slog.ErrorContext(ctx, "dead-lettered message names no agent; dropped", "message_id", m.ID, "bytes",
					len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			slog.WarnContext(ctx, "nudge delivered too often", "agent_id", id, "message_id", m.ID)
			return sweeper.DeadLetter(ctx, id)
		},
	}
}
