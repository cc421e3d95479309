package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Sweep nudges the agents whose work is overdue.
func Sweep(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "SweepAgents", Topic: function.SweepTicks, Schedule: "* * * * *",
		Summary: "Nudge the agents whose work is overdue",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle:  func(ctx context.Context, _ function.Message) error { return sweeper.Sweep(ctx) },
	}
}
