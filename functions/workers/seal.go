package workers

import (
	"context"

	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/function"
)

// Seal seals the audit logs of the organizations that may read theirs.
func Seal(sealer *seal.Sealer) function.Worker {
	return function.Worker{
		Name: "SealAuditLogs", Topic: function.SealTicks, Schedule: "29 * * * *",
		Summary: "Seal new entries of audit logs",
		Needs:   []function.Need{function.Firestore},
		Handle:  func(ctx context.Context, _ function.Message) error { return sealer.Run(ctx) },
	}
}
