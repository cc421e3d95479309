package simulationtest

import (
	"maps"
	"time"
)

// storage has the data of the snapshots of all cells.
type storage struct {
	// volumes counts volumes and snapshots, and writes what containers wrote to volumes.
	volumes, writes int
	// kept has the snapshots by their handles.
	kept map[string]*stored
	// cutTime is how long it takes to cut a snapshot.
	cutTime time.Duration
}

// stored is what a snapshot of an agent's volume has.
type stored struct {
	agentID string
	data    []int
}

func newStorage() *storage { return &storage{kept: map[string]*stored{}} }

func (s *storage) clone() *storage {
	copied := *s
	copied.kept = maps.Clone(s.kept)
	return &copied
}

// release deletes the data of a snapshot that a cell has deleted, unless it must outlive it. Data that the cell has not
// found is forgotten.
func (s *storage) release(deleted *cut) {
	if !deleted.retain && !deleted.unbound {
		delete(s.kept, deleted.handle)
	}
}
