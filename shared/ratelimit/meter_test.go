package ratelimit_test

import (
	"errors"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// TestMeter_ChargesUnits counts the uses of two keys, of which one is refused once.
func TestMeter_ChargesUnits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000, 0)
	m := ratelimit.NewMeter(100, func() time.Time { return now })
	over := fault.New(fault.RateLimited, "over", "Later.")
	over.RetryAfter = time.Minute
	for i, step := range []struct {
		key         string
		later       time.Duration
		used        int64
		answer      error // of a charge
		wantCharged bool
		want        error
	}{
		{key: "a", used: 99},
		{key: "b", used: 99},
		{key: "a", used: 1, wantCharged: true},
		{key: "a", used: 99},
		{key: "a", used: 2, answer: errors.New("an outage"), wantCharged: true},
		{key: "a", used: 1, answer: over, wantCharged: true, want: over},
		{key: "a", used: 1, want: over},
		{key: "b", used: 0},
		{key: "a", later: time.Minute, used: 0, wantCharged: true},
		{key: "a", used: 96},
		{key: "a", used: 1, wantCharged: true},
	} {
		now = now.Add(step.later)
		charged := false
		err := m.Count(step.key, step.used, func() error { charged = true; return step.answer })
		if charged != step.wantCharged || !errors.Is(err, step.want) {
			t.Errorf("step %d: charged %t, %v; want %t, %v", i, charged, err, step.wantCharged, step.want)
		}
		if refusal := m.Refusal(step.key); !errors.Is(refusal, step.want) {
			t.Errorf("step %d: the refusal that stands is %v, want %v", i, refusal, step.want)
		}
	}
}

// TestMeter_DoesNotWaitForACharge counts the use of a key while another use of it is charged.
func TestMeter_DoesNotWaitForACharge(t *testing.T) {
	t.Parallel()
	m := ratelimit.NewMeter(100, nil)
	charges := 0
	err := m.Count("a", 100, func() error {
		charges++
		return m.Count("a", 300, func() error { charges++; return nil })
	})
	if err != nil || charges != 1 {
		t.Errorf("%d charges, %v; want the first one alone", charges, err)
	}
}
