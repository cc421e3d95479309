//go:build unix

package pubsubemu

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}

// TestWindow_DoublesWithEachRoundOfSuccesses shows what a burst meets: only a few requests begin immediately, and slow
// successes keep the others waiting. Workers must answer soon for that reason.
func TestWindow_DoublesWithEachRoundOfSuccesses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		took     time.Duration
		messages int
		want     []int // requests that begin with each round
	}{
		{took: time.Second, messages: 50, want: []int{5, 10, 20, 15}},
		{took: 8 * time.Minute, messages: 50, want: []int{5, 10, 20, 15}},
		{took: time.Second, messages: 200, want: []int{5, 10, 20, 40, 64, 61}},
	} {
		_, began := play(t, func(string) (time.Duration, bool) { return row.took, true }, func(q *queue) {
			q.publish(ids(row.messages)...)
			pass(time.Duration(len(row.want)) * row.took)
		})
		got := make([]int, len(row.want)+1) // the last one counts requests that come too late
		for _, at := range began {
			got[at/row.took]++
		}
		got = slices.DeleteFunc(got, func(n int) bool { return n == 0 })
		if !slices.Equal(got, row.want) {
			t.Errorf("%d requests of %v: rounds of %v, want %v", row.messages, row.took, got, row.want)
		}
	}
}

func TestWindow_ShrinksWithEachFailure(t *testing.T) {
	t.Parallel()
	w := newWindow(8, 64, time.Millisecond)
	for _, row := range []struct {
		acked bool
		want  float64
	}{{true, 9}, {false, 4.5}, {false, 2.25}, {false, 1.125}, {false, 1}, {true, 2}} {
		w.finish(row.acked)
		if w.size != row.want {
			t.Errorf("after acknowledged %t the window is %v, want %v", row.acked, w.size, row.want)
		}
	}
}

func TestWindow_GrowsLinearlyFromThreeThousand(t *testing.T) {
	t.Parallel()
	w := newWindow(5, 10_000, time.Second)
	for range 2995 + 3000 {
		w.finish(true)
	}
	if w.size < 3000.9 || w.size > 3001.1 {
		t.Errorf("the window is %v after 3,000 acknowledgements at 3,000, want 3001", w.size)
	}
}

// TestPushBackoff_DoublesTo60Seconds checks that negative acknowledgements pause the subscription, each for twice as
// long as the one before, and that acknowledgements end it.
func TestPushBackoff_DoublesTo60Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWindow(5, 64, maxPushBackoff)
		fail := func() time.Duration {
			w.finish(false)
			pause := time.Until(w.resumeAt)
			pass(pause)
			return pause
		}
		for _, want := range []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60} {
			if got := fail().Seconds(); math.Abs(got-want) > 0.001 {
				t.Errorf("pause = %v s, want %v", got, want)
			}
		}
		for range acksPerBackoffStep * 11 {
			w.finish(true)
		}
		if got := fail(); got != minPushBackoff {
			t.Errorf("pause after many acknowledgements = %v, want %v again", got, minPushBackoff)
		}
	})
}

// TestPushBackoff_PausesEveryMessage checks that the failure of one message delays others: one that a pull returns
// during the pause, and one that stays in the queue.
func TestPushBackoff_PausesEveryMessage(t *testing.T) {
	t.Parallel()
	var start time.Time
	endpoint := func(id string) (time.Duration, bool) { return time.Second, id != "bad" }
	q, began := play(t, endpoint, func(q *queue) {
		start = time.Now()
		q.publish("first", "bad")
		pass(time.Second + minPushBackoff/4)
		q.publish("pulled")
		pass(minPushBackoff / 4)
		q.publish("queued")
		pass(5 * time.Second)
	})
	want := time.Second + minPushBackoff
	if len(began) != 4 || began[2] != want || began[3] != want {
		t.Errorf("requests began after %v, want the last two after %v", began, want)
	}
	if left := q.messages[3].deliveries[0].Sub(start); left != want {
		t.Errorf("the last message left the queue after %v, want %v", left, want)
	}
}

// TestPushBackoff_StaysWithOneNegativeOfFive plays the example of Google's documentation.
func TestPushBackoff_StaysWithOneNegativeOfFive(t *testing.T) {
	t.Parallel()
	w := newWindow(5, 64, maxPushBackoff)
	for range 3 {
		w.finish(false)
	}
	before := w.pauseExponent
	for range 100 {
		w.finish(false)
		for range 4 {
			w.finish(true)
		}
	}
	if w.pauseExponent != before {
		t.Errorf("the exponent of the pause is %v, want %v as before", w.pauseExponent, before)
	}
}

// TestDelivery_OnePoisonMessageDelaysNoOther publishes a message a second, of which one fails until it is given up.
func TestDelivery_OnePoisonMessageDelaysNoOther(t *testing.T) {
	t.Parallel()
	const took = 200 * time.Millisecond
	q, _ := play(t, func(id string) (time.Duration, bool) { return took, id != "17" }, func(q *queue) {
		for _, id := range ids(100) {
			q.publish(id)
			pass(time.Second)
		}
		pass(3 * time.Hour)
	})
	for _, m := range q.messages {
		if m.id == "17" {
			if !m.dead || len(m.deliveries) != q.retry.attempts {
				t.Errorf("the poison message: given up %t after %d deliveries, want after %d", m.dead,
					len(m.deliveries), q.retry.attempts)
			}
			continue
		}
		if late := m.finished.Sub(m.published); len(m.deliveries) != 1 || late > took+minPushBackoff {
			t.Errorf("message %s: %d deliveries, acknowledged after %v, want one within %v", m.id, len(m.deliveries),
				late, took+minPushBackoff)
		}
	}
}

// TestDelivery_PoisonMessageInABurst publishes all messages in one call. The others are done before the poison message
// comes back.
func TestDelivery_PoisonMessageInABurst(t *testing.T) {
	t.Parallel()
	endpoint := func(id string) (time.Duration, bool) { return 200 * time.Millisecond, id != "3" }
	q, _ := play(t, endpoint, func(q *queue) {
		q.publish(ids(100)...)
		pass(time.Minute)
	})
	for _, m := range q.messages {
		if late := m.finished.Sub(m.published); m.id != "3" && (len(m.deliveries) != 1 || late > 3*time.Second) {
			t.Errorf("message %s: %d deliveries, acknowledged after %v, want one within 3s", m.id, len(m.deliveries),
				late)
		}
	}
}
