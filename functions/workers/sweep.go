package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Sweep ends what has taken too long and repeats nudges that were lost.
func Sweep(sweeper *provisioning.Sweeper) function.Worker {
	return function.Worker{
		Name: "SweepAgents", Topic: function.SweepTicks, Schedule: "* * * * *",
		Summary: "End what is stuck and nudge what was lost",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle:  func(ctx context.Context, _ function.Message) error { return sweeper.Sweep(ctx) },
	}
}
