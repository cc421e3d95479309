package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Sweep ends work that has taken too long and repeats lost nudges.
func Sweep(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "SweepAgents", Topic: function.SweepTicks, Schedule: "* * * * *",
		Summary: "End stuck work and repeat lost nudges",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle:  func(ctx context.Context, _ function.Message) error { return sweeper.Sweep(ctx) },
	}
}
