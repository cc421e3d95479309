package workers

import (
	"context"
	"errors"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/webhook"
)

// Sweep nudges the agents whose work is overdue, and the webhooks that are due.
func Sweep(agents *provisioning.Sweeper, webhooks *webhook.Sweeper) function.Worker {
	return function.Worker{
		Name: "SweepAgents", Topic: function.SweepTicks, Schedule: "* * * * *",
		Summary: "Nudge the agents whose work is overdue, and the webhooks that are due",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle: func(ctx context.Context, _ function.Message) error {
			return errors.Join(agents.Sweep(ctx), webhooks.Sweep(ctx))
		},
	}
}
