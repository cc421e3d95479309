package workers

import (
	"context"
	"log/slog"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/provisioning"
)

// DeadLetter ends the work on an agent whose nudges were delivered too often. A message without an agent is logged and
// dropped: no work depends on it.
func DeadLetter(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "DeadLetterAgent", Topic: function.AgentNudgesDead,
		Summary: "End the work on an agent that failed too often",
		Needs:   []function.Need{function.Firestore},
		Handle: func(ctx context.Context, m function.Message) error {
			id, err := agentID(m)
			if err != nil {
				slog.ErrorContext(ctx, "dead-lettered message names no agent; dropped", "message_id", m.ID, "bytes",
					len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			slog.ErrorContext(ctx, "agent work abandoned after too many deliveries", logevent.Key,
				logevent.NudgeDeadLettered, "agent_id", id, "message_id", m.ID)
			return sweeper.DeadLetter(ctx, id)
		},
	}
}
