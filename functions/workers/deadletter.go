package workers

import (
	"context"
	"log/slog"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/provisioning"
)

// DeadLetter ends the work on an agent whose nudges were delivered too often. A message that names no agent is logged
// whole in size and id, and ends here: nothing can be done with it, and it keeps nobody waiting.
func DeadLetter(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "DeadLetterAgent", Topic: function.AgentNudgesDead,
		Summary: "End the work on an agent that failed too often",
		Needs:   []function.Need{function.Firestore},
		Handle: func(ctx context.Context, m function.Message) error {
			id, err := agentID(m)
			if err != nil {
				slog.ErrorContext(ctx, "a dead-lettered message names no agent", "message_id", m.ID, "bytes",
					len(m.Data))
				return nil //nolint:nilerr // it ends here, as said above
			}
			slog.ErrorContext(ctx, "work on an agent given up after too many deliveries", logevent.Key,
				logevent.NudgeDeadLettered, "agent_id", id, "message_id", m.ID)
			return sweeper.DeadLetter(ctx, id)
		},
	}
}
