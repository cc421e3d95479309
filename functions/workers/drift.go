package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// CheckDrift finds agents whose objects differ from their records.
func CheckDrift(checker *provisioning.DriftChecker) function.Worker {
	return function.Worker{
		Name: "CheckDrift", Topic: function.DriftTicks, Schedule: "*/10 * * * *",
		Summary: "Find and repair objects that differ from their agent's record",
		Needs:   []function.Need{function.Firestore, function.Publish, function.ClusterLook},
		Handle:  func(ctx context.Context, _ function.Message) error { return checker.CheckDrift(ctx) },
	}
}
