package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// A commit fails, and the one that ends the lease does not. It must not record the rest of what the first would have.
func TestDeliver_AFailedCommitLosesNoRecordAndNoEvent(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"refused": false, "its answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.answer = always(withStatus(410))
			id := webhook.DeliveryID(hookID, w.happen("a"))
			d := w.deliverer()
			d.Store = &failingStore{world: w, applied: applied}
			if err := d.Deliver(t.Context(), hookID); err == nil {
				t.Error("Deliver hides that a commit failed")
			}
			if r := w.record(); r.LeaseHolder != "" || !applied && r.DueAt.Sub(w.clock()) > time.Minute {
				t.Errorf("the run left the lease %q and the webhook due at %v", r.LeaseHolder, r.DueAt)
			}
			w.deliver()
			r, delivery := w.record(), w.deliveries[id]
			if r.DisabledReason != webhook.DisabledGone || len(w.written) != 1 {
				t.Errorf("the webhook is %s (%s) with %d events, want disabled with one", r.Status, r.DisabledReason,
					len(w.written))
			}
			if delivery.Status != webhook.Pending || len(r.Lanes) != 1 || r.Lanes[0].Head != delivery.EventID {
				t.Errorf("the delivery is %s, and the lanes are %+v, want both to wait", delivery.Status, r.Lanes)
			}
		})
	}
}

// failingStore fails the first commit that has deliveries.
type failingStore struct {
	*world
	applied, failed bool
}

// Update implements webhook.WorkerStore.
func (s *failingStore) Update(ctx context.Context, old webhook.Webhook, done webhook.Done,
	change func(*webhook.Webhook) error,
) (webhook.Webhook, error) {
	if len(done.Deliveries) == 0 || s.failed {
		return s.world.Update(ctx, old, done, change)
	}
	if s.failed = true; s.applied {
		_, _ = s.world.Update(ctx, old, done, change)
	}
	return webhook.Webhook{}, errStep
}

// The push of a nudge times out while a receiver takes an event, or a requested delivery.
func TestDeliver_RecordsWhatWasTakenWhenTheNudgeEnds(t *testing.T) {
	t.Parallel()
	for name, requested := range map[string]bool{"an event": false, "a test": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			w.answer = func(event.View) webhook.Result {
				cancel()
				return webhook.Result{HTTPStatus: 200}
			}
			if requested {
				w.test()
			} else {
				w.happen("a")
			}
			if err := w.deliverer().Deliver(ctx, hookID); err == nil && requested {
				t.Error("Deliver hides that its time is over")
			}
			w.wait(time.Minute) // until no lease holds
			w.deliver()
			if len(w.received) != 1 {
				t.Errorf("the receiver took %v, want one message", w.received)
			}
		})
	}
}

// slowLog is an event log whose lists take long.
type slowLog struct {
	*world
	takes time.Duration
	lists int
}

// List implements webhook.Events.
func (s *slowLog) List(ctx context.Context, organizationID string, f event.Filter, after event.ID, limit int) (
	event.Batch, error,
) {
	s.lists++
	s.wait(s.takes)
	return s.world.List(ctx, organizationID, f, after, limit)
}

// A run makes progress however long a list takes, and it lists no more often than it must: each list reads the events
// of the last five minutes.
func TestDeliver_MakesProgressIfTheLogIsSlow(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{time.Second, 9 * time.Second, 20 * time.Second} {
		w := newWorld(t)
		w.happen("a")
		w.happen("b")
		d := w.deliverer()
		events := &slowLog{world: w, takes: takes}
		d.Events = events
		runs := 0
		for again := true; again && runs < 10; again = w.takeNudge() {
			runs++
			if err := d.Deliver(t.Context(), hookID); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.received) != 2 || runs > 3 || events.lists != runs {
			t.Errorf("lists of %v: %d of 2 events after %d runs and %d lists, want a list for each of at most 3 runs",
				takes, len(w.received), runs, events.lists)
		}
	}
}

// limitedLog is an event log that notes how many events each list is asked for.
type limitedLog struct {
	*world
	limits []int
}

// List implements webhook.Events.
func (l *limitedLog) List(ctx context.Context, organizationID string, f event.Filter, after event.ID, limit int) (
	event.Batch, error,
) {
	l.limits = append(l.limits, limit)
	return l.world.List(ctx, organizationID, f, after, limit)
}

// Each list also reads the events of the last five minutes, so a long backlog takes few. A list is no longer than what
// the run has delivered and a thousand events: the next run reads again what this one has no time for.
func TestDeliver_ReadsALongBacklogWithFewLists(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		takes  time.Duration // of each event
		limits []int
	}{
		"a fast receiver": {0, []int{1000, 2000, 4000, 8000}},
		"a slow receiver": {time.Second, []int{1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.answer = func(event.View) webhook.Result { w.wait(test.takes); return webhook.Result{HTTPStatus: 200} }
			for i := range 7001 {
				w.happen(fmt.Sprint("agent ", i%100))
			}
			d, events := w.deliverer(), &limitedLog{world: w}
			d.Events = events
			if err := d.Deliver(t.Context(), hookID); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(events.limits, test.limits) {
				t.Errorf("a run asked for %v events, want %v", events.limits, test.limits)
			}
		})
	}
}

// Failures of some agents' events say nothing about a receiver that takes those of another one in between.
func TestDeliver_OnlyFailuresInARowCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 200 { // five pages
		if i%40 == 0 {
			w.happen(fmt.Sprint("refused ", i))
		} else {
			w.happen("taken")
		}
	}
	w.answer = func(e event.View) webhook.Result {
		if *e.AgentID != "taken" {
			return withStatus(500)
		}
		return webhook.Result{HTTPStatus: 200}
	}
	w.nudge()
	w.wantAllInOrder("taken")
}
