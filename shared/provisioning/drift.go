package provisioning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/logevent"
)

// ObjectLister reads the objects of agents on all clusters.
type ObjectLister interface {
	// Cells names the clusters.
	Cells() []string
	// Objects lists the objects of all agents of a cell. The number of calls does not depend on the number of agents,
	// except for the pages of the lists. A list that may be incomplete is an error. Errors: Unavailable.
	Objects(ctx context.Context, cell string) (Snapshot, error)
}

// Snapshot holds the objects of all agents of a cell at one time.
type Snapshot interface {
	// Differences lists what differs from the desired state of a converged agent. For an agent that wants no pod, only
	// its workload counts.
	Differences(a agent.Agent) []Difference
	// KeptLogs lists the logs that the namespaces of agents keep, also those of agents that are stopped.
	KeptLogs() []KeptLog
}

// Difference is one object that is not as the agent's record demands.
type Difference struct {
	// Object names the object.
	Object  string
	Problem Problem
}

// Problem is how an object differs.
type Problem string

// The problems.
const (
	// Missing: the object does not exist.
	Missing Problem = "missing"
	// Changed: the object has another content than the record demands, or is of another generation.
	Changed Problem = "changed"
	// Leftover: the object belongs to a former generation.
	Leftover Problem = "leftover"
	// Lost: the object does not exist and held the agent's data.
	Lost Problem = "lost"
)

// DriftChecker compares the objects of agents that have no work due with their records. It makes a worker apply the
// desired state again where they differ, and that worker deletes what former generations left. In the cells it deletes
// nothing but kept logs that are too old.
//
// It also corrects when the schedules and snapshots of such an agent are due, if another release found another time.
//
// A run lists each kind of object once per cell, and reads the record of every running, paused and stopped agent. It
// writes nothing if no object differs. A cell whose list fails has no findings.
type DriftChecker struct {
	Records agent.WorkerStore
	Objects ObjectLister
	Nudger  agent.Nudger
	// Logs deletes the kept logs that are too old; nil deletes none.
	Logs LogKeeper
	// Now is the clock.
	Now func() time.Time
}

const (
	// maxDropsPerRun bounds the kept logs that one run deletes. The following runs continue with the others.
	maxDropsPerRun = 500
	// driftPage is how many records one read lists.
	driftPage = 500
	// maxRepairsPerRun bounds the agents that one run repairs. After a release that changes all agents'
	// objects, the following runs continue with the others.
	maxRepairsPerRun = 100
)

// driftSnapshot is the snapshot of a cell and the time before it.
type driftSnapshot struct {
	Snapshot
	begun time.Time
}

// finding is an agent whose objects differ.
type finding struct {
	agent       agent.Agent
	differences []Difference
}

// CheckDrift checks all agents once. A failure of one cell or agent does not stop the others.
func (d *DriftChecker) CheckDrift(ctx context.Context) error {
	cells, err := d.listObjects(ctx)
	errs := []error{err}
	var found []finding
	var misdated []agent.Agent
	for _, status := range []agent.Status{agent.Running, agent.Paused, agent.Stopped} {
		see := func(a *agent.Agent) {
			if a.Misdated() && len(misdated) < maxRepairsPerRun {
				misdated = append(misdated, *a)
			}
		}
		of, err := d.compare(ctx, cells, status, see)
		found, errs = append(found, of...), append(errs, err)
	}
	if len(found) > maxRepairsPerRun {
		slog.ErrorContext(ctx, "the objects of many agents differ from their records: check what changed them",
			logevent.Key, logevent.DriftLimitExceeded, "differing", len(found), "attending", maxRepairsPerRun)
		found = fromCursor(found, listCursor(d.Now()))[:maxRepairsPerRun]
	}
	work := make([]func() error, len(found))
	for i, f := range found {
		work[i] = func() error { return d.attend(ctx, f) }
	}
	for _, a := range misdated {
		work = append(work, func() error {
			_, err := d.Records.Update(ctx, a, func(*agent.Agent) {})
			return ignoreSuperseded(a.ID, err)
		})
	}
	work = append(work, d.dropWork(ctx, cells)...)
	return errors.Join(append(errs, runConcurrently(work))...)
}

// dropWork deletes the kept logs that are too old.
func (d *DriftChecker) dropWork(ctx context.Context, cells map[string]driftSnapshot) []func() error {
	var work []func() error
	if d.Logs == nil {
		return nil
	}
	for cell, s := range cells {
		for _, l := range s.KeptLogs() {
			if len(work) < maxDropsPerRun && (agentlog.Ended{EndedAt: l.EndedAt}).Expired(d.Now()) {
				work = append(work, func() error { return ignoreSuperseded(l.AgentID, d.Logs.DropLog(ctx, cell, l)) })
			}
		}
	}
	return work
}

// fromCursor rotates findings so that those begin that come after the id. Agents that no repair helps then do not keep
// the others waiting.
func fromCursor(found []finding, id string) []finding {
	var after, before []finding
	for _, f := range found {
		if f.agent.ID > id {
			after = append(after, f)
		} else {
			before = append(before, f)
		}
	}
	return append(after, before...)
}

func (d *DriftChecker) listObjects(ctx context.Context) (map[string]driftSnapshot, error) {
	cells := map[string]driftSnapshot{}
	var errs []error
	for _, cell := range d.Objects.Cells() {
		begun := d.Now()
		s, err := d.Objects.Objects(ctx, cell)
		if err != nil {
			errs = append(errs, fmt.Errorf("list the objects of cell %s: %w", cell, err))
			continue
		}
		cells[cell] = driftSnapshot{Snapshot: s, begun: begun}
	}
	return cells, errors.Join(errs...)
}

// compare lists the agents of a status whose objects differ, and passes all of them to see. It leaves out agents that
// were written shortly before the snapshot or later: their objects may be newer than the snapshot.
func (d *DriftChecker) compare(ctx context.Context, cells map[string]driftSnapshot, status agent.Status,
	see func(*agent.Agent),
) ([]finding, error) {
	var found []finding
	for after := ""; ; {
		records, err := d.Records.ListByStatus(ctx, status, after, driftPage)
		if err != nil {
			return found, fmt.Errorf("list %s agents: %w", status, err)
		}
		for _, a := range records.Items {
			see(&a)
			s, listed := cells[a.Cell]
			if !listed || !settledBefore(&a, s.begun) {
				continue
			}
			if differences := s.Differences(a); len(differences) > 0 {
				found = append(found, finding{agent: a, differences: differences})
			}
		}
		if after = records.Next; after == "" {
			return found, nil
		}
	}
}

// attend repairs one agent. Lost data is for a person to decide on: another volume would hide the loss.
func (d *DriftChecker) attend(ctx context.Context, f finding) error {
	a := f.agent
	log := slog.With("agent_id", a.ID, "cell", a.Cell, "differences", f.differences)
	if slices.ContainsFunc(f.differences, func(d Difference) bool { return d.Problem == Lost }) {
		log.ErrorContext(ctx, "the namespace or the volume of an agent is gone; it is not repaired", logevent.Key,
			logevent.AgentDataLost)
		return nil
	}
	log.WarnContext(ctx, "objects of an agent differ from its record; applying them again", logevent.Key,
		logevent.DriftRepaired)
	return repair(ctx, d.Records, d.Nudger, a, func(a *agent.Agent) { a.Repair(d.Now()) })
}
