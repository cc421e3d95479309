package metrics

import (
	"testing"
	"time"
)

// TestPieceUntil_NextSpanBeginsAtItsEndOrBeforeWhatMayBeLate has a piece that ends long ago, and one that ends now.
func TestPieceUntil_NextSpanBeginsAtItsEndOrBeforeWhatMayBeLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ago time.Duration
		// wantFrom is when the next span begins at the latest.
		wantFrom time.Duration
	}{
		"long ago": {ago: 2 * time.Hour, wantFrom: 2 * time.Hour},
		"now":      {ago: time.Minute, wantFrom: MaxSampleDelay + time.Minute},
	} {
		piece := Span{From: now.Add(-3 * time.Hour), To: now.Add(-c.ago)}
		next := spanSince(pieceUntil(piece, now), now)
		if want := now.Add(-c.wantFrom); next.From.After(want) || next.From.Before(want.Add(-2*coarseStep)) {
			t.Errorf("%s: the next span begins at %v, want about %v", name, next.From, want)
		}
	}
}
