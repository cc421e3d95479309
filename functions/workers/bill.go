package workers

import (
	"context"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
)

// Bill carries out what follows from organizations' accounts: agents are paused when payment has stopped, and come back
// when it is made.
func Bill(keeper *billing.Enforcer) function.Worker {
	return function.Worker{
		Name: "KeepAccounts", Topic: function.BillingTicks, Schedule: "* * * * *",
		Summary: "Pause and resume agents as accounts demand",
		Needs:   []function.Need{function.Firestore, function.Publish},
		Handle:  func(ctx context.Context, _ function.Message) error { return keeper.Run(ctx) },
	}
}
