package organization

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"agents.example/controlplane/shared/parallel"
)

// Drift is a difference between an organization's recorded usage and its resources.
type Drift struct {
	OrganizationID string
	// Counted is the sum of its agents and keys. Recorded is the usage that its record had.
	Counted  Usage
	Recorded Usage
}

// Counts lists organizations and recounts their usage.
type Counts interface {
	// Organizations lists at most limit ids of organizations, in order, starting after the given id. Errors:
	// Unavailable.
	Organizations(ctx context.Context, after string, limit int) ([]string, error)
	// Recount counts an organization's resources and repairs its recorded usage if it differs. found reports whether it
	// differed. Recount never undoes a concurrent change: if concurrent changes make the count uncertain, it writes
	// nothing. Errors: Unavailable.
	Recount(ctx context.Context, id string) (drift Drift, found bool, err error)
}

const (
	// recountPage is the number of organizations listed in one call.
	recountPage = 200
	// recountConcurrency is the number of organizations recounted concurrently.
	recountConcurrency = 8
)

// Recount recounts every organization and repairs drifts. It calls report for each drift, from several goroutines. If
// an organization can't be counted, Recount logs it and leaves it to the next run. Errors: Unavailable when the
// organizations can't be listed, the error of ctx when it ends.
func Recount(ctx context.Context, c Counts, report func(Drift)) error {
	for after := ""; ; {
		ids, err := c.Organizations(ctx, after, recountPage)
		if err != nil {
			return err
		}
		errs := parallel.ForEach(ids, recountConcurrency, func(id string) error {
			drift, found, err := c.Recount(ctx, id)
			switch {
			case err != nil && ctx.Err() == nil:
				slog.WarnContext(ctx, "organization usage could not be recounted; the next run tries again",
					"organization_id", id, "error", err)
			case found:
				report(drift)
			}
			return nil
		})
		if err := cmp.Or(errors.Join(errs...), ctx.Err()); err != nil { // errs holds panics only
			return err
		}
		if len(ids) < recountPage {
			return nil
		}
		after = ids[len(ids)-1]
	}
}

// LogValue implements slog.LogValuer.
func (u Usage) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int64("agents", u.Agents), slog.Int64("cpu_millis", u.CPUMillis),
		slog.Int64("memory_bytes", u.MemoryBytes),
		slog.Int64("storage_bytes", u.StorageBytes), slog.Int64("api_keys", u.APIKeys),
		slog.Int64("snapshot_bytes", u.SnapshotBytes),
	)
}
