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
)

// Collector keeps the snapshots of all agents up to date. Each metric is read once for all agents of a cell, so that
// what it asks for does not grow with them. A run that fails, or never happens, loses nothing: the next one reads from
// where the last good one ended.
type Collector struct {
	Agents    Agents
	Source    Source
	Records   WorkerStore
	Addresses agent.Addresses
	// Minutes bounds how many minutes of agents are read at once, and with it the memory that this takes: a longer time
	// of many agents is read in pieces. 0 is a million.
	Minutes int
	// Now is the clock.
	Now func() time.Time
}

const (
	// agentPage is how many agents are listed at once.
	agentPage = 300
	// snapshotPage is how many snapshots are held in memory at once.
	snapshotPage = 100
	// concurrency is how many records are read or written at the same time.
	concurrency = 16
	// maxWatched bounds the agents of a tick between cycles; what is more waits for its cycle.
	maxWatched = 1000
	// defaultMinutes is Collector.Minutes: some hundred megabytes.
	defaultMinutes = 1_000_000
	// maxSaveTries is how often a snapshot is read again that others write at the same time.
	maxSaveTries = 3
)

// Collect does what is due at this tick: of the cells whose cycle has come all agents, of the others those that
// somebody looks at. The trouble of one cell does not keep it from the others.
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

// anyCellDue reports whether some cell's cycle has come. While no cell is known, there may be one.
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

// collectDueCells collects all agents of the cells whose cycle has come, and answers which those were.
func (c *Collector) collectDueCells(ctx context.Context, cells map[string]Progress, now time.Time) (map[string]Progress, error) {
	subjects, err := c.listSubjects(ctx, now)
	if err != nil {
		return nil, err
	}
	collected := map[string]Progress{}
	for cell, p := range cells {
		if len(subjects[cell]) == 0 && p.due(now) {
			collected[cell] = Progress{Until: now, Next: now.Add(Cycle)} // nothing runs there, and nothing is asked
		}
	}
	var errs []error
	for cell, of := range subjects {
		last := cells[cell]
		if !last.due(now) {
			continue
		}
		whole := spanSince(last.Until, now)
		r := collection{Collector: c, kind: "cycle", cell: cell, subjects: of,
			span: whole.firstPiece(len(of), cmp.Or(c.Minutes, defaultMinutes)), now: now}
		p, err := r.collectPiece(ctx, last, whole)
		if err != nil {
			errs = append(errs, fmt.Errorf("cell %s: %w", cell, err))
			continue
		}
		collected[cell] = p
	}
	if len(collected) > 0 {
		errs = append(errs, c.Records.SetProgress(ctx, collected))
	}
	return collected, errors.Join(errs...)
}

// listSubjects lists the agents that are measured, by cell and id.
func (c *Collector) listSubjects(ctx context.Context, now time.Time) (map[string]map[string]Subject, error) {
	found := map[string]map[string]Subject{}
	for _, status := range []agent.Status{agent.Running, agent.Error} {
		for after := ""; ; {
			page, err := c.Agents.ListByStatus(ctx, status, after, agentPage)
			if err != nil {
				return nil, err
			}
			for _, a := range page {
				if s, ok := SubjectOf(a, c.Addresses, now); ok {
					addSubject(found, s)
				}
				after = a.ID
			}
			if len(page) < agentPage {
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

// collectWatched collects the agents that somebody looks at, but those of cells that were collected just now.
func (c *Collector) collectWatched(ctx context.Context, collected map[string]Progress, now time.Time) error {
	looked, err := c.Records.ListViewedSince(ctx, now.Add(-WatchPeriod), maxWatched)
	if err != nil || len(looked) == 0 {
		return err
	}
	var mu sync.Mutex
	known := make(map[string]Snapshot, len(looked))
	subjects, since := map[string]map[string]Subject{}, map[string]time.Time{}
	err = inParallel(looked, func(s Snapshot) error {
		a, err := c.Agents.Load(ctx, s.AgentID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		subject, ok := SubjectOf(a, c.Addresses, now)
		if _, done := collected[a.Cell]; done || !ok {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		known[s.AgentID] = s
		addSubject(subjects, subject)
		if oldest, ok := since[a.Cell]; !ok || s.CollectedAt.Before(oldest) {
			since[a.Cell] = s.CollectedAt
		}
		return nil
	})
	errs := []error{err}
	for cell, of := range subjects {
		r := collection{Collector: c, kind: "watched", cell: cell, subjects: of, span: spanSince(since[cell], now), now: now,
			known: known, only: sortedIDs(of)}
		if _, err := r.collect(ctx); err != nil {
			errs = append(errs, fmt.Errorf("cell %s: %w", cell, err))
		}
	}
	return errors.Join(errs...)
}

// inParallel does something with every item, some at a time, and answers all errors.
func inParallel[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	free := make(chan struct{}, concurrency)
	for i, item := range items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			errs[i] = do(item)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// log tells what a run did and cost.
func (r collection) log(ctx context.Context, u Usage, saved int, err error) {
	level, attrs := slog.LevelInfo, []any{
		"kind", r.kind, "cell", r.cell, "agents", len(r.subjects), "saved", saved, "calls", u.Calls, "series", u.Series,
		"points", u.Points,
		"from", r.span.From, "to", r.span.To,
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, "error", err)
	}
	slog.Log(ctx, level, "metrics were collected", attrs...)
}
