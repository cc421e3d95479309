package webhook_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/webhook"
)

// change is a change by a client.
func (w *world) change(change func(*webhook.Webhook)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.records[hookID]
	r.Lanes, r.Requests = slices.Clone(r.Lanes), slices.Clone(r.Requests)
	change(&r)
	w.version++
	r.Version = fmt.Sprint(w.version)
	w.records[hookID] = r
}

// test requests a test event, and returns the id of its delivery.
func (w *world) test() string {
	w.t.Helper()
	d := webhook.NewTest(w.record(), uint64(len(w.deliveries)), w.clock())
	d.Again(w.clock())
	w.change(func(r *webhook.Webhook) {
		w.deliveries[d.ID] = d
		if err := r.Request(d.ID, w.now); err != nil {
			w.t.Error(err)
		}
	})
	return d.ID
}

// redeliver requests a delivery again.
func (w *world) redeliver(id string) {
	w.t.Helper()
	w.change(func(r *webhook.Webhook) {
		d := w.deliveries[id]
		if err := r.Redeliver(&d, w.now); err != nil {
			w.t.Error(err)
		}
		w.deliveries[id] = d
	})
}

// attempts counts how often an event was sent.
func (w *world) attempts(id event.ID, agent string) (n int) {
	for _, a := range w.attempted {
		if a == string(id)+" "+agent {
			n++
		}
	}
	return n
}

// unreadable is an event log that cannot read single events.
type unreadable struct{ *world }

func (unreadable) Get(context.Context, string, event.ID) (event.Event, error) {
	return event.Event{}, errStep
}

// The read for one requested delivery fails. The other is recorded, and the events after it are delivered.
func TestDeliver_ARequestThatCannotBeServedDelaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := webhook.DeliveryID(hookID, w.happen("a"))
	w.deliver()
	w.redeliver(id)
	test := w.test()
	w.happen("b")
	d := w.deliverer()
	d.Events = unreadable{w}
	if err := d.Deliver(t.Context(), hookID); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Deliver = %v, want the error of the read", err)
	}
	if got := w.deliveries[test]; got.Status != webhook.Succeeded || len(got.Attempts) != 1 {
		t.Errorf("the test is %s after %d attempts, want succeeded after one", got.Status, len(got.Attempts))
	}
	w.wantAllInOrder("b")
	if r := w.record(); !slices.Equal(r.Requests, []string{id}) || r.DueAt.Sub(w.clock()) > time.Minute {
		t.Errorf("the requests %v are left until %v, want %s soon", r.Requests, r.DueAt, id)
	}
	w.deliver()
	if got := w.deliveries[id]; got.Status != webhook.Succeeded || len(got.Attempts) != 2 {
		t.Errorf("the delivery is %s after %d attempts, want succeeded after two", got.Status, len(got.Attempts))
	}
}

// The time of a run ends before all requested deliveries were attempted.
func TestDeliver_RequestsWithoutTimeStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range webhook.MaxRequests {
		w.test()
	}
	w.answer = func(event.View) webhook.Result {
		w.wait(3 * time.Second)
		return webhook.Result{HTTPStatus: 200}
	}
	w.nudge()
	left := len(w.record().Requests)
	if left == 0 || left == webhook.MaxRequests || !w.takeNudge() {
		t.Errorf("%d requests are left, want some, and a nudge", left)
	}
	w.deliver()
	for _, d := range w.deliveries {
		if d.Status != webhook.Succeeded {
			t.Errorf("the delivery %s is %s, want succeeded", d.ID, d.Status)
		}
	}
}

// A client requests a delivery again while the run that served the first request still works.
func TestDeliver_ServesARequestThatRepeatsOneOfTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.happen("a")
	w.deliver()
	id := webhook.DeliveryID(hookID, first)
	w.redeliver(id)
	w.happen("b")
	w.answer = func(e event.View) webhook.Result {
		if e.ID != first {
			w.redeliver(id)
		}
		return webhook.Result{HTTPStatus: 200}
	}
	w.deliver()
	if d := w.deliveries[id]; d.Status != webhook.Succeeded || w.attempts(first, "a") != 3 {
		t.Errorf("the delivery is %s and was sent %d times, want succeeded after 3", d.Status, w.attempts(first, "a"))
	}
}

// What decides is what the webhook will do, not the delivery's status: an earlier release left deliveries pending.
func TestRedeliver_RefusesOnlyWhatWillBeAttempted(t *testing.T) {
	t.Parallel()
	head := webhook.Delivery{ID: "head", EventID: "evt_1", Status: webhook.Failed}
	for name, row := range map[string]struct {
		given    webhook.Webhook
		delivery webhook.Delivery
		wantCode string
	}{
		"pending, of no run": {delivery: webhook.Delivery{ID: "d", EventID: "evt_2", Status: webhook.Pending}},
		"has ended":          {delivery: webhook.Delivery{ID: "d", EventID: "evt_2", Status: webhook.Succeeded}},
		"head of a lane": {
			given:    webhook.Webhook{Lanes: []webhook.Lane{{Head: "evt_1"}}},
			delivery: head, wantCode: "delivery_pending",
		},
		"requested": {given: webhook.Webhook{Requests: []string{"head"}}, delivery: head, wantCode: "delivery_pending"},
	} {
		w, d := row.given, row.delivery
		err := w.Redeliver(&d, time.Now())
		code := fault.Code(err)
		if code != row.wantCode || err == nil && (d.Status != webhook.Pending || !slices.Contains(w.Requests, d.ID)) {
			t.Errorf("%s: %q, %s, requests %v; want %q", name, code, d.Status, w.Requests, row.wantCode)
		}
	}
}

// A user repairs a receiver, sends a test event to the disabled webhook, and enables the webhook before the answer.
func TestDeliver_KeepsWhatEnablingDidDuringATest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	for w.record().Status == webhook.Enabled && len(w.events) < 500 { // three days of failures
		w.happen("a")
		w.deliver()
		w.wait(time.Hour)
	}
	if w.record().Status != webhook.Disabled {
		t.Fatal("the webhook is not disabled")
	}
	w.test()
	var enabledAt time.Time
	w.answer = func(event.View) webhook.Result {
		if enabledAt.IsZero() {
			enabledAt = w.clock()
			w.change(func(r *webhook.Webhook) { r.Enable(enabledAt) })
		}
		return withStatus(503) // it is still starting
	}
	w.nudge()
	w.wait(time.Minute)
	w.happen("b")
	w.deliver()
	r := w.record()
	if r.Status != webhook.Enabled {
		t.Errorf("%v after it was enabled, the webhook is disabled (%s)", w.clock().Sub(enabledAt), r.DisabledReason)
	}
	for _, l := range r.Lanes {
		if next := l.NextAttemptAt.Sub(enabledAt); next > time.Hour {
			t.Errorf("the events of agent %q are tried %v after the webhook was enabled", l.AgentID, next)
		}
	}
}

// What a client changes while a run sends events decides about these events.
func TestDeliver_GoesByWhatAClientChangesDuringARun(t *testing.T) {
	t.Parallel()
	gone := withStatus(410)
	taken := webhook.Result{HTTPStatus: 200}
	for name, row := range map[string]struct {
		change func(*webhook.Webhook)
		first  webhook.Result // the answer to the first attempt, during which the client makes the change
		// then is what holds after the run.
		then func(w *world, r webhook.Webhook) string
	}{
		"more types": {
			first: taken, change: func(r *webhook.Webhook) { r.Types = nil },
			then: func(w *world, _ webhook.Webhook) string {
				w.wantAllInOrder("a", "b")
				return ""
			},
		},
		"another receiver": {
			first: gone, change: func(r *webhook.Webhook) { r.URL = "https://new.example.com/" },
			then: func(w *world, r webhook.Webhook) string {
				w.wantAllInOrder("a")
				if r.Status != webhook.Enabled {
					return fmt.Sprintf("the webhook is %s (%s)", r.Status, r.DisabledReason)
				}
				return ""
			},
		},
		"disabled": {
			first: taken, change: func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) },
			then: func(w *world, r webhook.Webhook) string {
				if r.Position != w.events[39].ID || len(w.attempted) != 40 {
					return fmt.Sprintf("the position is %s after %d attempts, want 40", r.Position, len(w.attempted))
				}
				return ""
			},
		},
		"disabled as the receiver ends": {
			first: gone, change: func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) },
			then: func(w *world, r webhook.Webhook) string {
				if r.DisabledReason != webhook.DisabledByRequest || len(w.written) != 0 {
					return fmt.Sprintf("it is disabled (%s) with the events %v", r.DisabledReason, w.written)
				}
				return ""
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.change(func(r *webhook.Webhook) { r.Types = []event.Type{event.AgentRunning} })
			for range 45 { // more than a page
				w.happen("a")
			}
			var once sync.Once
			w.answer = func(event.View) webhook.Result {
				answer := taken
				once.Do(func() {
					answer = row.first
					w.change(row.change)
					w.happen("b")
					w.events[45].Type = event.AgentError
				})
				return answer
			}
			w.deliver()
			if problem := row.then(w, w.record()); problem != "" {
				t.Error(problem)
			}
		})
	}
}

// A client narrows the types of a webhook while an event of another type waits for its next attempt.
func TestDeliver_ADeliveryOfATypeThatIsNoLongerWantedEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	id := webhook.DeliveryID(hookID, w.happen("a"))
	w.deliver()
	w.change(func(r *webhook.Webhook) { r.Types = []event.Type{event.AgentError} })
	w.answer = nil
	w.wait(time.Hour)
	w.deliver()
	d := w.deliveries[id]
	if d.Status != webhook.Failed || !d.NextAttemptAt.IsZero() || d.CompletedAt.IsZero() || len(d.Attempts) != 2 {
		t.Errorf("the delivery is %+v, want failed after the two attempts that were made", d)
	}
	if len(w.received) != 0 || len(w.record().Lanes) != 0 {
		t.Errorf("the receiver took %v, and %d lanes are left, want none", w.received, len(w.record().Lanes))
	}
	w.redeliver(id)
}

// The events of a lane are those that the webhook wants.
func TestDeliver_LanesSkipUnwantedTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change(func(r *webhook.Webhook) { r.Types = []event.Type{event.AgentError} })
	w.answer = down
	var want []event.ID
	for i := range 3 {
		id := w.happen("a")
		if i != 1 {
			w.events[i].Type = event.AgentError
			want = append(want, id)
		}
	}
	w.deliver()
	w.answer = nil
	w.wait(2 * time.Hour)
	w.deliver()
	w.wantTaken("a", want...)
}

// Enabling a webhook makes the attempts of its lanes begin again, and forgets none that was made.
func TestDeliver_KeepsTheAttemptsBeforeAWebhookWasEnabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	id := webhook.DeliveryID(hookID, w.happen("a"))
	w.deliver()
	w.change(func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) })
	w.change(func(r *webhook.Webhook) { r.Enable(w.now) })
	w.answer = nil
	w.deliver()
	if d := w.deliveries[id]; d.Status != webhook.Succeeded || len(d.Attempts) != 3 {
		t.Errorf("the delivery is %s with %d attempts, want succeeded with 3", d.Status, len(d.Attempts))
	}
}

// TestSetURL_GivesAnotherReceiverItsOwnThreeDays: the former receiver was down for them, and the first attempt at the
// other one fails.
func TestSetURL_GivesAnotherReceiverItsOwnThreeDays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		url  string
		want webhook.Status
	}{
		"another receiver":  {url: "https://other.example.com", want: webhook.Enabled},
		"the same receiver": {want: webhook.Disabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.answer = down
			w.happen("a")
			for range 5 {
				w.deliver()
				w.wait(14 * time.Hour)
			}
			w.wait(3 * time.Hour)
			w.change(func(r *webhook.Webhook) { r.SetURL(cmp.Or(row.url, r.URL), w.now) })
			w.happen("b")
			w.deliver()
			if got := w.record(); got.Status != row.want {
				t.Errorf("the webhook is %s, failing since %v, want %s", got.Status, got.FailingSince, row.want)
			}
		})
	}
}

// TestSetURL_TriesAnotherReceiverImmediately: the former receiver has refused an event for a day, and no other event
// comes. The other receiver gets the event also if the nudge of the change is lost, and has eight attempts for it.
func TestSetURL_TriesAnotherReceiverImmediately(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	id := webhook.DeliveryID(hookID, w.happen("a"))
	w.deliver()
	for range 6 {
		w.wait(10 * time.Hour)
		w.deliver()
	}
	if d := w.deliveries[id]; len(d.Attempts) < 7 || d.Status != webhook.Pending {
		t.Fatalf("the delivery is %s after %d attempts, want 7 and another one", d.Status, len(d.Attempts))
	}
	w.change(func(r *webhook.Webhook) { r.SetURL("https://other.example.com", w.now) })
	if due, _ := w.ListDue(t.Context(), w.clock(), 1); len(due) != 1 {
		t.Error("the sweep does not find the webhook")
	}
	w.deliver()
	if d := w.deliveries[id]; d.Status != webhook.Pending {
		t.Errorf("after the first attempt at the other receiver the delivery is %s, want pending", d.Status)
	}
	w.answer = nil
	w.wait(time.Minute)
	w.change(func(r *webhook.Webhook) { r.SetURL("https://third.example.com", w.now) })
	w.deliver()
	w.wantAllInOrder("a")
}

func TestSetURL_LeavesADisabledWebhookAlone(t *testing.T) {
	t.Parallel()
	var w webhook.Webhook
	w.Enable(time.Now())
	w.Disable(webhook.DisabledByRequest)
	w.SetURL("https://other.example.com", time.Now())
	if !w.DueAt.IsZero() {
		t.Errorf("the disabled webhook is due at %v, want never", w.DueAt)
	}
}

func TestDisable_LeavesRequestsDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, requests := range []int{0, 1} {
		var w webhook.Webhook
		w.Enable(now)
		if requests > 0 {
			if err := w.Request("r", now); err != nil {
				t.Fatal(err)
			}
		}
		w.Disable(webhook.DisabledByRequest)
		if due := !w.DueAt.IsZero(); due != (requests > 0) {
			t.Errorf("with %d requests, the disabled webhook is due: %t", requests, due)
		}
	}
}

func TestDelivery_KeepsTheLatestAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := webhook.DeliveryID(hookID, w.happen("a"))
	w.deliver()
	for range 20 {
		w.wait(time.Minute)
		w.redeliver(id)
		w.deliver()
	}
	got := w.deliveries[id].Attempts
	if len(got) != 16 || !got[15].At.Equal(w.clock()) || !got[0].At.Equal(w.clock().Add(-15*time.Minute)) {
		t.Errorf("%d attempts from %v to %v, want the latest 16", len(got), got[0].At, got[len(got)-1].At)
	}
}
