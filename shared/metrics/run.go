package metrics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/fault"
)

// collection collects some agents of one cell.
type collection struct {
	*Collector
	kind     string
	cell     string
	subjects map[string]Subject
	span     Span
	now      time.Time
	// known are snapshots that were read already; nil reads them.
	known map[string]Snapshot
	// only narrows what is read to some agents; nil reads those of the whole cell.
	only []string
}

// collectPiece collects a piece of what there is to read, and answers how far the cell has come with it.
func (r collection) collectPiece(ctx context.Context, last Progress, whole Span) (Progress, error) {
	done, err := r.collect(ctx)
	switch past := r.span.To.Before(whole.To); {
	case err != nil:
		return last, err
	case past: // also where it is silent: what is in the past comes no more
		return Progress{Until: r.span.To.Add(MaxSampleDelay + coarseStep), Next: r.now}, nil
	case done:
		return Progress{Until: r.now, Next: r.now.Add(Cycle)}, nil
	default:
		return Progress{Until: last.Until, Next: r.now.Add(Cycle)}, nil
	}
}

// collect reads every metric, and writes at most one snapshot an agent. It is not done when it has to be tried again
// without anything having failed, because there is nothing to read yet; that costs nothing.
func (r collection) collect(ctx context.Context) (done bool, err error) {
	var usage Usage
	var saved atomic.Int64
	defer func() { r.log(ctx, usage, int(saved.Load()), err) }()
	readings, usage, err := r.readSamples(ctx)
	if err != nil {
		return false, err
	}
	if r.noUptimeSamples(readings) {
		if len(readings) == 0 {
			return false, nil
		}
		r.subjects = withoutReadySince(r.subjects)
	}
	return true, r.saveSnapshots(ctx, readings, &saved)
}

// noUptimeSamples reports whether no agent is known to have been up, although some should be. That all are down at once is less
// likely than that they are not measured, and what is not measured is no downtime.
func (r collection) noUptimeSamples(readings map[string]Reading) bool {
	expected := false
	for id, s := range r.subjects {
		if len(readings[id].Uptime) > 0 {
			return false
		}
		expected = expected || !s.Broken
	}
	return expected
}

// withoutReadySince are subjects of which nobody knows since when they should be up.
func withoutReadySince(subjects map[string]Subject) map[string]Subject {
	all := make(map[string]Subject, len(subjects))
	for id, s := range subjects {
		s.ReadySince = time.Time{}
		all[id] = s
	}
	return all
}

// saveSnapshots writes the snapshots of all subjects.
func (r collection) saveSnapshots(ctx context.Context, readings map[string]Reading, saved *atomic.Int64) (err error) {
	for ids := range slices.Chunk(sortedIDs(r.subjects), snapshotPage) {
		known := r.known
		if known == nil {
			if known, err = r.Records.Load(ctx, ids); err != nil {
				return err
			}
		}
		err = inParallel(ids, func(id string) error {
			s, ok := known[id]
			if !ok {
				s = New(id, r.subjects[id].OrganizationID)
			}
			written, err := r.saveSnapshot(ctx, s, readings[id])
			if written {
				saved.Add(1)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readSamples reads every metric of the cell, and sorts the samples by agent. Samples of others are dropped: their namespaces
// are not of agents that we know, or of agents that are not measured any more.
func (r collection) readSamples(ctx context.Context) (map[string]Reading, Usage, error) {
	readings := map[string]*Reading{}
	var usage Usage
	for _, m := range Metrics() {
		u, err := r.Source.Read(ctx, Query{Cell: r.cell, Metric: m, Span: r.span, Agents: r.only}, func(s Sample) {
			subject, ours := r.subjects[s.AgentID]
			if !ours {
				return
			}
			if readings[s.AgentID] == nil {
				readings[s.AgentID] = &Reading{}
			}
			readings[s.AgentID].add(m, s, subject.Hostname)
		})
		usage = usage.Plus(u)
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

// saveSnapshot writes a snapshot with a reading, unless its agent is gone. When it was written meanwhile, such as by a look, it
// is read again.
func (r collection) saveSnapshot(ctx context.Context, s Snapshot, reading Reading) (written bool, err error) {
	subject := r.subjects[s.AgentID]
	for range maxSaveTries {
		s.AddReading(subject, reading, r.span, r.now)
		err = r.Records.Save(ctx, s, subject.Version)
		if !errors.Is(err, ErrChanged) {
			break
		}
		again, err := r.Records.Load(ctx, []string{s.AgentID})
		if err != nil {
			return false, err
		}
		if known, ok := again[s.AgentID]; ok {
			s = known
			continue
		}
		a, err := r.Agents.Load(ctx, s.AgentID)
		if err != nil {
			return false, ignoreGoneOrCurrent(err)
		}
		subject.Version = a.Version
		s = New(s.AgentID, s.OrganizationID)
	}
	return err == nil, ignoreGoneOrCurrent(err)
}

// ignoreGoneOrCurrent is the error, unless it says that the agent is gone or that others wrote a snapshot time and again: then
// it is up to date.
func ignoreGoneOrCurrent(err error) error {
	if errors.Is(err, ErrChanged) || fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func sortedIDs(of map[string]Subject) []string { return slices.Sorted(maps.Keys(of)) }
