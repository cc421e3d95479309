package function_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/function"
)

func TestSince_IsATimeOrADurationBeforeTheRequest(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "1h30m": now.Add(-90 * time.Minute),
		"1.5s":                      now.Add(-1500 * time.Millisecond),
		"2026-03-02T09:00:00Z":      now.Add(-30 * time.Minute),
		"2026-03-02T11:30:00+02:00": now,
		"0000-01-01T00:00:00Z":      {}, "1969-12-31T23:59:59Z": {}, "999999h": {},
	} {
		s, err := function.ParseSince(text)
		if err != nil || !s.Time(now).Equal(want) {
			t.Errorf("%q is read as %v, %v, want %v", text, s.Time(now), err, want)
		}
	}
	for _, text := range []string{"", "0", "0s", "-5m", "10", "10 m", "m", "now", "1e3s", "9999999999h", "2026-03-02"} {
		if s, err := function.ParseSince(text); err == nil {
			t.Errorf("%q is read as %v, want an error", text, s.Time(now))
		}
	}
}

// FuzzSince checks that an accepted text is in the range of times that cells can write.
func FuzzSince(f *testing.F) {
	for _, text := range []string{
		"10m", "1ns", "2562047h47m16.854775807s", "2026-03-02t23:59:60z",
		"9999-12-31T23:59:59-23:59",
	} {
		f.Add(text)
	}
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := function.ParseSince(text)
		if err != nil {
			return
		}
		if at := s.Time(now); !at.IsZero() && (at.Unix() <= 0 || at.Year() > 10_000) {
			t.Errorf("%q is read as %v", text, at)
		}
	})
}
