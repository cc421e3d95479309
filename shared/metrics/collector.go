package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/parallel"
)

// Collector keeps the snapshots of all agents up to date. It reads each metric once for all agents of a cell, so the
// number of calls does not grow with the agents. A run that fails or is skipped loses no data: the next run starts
// reading where the last successful one ended.
type Collector struct {
	Agents    Agents
	Source    Source
	Records   WorkerStore
	Addresses agent.Addresses
	// Minutes limits the agent-minutes that one run reads, and so its memory. A longer time span of many agents is read
	// in pieces. 0 means 500,000.
	Minutes int
	// Now is the clock.
	Now func() time.Time
}

const (
	// agentPage is the number of agents listed in one call.
	agentPage = 300
	// snapshotPage is the number of snapshots held in memory.
	snapshotPage = 100
	// concurrency is the number of records read or written concurrently.
	concurrency = 16
	// maxWatched limits the agents collected between cycles. Further agents wait for their cell's cycle.
	maxWatched = 1000
	// defaultMinutes is the default of Collector.Minutes: about 110 MB of samples. Workers have 512 MiB of memory.
	defaultMinutes = 500_000
	// maxSaveTries limits how often a snapshot is read and saved again after concurrent writes.
	maxSaveTries = 3
)

// Collect does the work of one tick. It collects all agents of each cell whose cycle is due, and the recently viewed
// agents of the other cells. A failing cell does not stop the others.
func (c *Collector) Collect(ctx context.Context) error {
	now := c.Now()
	cells, err := c.Records.Progress(ctx)
	if err != nil {
		return err
	}
	collected := map[string]Progress{}
	if anyCellDue(cells, now) {
		collected, err = c.collectDueCells(ctx, cells, now)
	}
	return errors.Join(err, c.collectWatched(ctx, collected, now))
}

// anyCellDue reports whether a cell's cycle may be due. It is true while no cell is known.
func anyCellDue(cells map[string]Progress, now time.Time) bool {
	for _, p := range cells {
		if p.due(now) {
			return true
		}
	}
	return len(cells) == 0
}

func (p Progress) due(now time.Time) bool {
	return !now.Truncate(fineStep).Before(p.Next.Truncate(fineStep))
}

// collectDueCells collects all agents of the cells whose cycle is due, and returns the progress of those cells.
func (c *Collector) collectDueCells(ctx context.Context, cells map[string]Progress, now time.Time) (map[string]Progress,
	error,
) {
	subjects, err := c.listSubjects(ctx, now)
	if err != nil {
		return nil, err
	}
	collected := map[string]Progress{}
	for cell, p := range cells {
		if len(subjects[cell]) == 0 && p.due(now) {
			collected[cell] = Progress{Until: now, Next: now.Add(Cycle)} // no agent runs there: nothing to read
		}
	}
	var errs []error
	for cell, ofCell := range subjects {
		last := cells[cell]
		if !last.due(now) {
			continue
		}
		whole := spanSince(last.Until, now)
		run := collection{
			Collector: c, kind: "cycle", cell: cell, subjects: ofCell,
			span: whole.firstPiece(len(ofCell), cmp.Or(c.Minutes, defaultMinutes)), now: now,
		}
		p, err := run.collectPiece(ctx, last, whole)
		if err != nil {
			errs = append(errs, fmt.Errorf("collect metrics of cell %s: %w", cell, err))
			continue
		}
		collected[cell] = p
	}
	if len(collected) > 0 {
		errs = append(errs, c.Records.SetProgress(ctx, collected))
	}
	return collected, errors.Join(errs...)
}

// listSubjects lists the measured agents, by cell and id.
func (c *Collector) listSubjects(ctx context.Context, now time.Time) (map[string]map[string]Subject, error) {
	found := map[string]map[string]Subject{}
	for _, status := range []agent.Status{agent.Running, agent.Error} {
		for after := ""; ; {
			listed, err := c.Agents.ListByStatus(ctx, status, after, agentPage)
			if err != nil {
				return nil, err
			}
			for _, a := range listed.Items {
				if measured(a, now) {
					addSubject(found, subjectOf(a, c.Addresses))
				}
			}
			if after = listed.Next; after == "" {
				break
			}
		}
	}
	return found, nil
}

func addSubject(cells map[string]map[string]Subject, s Subject) {
	if cells[s.Cell] == nil {
		cells[s.Cell] = map[string]Subject{}
	}
	cells[s.Cell][s.AgentID] = s
}

// collectWatched collects the recently viewed agents, except those of cells collected in this tick. It includes agents
// that no cycle collects any more, as far as their snapshots lack something.
func (c *Collector) collectWatched(ctx context.Context, collected map[string]Progress, now time.Time) error {
	viewed, err := c.Records.ListViewedSince(ctx, now.Add(-WatchPeriod), maxWatched)
	if err != nil || len(viewed) == 0 {
		return err
	}
	var mu sync.Mutex
	known := make(map[string]Snapshot, len(viewed))
	subjects, since := map[string]map[string]Subject{}, map[string]time.Time{}
	errs := parallel.ForEach(viewed, concurrency, func(s Snapshot) error {
		a, err := c.Agents.Load(ctx, s.AgentID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, done := collected[a.Cell]; done && measured(a, now) || !s.lacks(a) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		known[s.AgentID] = s
		addSubject(subjects, subjectOf(a, c.Addresses))
		oldest, ok := since[a.Cell]
		if !ok {
			oldest = now
		}
		if measured(a, now) && s.CollectedAt.Before(oldest) { // others have no samples to catch up on
			oldest = s.CollectedAt
		}
		since[a.Cell] = oldest
		return nil
	})
	for cell, ofCell := range subjects {
		run := collection{
			Collector: c, kind: "watched", cell: cell, subjects: ofCell,
			span: spanSince(since[cell], now), now: now, known: known, only: sortedIDs(ofCell),
		}
		if _, err := run.collect(ctx); err != nil {
			errs = append(errs, fmt.Errorf("collect metrics of cell %s: %w", cell, err))
		}
	}
	return errors.Join(errs...)
}

// log logs the work and the cost of a collection.
func (c collection) log(ctx context.Context, u Usage, saved int, err error) {
	level, attrs := slog.LevelInfo, []any{
		"kind", c.kind, "cell", c.cell, "agents", len(c.subjects), "saved", saved, "calls", u.Calls, "series", u.Series,
		"points", u.Points,
		"from", c.span.From, "to", c.span.To,
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, "error", err)
	}
	slog.Log(ctx, level, "metrics collection finished", attrs...)
}
