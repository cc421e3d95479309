package simulationtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// counter is an outside with a lost update: processes read and then write.
func runCounter(seed uint64, keep bool) (value int, s *Scheduler) {
	s = NewScheduler(seed)
	s.Keep = keep
	defer s.Stop()
	for _, name := range []string{"a", "b"} {
		s.Go(name, func(ctx context.Context, p *Process) {
			var read int
			_ = p.Step(ctx, DatabaseService, "read", func() error { read = value; return nil })
			_ = p.Step(ctx, DatabaseService, "write", func() error { value = read + 1; return nil })
		})
	}
	for !s.Idle() {
		if !s.Next(nil) {
			s.Pass(time.Second)
		}
	}
	return value, s
}

func TestScheduler_FindsALostUpdateAndReplaysIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		distinct := map[uint64]struct{}{}
		lost := uint64(0)
		for seed := range uint64(100) {
			value, s := runCounter(seed, false)
			distinct[s.Sum()] = struct{}{}
			if value == 1 {
				lost = seed
			}
		}
		if len(distinct) != 6 { // the interleavings of two times two steps
			t.Errorf("%d distinct schedules, want 6", len(distinct))
		}
		value, first := runCounter(lost, true)
		again, second := runCounter(lost, true)
		if value != 1 || again != 1 || first.Sum() != second.Sum() {
			t.Errorf("replays of a lost update ended with %d and %d, and the sums %d and %d; want 1, 1 "+
				"and equal sums:\n%s",
				value, again, first.Sum(), second.Sum(), first.Trace())
		}
	})
}

func TestStep_HasTheEffectThatTheVerdictSays(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[Verdict]struct {
		effects int
		crashed bool
		takes   time.Duration
	}{
		Happens: {effects: 1}, Refused: {effects: 0}, Lost: {effects: 1}, Late: {effects: 1, takes: callTimeout},
		CrashesBefore: {effects: 0, crashed: true}, CrashesAfter: {effects: 1, crashed: true},
	} {
		t.Run(string(verdict), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, effects := NewScheduler(1), 0
				defer s.Stop()
				began := time.Now()
				var took time.Duration
				var err, after error
				p := s.Go("a", func(ctx context.Context, p *Process) {
					err = p.Step(ctx, DatabaseService, "write", func() error { effects++; return nil })
					took = time.Since(began)
					if p.Crashed() {
						after = p.Step(context.Background(), DatabaseService, "write",
							func() error { effects++; return nil })
					}
				})
				synctest.Wait()
				granted := s.parked[0]
				s.parked = nil
				granted.verdict <- verdict
				for !s.Idle() {
					if !s.Next(nil) {
						s.Pass(time.Second)
					}
				}
				var failed *Error
				if errors.As(err, &failed) != (verdict != Happens) {
					t.Errorf("error = %v", err)
				}
				if effects != want.effects || p.Crashed() != want.crashed || took != want.takes {
					t.Errorf("%d effects, crashed %t, took %v; want %+v", effects, p.Crashed(), took, want)
				}
				if want.crashed && after == nil {
					t.Error("a step after the crash succeeded")
				}
			})
		})
	}
}
