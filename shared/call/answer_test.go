package call_test

import (
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/call"
)

// TestAnswer_WaitsForTheLongestButNotLong holds how long an answer is late for what its call has begun.
func TestAnswer_WaitsForTheLongestButNotLong(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		takes []time.Duration
		want  time.Duration
	}{
		"nothing":     {},
		"the longest": {takes: []time.Duration{20 * ms, 30 * ms, 10 * ms}, want: 30 * ms},
		"an outage":   {takes: []time.Duration{5 * time.Second, 5 * time.Second}, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, answer := time.Now(), &call.Answer{}
				for _, d := range row.takes {
					answer.WaitFor(endsAfter(d))
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("the call waits %s itself", d)
				}
				answer.Wait()
				answer.Wait() // has nothing left to wait for
				if d := time.Since(began); d != row.want {
					t.Errorf("the answer waits %s, want %s", d, row.want)
				}
				<-time.After(10 * time.Second) // ends what has begun
			})
		})
	}
}

// TestAnswer_WithoutOneTheCallerWaits: a command of the operator has no answer.
func TestAnswer_WithoutOneTheCallerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		call.From(t.Context()).Answer.WaitFor(endsAfter(20 * time.Millisecond))
		if d := time.Since(began); d != 20*time.Millisecond {
			t.Errorf("the caller waits %s, want 20ms", d)
		}
	})
}

func endsAfter(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}
