package seal_test

import (
	"context"
	"encoding/json"
	"iter"
	"runtime"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
)

// longLog makes one entry a second while it is read, and a seal of 100 entries at a time. The store lost all entries
// but one in keep, or all of them if keep is 0.
type longLog struct {
	entries int
	keep    int
	// heap holds the memory in use after each fifth of the log.
	heap []uint64
}

func (l *longLog) entry(i int) seal.Entry {
	at := start.Add(time.Duration(i) * time.Second)
	e := audit.Entry{ID: at.Format(time.RFC3339), CreatedAt: at}
	line, _ := json.Marshal(e.Show())
	return seal.Entry{ID: e.ID, CreatedAt: e.CreatedAt, ExpiresAt: e.CreatedAt.AddDate(0, 0, 30), JSON: line}
}

func (l *longLog) measure(i int) {
	if i%(l.entries/5) == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		l.heap = append(l.heap, m.HeapAlloc)
	}
}

// Entries implements seal.Log.
func (l *longLog) Entries(context.Context, string, time.Time, time.Time) iter.Seq2[seal.Entry, error] {
	return func(yield func(seal.Entry, error) bool) {
		for i := range l.entries {
			if l.keep == 0 {
				return
			}
			if i%l.keep > 0 {
				continue
			}
			if !yield(l.entry(i), nil) {
				return
			}
		}
	}
}

// Seals implements seal.Log.
func (l *longLog) Seals(context.Context, string) iter.Seq2[seal.Seal, error] {
	return func(yield func(seal.Seal, error) bool) {
		var previous *seal.Seal
		var leaves []seal.Leaf
		for i := range l.entries {
			l.measure(i)
			leaf, _ := seal.NewLeaf(l.entry(i))
			if leaves = append(leaves, leaf); len(leaves) < 100 {
				continue
			}
			made, _ := seal.New(organization, previous, leaves, leaf.CreatedAt)
			if !yield(made, nil) {
				return
			}
			made.Leaves = nil
			previous, leaves = &made, nil
		}
	}
}

// TestVerify_HoldsAWindowInMemory verifies a log whose leaves take 1.4 MB, with its entries and without some or all of
// them.
//
//nolint:paralleltest // it measures the memory of the process
func TestVerify_HoldsAWindowInMemory(t *testing.T) {
	for _, keep := range []int{1, 1000, 0} {
		l := &longLog{entries: 5_000, keep: keep}
		now := func() time.Time { return start.Add(24 * time.Hour) }
		report, err := seal.Verify(t.Context(), l, organization, now, nil)
		if err != nil || report.Verified() != (keep == 1) || report.Seals != 50 {
			t.Fatalf("one in %d kept: report %+v, %v", keep, report, err)
		}
		const most = 512 << 10
		if grown := int64(l.heap[4]) - int64(l.heap[1]); grown > most { //nolint:gosec // far from the limit
			t.Errorf("one in %d kept: the heap grew by %d bytes between 1/5 and 4/5 of the log, want less than %d",
				keep, grown, most)
		}
	}
}
