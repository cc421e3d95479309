package workers

import (
	"context"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/function"
)

// Bill enforces the state of organizations' accounts: it pauses agents when payments stop, and resumes them when
// payments resume. It fetches subscriptions whose events may be lost.
func Bill(enforcer *billing.Enforcer) function.Worker {
	return function.Worker{
		Name: "KeepAccounts", Topic: function.BillingTicks, Schedule: "* * * * *",
		Summary: "Pause and resume agents as accounts demand",
		Needs:   []function.Need{function.Firestore, function.Publish, function.Payments},
		Handle:  func(ctx context.Context, _ function.Message) error { return enforcer.Run(ctx) },
	}
}
