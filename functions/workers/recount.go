package workers

import (
	"context"
	"log/slog"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/organization"
)

// Recount recounts every organization's usage once a day. It repairs and reports records that differ. Every drift
// indicates a bug, because usage changes in the same commit as the resources it counts.
func Recount(counts organization.Counts) function.Worker {
	return function.Worker{
		Name: "RecountUsage", Topic: function.RecountTicks, Schedule: "41 3 * * *",
		Summary: "Recount what organizations hold",
		Needs:   []function.Need{function.Firestore},
		Handle: func(ctx context.Context, _ function.Message) error {
			return organization.Recount(ctx, counts, func(d organization.Drift) {
				slog.WarnContext(ctx, "organization usage drifted; repaired", logevent.Key, logevent.UsageDriftRepaired,
					"organization_id", d.OrganizationID, "counted", d.Counted, "recorded", d.Recorded)
			})
		},
	}
}
