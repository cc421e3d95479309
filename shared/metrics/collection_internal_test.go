package metrics

import (
	"testing"
	"time"
)

// TestPieceUntil_NextSpanBeginsAtItsEndOrBeforeWhatMayBeLate has a piece that ended long ago, and one that has just
// ended.
func TestPieceUntil_NextSpanBeginsAtItsEndOrBeforeWhatMayBeLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 2, 0, 0, time.UTC)
	for ago, atLatest := range map[time.Duration]time.Time{
		2 * time.Hour:   now.Add(-2 * time.Hour),
		2 * time.Minute: now.Add(-MaxSampleDelay),
	} {
		piece := Span{From: now.Add(-3 * time.Hour), To: now.Add(-ago)}
		next := spanSince(pieceUntil(piece, now), now)
		if next.From.After(atLatest) || next.From.Before(atLatest.Add(-2*coarseStep)) {
			t.Errorf("after a piece until %v, the next span begins at %v, want about %v", piece.To, next.From, atLatest)
		}
	}
}
