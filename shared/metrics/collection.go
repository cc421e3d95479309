package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/parallel"
)

// collection is one collection of some agents of one cell.
type collection struct {
	*Collector
	kind     string
	cell     string
	subjects map[string]Subject
	span     Span
	now      time.Time
	// known holds the snapshots of the subjects; nil means that they must be read.
	known map[string]Snapshot
	// only lists the agents whose samples are read; nil means all agents of the cell.
	only []string
}

// collectPiece collects one piece of the whole span and returns the cell's new progress.
func (c collection) collectPiece(ctx context.Context, last Progress, whole Span) (Progress, error) {
	done, err := c.collect(ctx)
	switch more := c.span.To.Before(whole.To); {
	case err != nil:
		return last, err
	case more: // even without samples: a past time gets no further samples
		return Progress{Until: pieceUntil(c.span, c.now), Next: c.now}, nil
	case done:
		return Progress{Until: c.now, Next: c.now.Add(Cycle)}, nil
	default:
		return Progress{Until: last.Until, Next: c.now.Add(Cycle)}, nil
	}
}

// pieceUntil returns the progress after a piece: the next span begins where it ends, or earlier if its last samples may
// be late.
func pieceUntil(piece Span, now time.Time) time.Time {
	until := piece.To.Add(MaxSampleDelay + coarseStep)
	if until.After(now) {
		return now
	}
	return until
}

// collect reads every metric and writes at most one snapshot per agent. done is false if there are no samples yet, so
// that the span must be read again.
func (c collection) collect(ctx context.Context) (done bool, err error) {
	var usage Usage
	var saved atomic.Int64
	defer func() { c.log(ctx, usage, int(saved.Load()), err) }()
	readings, usage, err := c.readSamples(ctx)
	if err != nil {
		return false, err
	}
	if len(readings) == 0 && c.expectsSamples() {
		return false, nil
	}
	return true, c.saveSnapshots(ctx, readings, &saved)
}

// expectsSamples reports whether an agent runs, so that a source without any sample has them late.
func (c collection) expectsSamples() bool {
	for _, s := range c.subjects {
		if agent.LastServing(s.Serving) == agent.Up {
			return true
		}
	}
	return false
}

// saveSnapshots writes the snapshots of all subjects and counts the written ones in saved.
func (c collection) saveSnapshots(ctx context.Context, readings map[string]Reading, saved *atomic.Int64) (err error) {
	for ids := range slices.Chunk(sortedIDs(c.subjects), snapshotPage) {
		known := c.known
		if known == nil {
			if known, err = c.Records.Load(ctx, ids); err != nil {
				return err
			}
		}
		errs := parallel.ForEach(ids, concurrency, func(id string) error {
			s, ok := known[id]
			if !ok {
				s = New(id, c.subjects[id].OrganizationID)
			}
			written, err := c.saveSnapshot(ctx, s, readings[id])
			if written {
				saved.Add(1)
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// readSamples reads every metric of the cell and groups the samples by agent. It drops the samples of agents that are
// not subjects, such as those of unknown namespaces. The first metric tells which agents ran.
func (c collection) readSamples(ctx context.Context) (map[string]Reading, Usage, error) {
	readings := map[string]*Reading{}
	var usage Usage
	for i, m := range Metrics() {
		u, err := c.Source.Read(ctx, Query{Cell: c.cell, Metric: m, Span: c.span, Agents: c.only}, func(s Sample) {
			subject, ok := c.subjects[s.AgentID]
			if !ok && i > 0 {
				return
			}
			if readings[s.AgentID] == nil {
				readings[s.AgentID] = &Reading{}
			}
			readings[s.AgentID].add(m, s, subject.Hostname)
		})
		usage = usage.Plus(u)
		if err == nil && i == 0 {
			err = c.addStopped(ctx, readings)
		}
		if err != nil {
			return nil, usage, err
		}
	}
	found := make(map[string]Reading, len(readings))
	for id, reading := range readings {
		found[id] = *reading
	}
	return found, usage, nil
}

// addStopped adds the agents that ran in the span and were paused or stopped in it to the subjects, so that their last
// minutes count, too. It drops the readings of all others that are no subjects.
func (c collection) addStopped(ctx context.Context, readings map[string]*Reading) error {
	var others []string
	for id := range readings {
		if _, ok := c.subjects[id]; !ok {
			others = append(others, id)
		}
	}
	var mu sync.Mutex
	return errors.Join(parallel.ForEach(others, concurrency, func(id string) error {
		a, err := c.Agents.Load(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case fault.Is(err, fault.Unavailable):
			return err
		case err == nil && a.Cell == c.cell && stoppedSince(a, c.span.From):
			c.subjects[id] = subjectOf(a, c.Addresses)
		default: // gone, not readable, or not to be measured
			delete(readings, id)
		}
		return nil
	})...)
}

// saveSnapshot adds a reading to a snapshot and writes it, unless the agent is gone. If the snapshot was written in
// between, for example because a client viewed it, saveSnapshot reads it again and retries.
func (c collection) saveSnapshot(ctx context.Context, s Snapshot, reading Reading) (written bool, err error) {
	subject := c.subjects[s.AgentID]
	for range maxSaveTries {
		s.AddReading(subject, reading, c.span, c.now)
		err = c.Records.Save(ctx, s, subject.Version)
		if !errors.Is(err, ErrChanged) {
			break
		}
		again, err := c.Records.Load(ctx, []string{s.AgentID})
		if err != nil {
			return false, err
		}
		if known, ok := again[s.AgentID]; ok {
			s = known
			continue
		}
		a, err := c.Agents.Load(ctx, s.AgentID)
		if err != nil {
			return false, ignoreGoneOrCurrent(err)
		}
		subject.Version = a.Version
		s = New(s.AgentID, s.OrganizationID)
	}
	return err == nil, ignoreGoneOrCurrent(err)
}

// ignoreGoneOrCurrent returns nil if err means that the agent is gone or that others kept writing its snapshot, which
// is then up to date. Otherwise it returns err.
func ignoreGoneOrCurrent(err error) error {
	if errors.Is(err, ErrChanged) || fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func sortedIDs(subjects map[string]Subject) []string { return slices.Sorted(maps.Keys(subjects)) }
