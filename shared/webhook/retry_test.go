package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// A receiver that restarts does not make its customer wait for the sweep.
func TestDeliver_WaitsForTheSecondAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = func(event.View) webhook.Result {
		if len(w.attempted) == 1 {
			return withStatus(503)
		}
		return webhook.Result{HTTPStatus: 200}
	}
	w.happen("a")
	start := w.clock()
	w.nudge()
	w.wantAllInOrder("a")
	if took := w.clock().Sub(start); took != 5*time.Second {
		t.Errorf("the event was delivered after %v, want 5s", took)
	}
}

// Only the nudge that made a first attempt waits. The others would hold the pushes of other webhooks.
func TestDeliver_NudgesOfAReceiverThatIsDownDoNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	d := w.deliverer()
	waits := 0
	d.Wait = func(_ context.Context, long time.Duration) error {
		waits++
		for range 10 * (2 - min(waits, 2)) {
			w.happen("a")
			if err := d.Deliver(t.Context(), hookID); err != nil {
				t.Error(err)
			}
		}
		w.wait(long)
		return nil
	}
	if err := d.Deliver(t.Context(), hookID); err != nil {
		t.Fatal(err)
	}
	if n := len(w.attempted); waits != 1 || n != 2 {
		t.Errorf("%d waits and %d attempts, want 1 wait and 2 attempts", waits, n)
	}
}

func TestDeliver_EndsAWaitWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	ctx, cancel := context.WithCancel(t.Context())
	d := w.deliverer()
	d.Wait = nil
	w.beforeUpdate = func(_ webhook.Webhook, done webhook.Done) error {
		if len(done.Deliveries) > 0 {
			cancel()
		}
		return nil
	}
	if err := d.Deliver(ctx, hookID); !errors.Is(err, context.Canceled) {
		t.Errorf("Deliver = %v, want it canceled", err)
	}
	if r := w.record(); r.LeaseHolder != "" || len(r.Lanes) != 1 {
		t.Errorf("the record is %+v, want one lane and no lease", r)
	}
}

// A client that asks for a delivery, and gets it, has shown that its receiver is back.
func TestDeliver_ASuccessfulTestDeliversWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	w.happen("b")
	w.happen("a")
	w.deliver()
	w.answer = nil
	w.request(webhook.NewTest(w.record(), 7, w.clock()))
	w.deliver()
	w.wantAllInOrder("a", "b")
}

// A receiver that refuses one event, and takes others, has as much time for it as one that is down.
func TestDeliver_EarlyAttemptsAreNoneOfTheEight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = downFor("a")
	refused := w.happen("a")
	w.deliver()
	id := webhook.DeliveryID(hookID, refused)
	before := w.deliveries[id]
	for range 20 {
		w.request(webhook.NewTest(w.record(), 7, w.clock()))
		w.deliver()
	}
	d := w.deliveries[id]
	if d.Status != webhook.Pending || !d.NextAttemptAt.Equal(before.NextAttemptAt) {
		t.Errorf("the delivery is %s until %v, want pending until %v", d.Status, d.NextAttemptAt, before.NextAttemptAt)
	}
	if l := w.record().Lanes; len(l) != 1 || l[0].Attempts != 2 {
		t.Errorf("lanes %+v, want one with the 2 attempts of the schedule", l)
	}
	if len(d.Attempts) <= 2 {
		t.Error("the early attempts are not in the log")
	}
}

// A receiver that is back, and slow, gets all that waits, one run after the other. None of these attempts counts.
func TestDeliver_TriesAllLanesOfASlowReceiver(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		takes   time.Duration
		refuses string
	}{
		"with time for some lanes":  {takes: 2 * time.Second},
		"with time for none":        {takes: 11 * time.Second},
		"that refuses those of one": {takes: 2 * time.Second, refuses: "agent-11"},
	} {
		w := newWorld(t)
		agents := w.waitInLanes(12)
		before := w.record().Lanes
		end := w.clock().Add(3 * time.Minute)
		w.answer = func(e event.View) webhook.Result {
			w.wait(row.takes)
			return downFor(row.refuses)(e)
		}
		w.request(webhook.NewTest(w.record(), 7, w.clock()))
		w.deliver()
		if now := w.clock(); now.After(end) {
			t.Errorf("%s: the deliveries took until %v, when the next attempts are due", name, now)
		}
		left := w.record().Lanes
		if row.refuses == "" && len(left) > 0 || row.refuses != "" && !slices.Equal(left, before[11:]) {
			t.Errorf("%s: lanes %+v, want no other than that of %q, as it was", name, left, row.refuses)
		}
		w.wantAllInOrder(slices.DeleteFunc(agents, func(a string) bool { return a == row.refuses })...)
	}
}

// waitInLanes makes the events of so many agents wait minutes for their next attempt.
func (w *world) waitInLanes(n int) (agents []string) {
	w.t.Helper()
	w.answer = down
	for i := range n {
		agents = append(agents, fmt.Sprint("agent-", i))
		w.happen(agents[i])
		w.deliver()
	}
	return agents
}

// A receiver that is back only for moments does not keep lanes from being tried early when it is back the next time.
func TestDeliver_TriesLanesEarlyEachTimeTheReceiverIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agents := w.waitInLanes(3 * 8)
	for _, takes := range []time.Duration{11 * time.Second, time.Second} {
		first := true
		w.answer = func(event.View) webhook.Result {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.now = w.now.Add(takes)
			if up := first || takes == time.Second; !up {
				return down(event.View{})
			}
			first = false
			return webhook.Result{HTTPStatus: 200}
		}
		w.request(webhook.NewTest(w.record(), 7, w.clock()))
		w.deliver()
	}
	w.wantAllInOrder(agents...)
}

func TestDeliver_DisablesAReceiverThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = always(withStatus(410))
	w.happen("a")
	w.deliver()
	r := w.record()
	if r.Status != webhook.Disabled || r.DisabledReason != webhook.DisabledGone || !r.DueAt.IsZero() {
		t.Errorf("the webhook is %s (%q) and due at %v, want disabled: gone", r.Status, r.DisabledReason, r.DueAt)
	}
	if len(w.attempted) != 1 || len(w.written) != 1 || w.written[0].Type != event.WebhookDisabled {
		t.Errorf("%d attempts and the events %v, want one each", len(w.attempted), w.written)
	}
	// The event waits for a client that enables the webhook again.
	w.answer = nil
	w.change(func(r *webhook.Webhook) { r.Enable(w.now) })
	w.deliver()
	w.wantAllInOrder("a")
}

func TestDeliver_WaitsAsLongAsTheReceiverAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = always(webhook.Result{HTTPStatus: 429, Reason: webhook.ReasonStatus, RetryAfter: 20 * time.Minute})
	w.happen("a")
	w.deliver()
	if l := w.record().Lanes[0]; len(w.attempted) != 1 || l.NextAttemptAt.Sub(w.clock()) != 20*time.Minute {
		t.Errorf("%d attempts, the next one in %v, want 1 and 20m", len(w.attempted), l.NextAttemptAt.Sub(w.clock()))
	}
}
