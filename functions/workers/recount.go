package workers

import (
	"context"
	"log/slog"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/organization"
)

// Recount counts what every organization holds once a day, and repairs and reports the records that say something else.
// Each of them is the trace of a defect: usage moves with what it counts, in the same commit.
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
