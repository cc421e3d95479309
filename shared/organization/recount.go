package organization

import (
	"context"
	"log/slog"
	"sync"
)

// Drift is a usage that was not what the organization held.
type Drift struct {
	OrganizationID string
	// Counted is what its agents and keys add up to, and Recorded what its record said.
	Counted  Usage
	Recorded Usage
}

// Counts knows the organizations and can count what one holds.
type Counts interface {
	// Organizations lists the ids of the organizations after one, in their order, at most limit. Errors: Unavailable.
	Organizations(ctx context.Context, after string, limit int) ([]string, error)
	// Recount counts what an organization holds and, where its record says something else, sets the record to it. found
	// tells whether that was so. It never undoes a change that is made at the same time: where such changes keep it
	// from being certain, nothing is written. Errors: Unavailable.
	Recount(ctx context.Context, id string) (drift Drift, found bool, err error)
}

const (
	// recountPage is how many organizations are listed at once.
	recountPage = 200
	// recountConcurrency is how many organizations are counted at the same time.
	recountConcurrency = 8
)

// Recount counts what every organization holds and repairs the records that say something else. report is called for
// each of those, from several goroutines. An organization that can't be counted is logged and left to the next recount.
// Errors: Unavailable when the organizations can't be listed, or when ctx ends.
func Recount(ctx context.Context, c Counts, report func(Drift)) error {
	for after := ""; ; {
		ids, err := c.Organizations(ctx, after, recountPage)
		if err != nil {
			return err
		}
		var counting sync.WaitGroup
		free := make(chan struct{}, recountConcurrency)
		for _, id := range ids {
			free <- struct{}{}
			counting.Go(func() {
				defer func() { <-free }()
				drift, found, err := c.Recount(ctx, id)
				switch {
				case err != nil && ctx.Err() == nil:
					slog.WarnContext(ctx, "what an organization holds was not recounted; the next recount tries again",
						"organization_id", id, "error", err)
				case found:
					report(drift)
				}
			})
		}
		counting.Wait()
		if err := ctx.Err(); err != nil {
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
	)
}
