package webhook_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

func down(event.View) webhook.Result { return webhook.Result{Reason: webhook.ReasonConnect} }

// withStatus is the result of an attempt that the receiver answers with a status that is no success.
func withStatus(status int) webhook.Result {
	return webhook.Result{HTTPStatus: status, Reason: webhook.ReasonStatus}
}

// always makes a receiver answer each attempt with the same result.
func always(r webhook.Result) func(event.View) webhook.Result {
	return func(event.View) webhook.Result { return r }
}

// downFor makes the receiver refuse the events of an agent.
func downFor(agent string) func(event.View) webhook.Result {
	return func(e event.View) webhook.Result {
		if e.AgentID != nil && *e.AgentID == agent {
			return withStatus(500)
		}
		return webhook.Result{HTTPStatus: 200}
	}
}

func TestDeliver_SendsEveryEventInTheOrderOfItsAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happenTo(130, "a", "b", "", "c") // several pages
	w.deliver()
	w.wantAllInOrder("a", "b", "c", "")
	if len(w.received) != 130 {
		t.Errorf("the receiver took %d messages, want each event once", len(w.received))
	}
	for _, e := range w.events {
		d := w.deliveries[webhook.DeliveryID(hookID, e.ID)]
		if d.Status != webhook.Succeeded || len(d.Attempts) != 1 || d.EventID != e.ID || d.CompletedAt.IsZero() {
			t.Errorf("the delivery of %s is %+v", e.ID, d)
		}
	}
	w.deliver()
	if len(w.received) != 130 {
		t.Error("events were delivered again")
	}
}

func TestDeliver_SendsOnlyTheTypesOfTheWebhook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change(func(r *webhook.Webhook) { r.Types = []event.Type{event.AgentError} })
	w.happen("a")
	wanted := w.happen("a")
	w.events[1].Type = event.AgentError
	w.happen("a")
	w.deliver()
	w.wantTaken("a", wanted)
}

func TestDeliver_CatchesUpAfterTheReceiverWasDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	agents := []string{"", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"}
	w.happenTo(300, agents...)
	w.deliver()
	if n := len(w.attempted); n == 0 || n > 30 {
		t.Errorf("%d attempts at a receiver that is down, want a few", n)
	}
	for range 6 { // what the sweep does
		w.wait(time.Minute)
		w.deliver()
		w.happen("a")
	}
	if n := len(w.record().Lanes); n > len(agents) {
		t.Errorf("%d lanes, want at most one for each of %d agents", n, len(agents))
	}
	w.answer = nil
	w.wait(6 * time.Minute)
	w.deliver()
	w.wantAllInOrder(agents...)
	r := w.record()
	if len(r.Lanes) != 0 || !r.FailingSince.IsZero() {
		t.Errorf("the record still has %d lanes and fails since %v", len(r.Lanes), r.FailingSince)
	}
	if len(w.received) != len(w.events) {
		t.Errorf("the receiver took %d messages for %d events", len(w.received), len(w.events))
	}
}

// TestDeliver_BoundsTheRecord: the record of a webhook must fit into a document, however many agents have lanes.
func TestDeliver_BoundsTheRecord(t *testing.T) {
	t.Parallel()
	const most = 4000
	w := newWorld(t)
	full := w.record()
	later := w.clock().Add(time.Hour)
	for i := range most {
		full.Lanes = append(full.Lanes, webhook.Lane{
			AgentID: fmt.Sprint("agent-", i), After: full.Position, NextAttemptAt: later,
		})
	}
	w.records[hookID] = full
	w.happen("another")
	w.deliver()
	if got := w.record(); len(got.Lanes) != most || got.Position != full.Position || len(w.attempted) > 0 {
		t.Errorf("%d lanes, the position %s and %d attempts; want %d, %s and none", len(got.Lanes), got.Position,
			len(w.attempted), most, full.Position)
	}
	w.wait(time.Hour)
	w.deliver()
	if got := w.record(); len(got.Lanes) != 0 || len(w.takenFrom("another")) != 1 {
		t.Errorf("%d lanes and the events %q; want none and one event", len(got.Lanes), w.takenFrom("another"))
	}
}

// A receiver that refuses the events of one agent gets those of the others.
func TestDeliver_OneAgentDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = downFor("a")
	w.happenTo(60, "a", "b", "c")
	w.deliver()
	w.wantAllInOrder("b", "c")
	w.happen("b")
	w.happen("a")
	w.deliver()
	w.wantAllInOrder("b", "c")
	if got := w.takenFrom("a"); got != nil {
		t.Errorf("the receiver took %v of the agent that it refuses", got)
	}
	w.answer = nil
	w.wait(6 * time.Minute)
	w.deliver()
	w.wantAllInOrder("a", "b", "c")
}

func TestDeliver_GivesUpAfterEightAttemptsAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.happen("a"), w.happen("a")
	w.answer = func(e event.View) webhook.Result {
		if e.ID == first {
			return withStatus(500)
		}
		return webhook.Result{HTTPStatus: 200}
	}
	w.deliver()
	for range 1000 {
		r := w.record()
		if len(r.Lanes) == 0 {
			break
		}
		w.wait(r.DueAt.Sub(w.clock()))
		w.deliver()
	}
	d := w.deliveries[webhook.DeliveryID(hookID, first)]
	if d.Status != webhook.Failed || len(d.Attempts) != 8 || d.CompletedAt.IsZero() || !d.NextAttemptAt.IsZero() {
		t.Errorf("the delivery is %s after %d attempts, want failed after 8", d.Status, len(d.Attempts))
	}
	if took := d.Attempts[len(d.Attempts)-1].At.Sub(d.Attempts[0].At); took.Round(time.Minute) != 33*time.Hour {
		t.Errorf("the attempts took %v, want 33 hours", took)
	}
	w.wantTaken("a", second)
}

// TestDeliver_CountsNoTimeWithoutAttempts: the receiver was down for the last event, a month before the next one.
func TestDeliver_CountsNoTimeWithoutAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	for w.deliver(); len(w.record().Lanes) > 0; w.deliver() {
		w.wait(w.record().DueAt.Sub(w.clock()))
	}
	w.wait(30 * 24 * time.Hour)
	last := w.happen("a")
	w.deliver()
	if r := w.record(); r.Status != webhook.Enabled {
		t.Fatalf("after a month without events, one failure disables the webhook (%s)", r.DisabledReason)
	}
	w.answer = nil
	w.wait(time.Hour)
	w.deliver()
	w.wantTaken("a", last)
}

func TestDeliver_DisablesAfterThreeDaysOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	start := w.clock()
	for w.record().Status == webhook.Enabled && w.clock().Sub(start) < 100*time.Hour {
		w.happen("a")
		w.deliver()
		w.wait(time.Hour)
	}
	r := w.record()
	if failed := w.clock().Sub(start); failed < 72*time.Hour || failed > 90*time.Hour || r.Status != webhook.Disabled {
		t.Errorf("the webhook is %s after %v, want disabled after 72 hours", r.Status, failed)
	}
	if r.DisabledReason != webhook.DisabledFailing || !r.DueAt.IsZero() {
		t.Errorf("the record says %q and is due at %v", r.DisabledReason, r.DueAt)
	}
	if len(w.written) != 1 || w.written[0].Type != event.WebhookDisabled {
		t.Errorf("events written: %v, want one webhook.disabled", w.written)
	}
	attempts := len(w.attempted)
	w.happen("a")
	w.deliver()
	if len(w.attempted) != attempts {
		t.Error("a disabled webhook was attempted")
	}
	w.answer = nil
	w.change(func(r *webhook.Webhook) { r.Enable(w.now) })
	missed := w.happen("b")
	w.deliver()
	taken := w.takenFrom("a")
	if len(taken) == 0 || w.takenFrom("b")[0] != missed {
		t.Errorf("after it was enabled, the receiver took %v and %v", taken, w.takenFrom("b"))
	}
	// Events that were given up are not sent again; all others are.
	given := 0
	for _, d := range w.deliveries {
		if d.Status == webhook.Failed {
			given++
		}
	}
	if len(taken)+given != len(w.committedBy("a")) {
		t.Errorf("%d taken and %d given up of %d events", len(taken), given, len(w.committedBy("a")))
	}
}

// A webhook that was disabled for longer than events are kept continues with what is kept.
func TestDeliver_ContinuesFromWhatIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	w.deliver()
	w.change(func(r *webhook.Webhook) { r.Disable(webhook.DisabledByRequest) })
	w.wait(40 * 24 * time.Hour)
	w.mu.Lock()
	w.events, w.answer = nil, nil
	w.mu.Unlock()
	kept := w.happen("a")
	w.change(func(r *webhook.Webhook) { r.Enable(w.now) })
	w.deliver()
	w.wantTaken("a", kept)
}

var errCrash = errors.New("the process died")

// A process that dies after it sent messages, and before it recorded that, sends them again.
func TestDeliver_RepeatsAtMostAPageAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happenTo(100, "a", "b", "c")
	crashed := false
	w.beforeUpdate = func(_ webhook.Webhook, done webhook.Done) error {
		if crashed || len(done.Deliveries) > 0 && len(w.received) > 50 {
			crashed = true
			return errCrash
		}
		return nil
	}
	if err := w.deliverer().Deliver(t.Context(), hookID); !errors.Is(err, errCrash) {
		t.Fatalf("Deliver = %v, want a crash", err)
	}
	w.beforeUpdate = nil
	before := len(w.received)
	w.deliver() // the lease of the dead process still holds
	if len(w.received) != before {
		t.Error("another run ignored the lease")
	}
	w.wait(time.Minute)
	if due, _ := w.ListDue(t.Context(), w.clock(), 10); len(due) != 1 {
		t.Errorf("the sweep finds %v after the crash, want the webhook", due)
	}
	w.deliver()
	w.wantAllInOrder("a", "b", "c")
	if repeated := len(w.received) - 100; repeated < 1 || repeated > 40 {
		t.Errorf("%d messages were repeated, want at most a page", repeated)
	}
}

// A nudge that meets a lease returns, because the run that holds the lease looks once more after its release.
func TestDeliver_ANudgeThatMeetsALeaseIsNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen("a")
	met := false
	w.beforeUpdate = func(old webhook.Webhook, done webhook.Done) error {
		if !met && old.LeaseHolder != "" && len(done.Deliveries) == 0 { // the release: the last scan is over
			met = true
			w.happen("b")
			w.nudge() // returns without effect
		}
		return nil
	}
	w.nudge()
	w.wantAllInOrder("a", "b")
}

// A slow receiver that takes every message must not hold a push forever.
func TestDeliver_StopsAfterTenSecondsAndNudgesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 10 {
		w.happen("a")
	}
	w.answer = func(event.View) webhook.Result {
		w.wait(4 * time.Second)
		return webhook.Result{HTTPStatus: 200}
	}
	w.nudge()
	if n := len(w.received); n != 3 {
		t.Errorf("%d messages of 4 s each in one run, want 3", n)
	}
	if due := w.record().DueAt.Sub(w.clock()); due > time.Minute {
		t.Errorf("the webhook is due in %v if its nudge is lost", due)
	}
	if !w.takeNudge() {
		t.Fatal("the run did not nudge the webhook")
	}
	w.deliver()
	w.wantAllInOrder("a")
}

func TestDeliver_ReceiverThatIsDownIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = func(event.View) webhook.Result {
		w.wait(15 * time.Second)
		return webhook.Result{Reason: webhook.ReasonTimeout}
	}
	for i := range 100 {
		w.happen(fmt.Sprint("agent ", i))
	}
	w.nudge()
	if n := len(w.attempted); n > 8 {
		t.Errorf("%d attempts, want at most 8", n)
	}
	if w.takeNudge() {
		t.Error("the run nudged the webhook again")
	}
	if due := w.record().DueAt.Sub(w.clock()); due < 4*time.Second || due > time.Minute {
		t.Errorf("the webhook is due in %v, want a few seconds", due)
	}
}

func TestDeliver_ServesRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	id := w.happen("a")
	w.deliver()
	w.answer = nil
	r := w.record()
	probe := webhook.NewTest(r, 7, w.clock())
	expired := webhook.Delivery{ID: "expired", WebhookID: hookID, EventID: event.After(w.clock()), EventType: "x"}
	repeat := w.deliveries[webhook.DeliveryID(hookID, id)]
	for _, d := range []webhook.Delivery{probe, expired, repeat} {
		w.deliveries[d.ID] = d
		if err := r.Request(d.ID, w.clock()); err != nil {
			t.Fatal(err)
		}
	}
	w.records[hookID] = r
	w.deliver()
	if d := w.deliveries[probe.ID]; d.Status != webhook.Succeeded {
		t.Errorf("the test is %+v, want succeeded", d)
	}
	if d := w.deliveries["expired"]; d.Status != webhook.Failed || d.Attempts[0].Reason != webhook.ReasonExpired {
		t.Errorf("the delivery of an expired event is %+v, want failed", d)
	}
	if d := w.deliveries[repeat.ID]; d.Status != webhook.Succeeded || len(d.Attempts) != 3 {
		t.Errorf("the repeated delivery is %+v, want succeeded with three attempts", d)
	}
	if n := len(w.record().Requests); n != 0 {
		t.Errorf("%d requests are left, want none", n)
	}
}

func TestRequest_IsBounded(t *testing.T) {
	t.Parallel()
	var w webhook.Webhook
	for i := range webhook.MaxRequests {
		if err := w.Request(fmt.Sprint(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if w.Request("one more", time.Now()) == nil {
		t.Error("a request above the limit was accepted")
	}
	if err := w.Request("0", time.Now()); err != nil {
		t.Errorf("a request that waits already: %v", err)
	}
}

// TestDeliver_LosesNothing runs random schedules: events of several agents, receivers that fail for some, crashes
// before any commit, and nudges that meet leases. In the end every event was delivered, in the order of its agent.
func TestDeliver_LosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		agents := []string{"", "a", "b", "c", "d"}
		var failing []string
		crash := 0
		w.beforeUpdate = func(webhook.Webhook, webhook.Done) error {
			if crash--; crash == 0 {
				return errCrash
			}
			return nil
		}
		w.answer = func(e event.View) webhook.Result {
			agent := ""
			if e.AgentID != nil {
				agent = *e.AgentID
			}
			if slices.Contains(failing, agent) {
				return webhook.Result{Reason: webhook.ReasonTimeout}
			}
			return webhook.Result{HTTPStatus: 200}
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 60).Draw(rt, "events") {
					w.happen(rapid.SampledFrom(agents).Draw(rt, "agent"))
				}
			case 2:
				failing = rapid.SliceOfDistinct(rapid.SampledFrom(agents), rapid.ID).Draw(rt, "failing")
			case 3:
				crash = rapid.IntRange(0, 5).Draw(rt, "crash")
			case 4:
				w.wait(time.Duration(rapid.IntRange(1, 600).Draw(rt, "seconds")) * time.Second)
			}
			_ = w.deliverer().Deliver(t.Context(), hookID)
			crash = 0
		}
		failing, crash = nil, 0
		w.wait(12 * time.Hour)
		w.deliver()
		for _, a := range agents {
			if got, want := w.takenFrom(a), w.committedBy(a); !slices.Equal(got, want) {
				rt.Fatalf("agent %q: the receiver took %d of %d events, or in another order", a, len(got), len(want))
			}
		}
		if r := w.record(); len(r.Lanes) != 0 {
			rt.Fatalf("%d lanes are left", len(r.Lanes))
		}
	})
}

// One success shows that the receiver is back, so no other agent waits for its next attempt.
func TestDeliver_TriesAllLanesOnceTheReceiverIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	w.deliver()
	w.wait(time.Minute)
	w.happen("b")
	w.deliver() // the next attempt of a is in four minutes, that of b in five
	w.answer = nil
	w.wait(4*time.Minute + 10*time.Second)
	w.deliver()
	w.wantAllInOrder("a", "b")
}

// A run that was too slow for its lease must not overwrite what the next holder writes.
func TestDeliver_WritesNothingWithoutItsLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.happen("a")
	w.answer = func(event.View) webhook.Result {
		w.mu.Lock()
		defer w.mu.Unlock()
		r := w.records[hookID]
		r.LeaseHolder, r.Version = "another run", "another run's"
		w.records[hookID] = r
		return webhook.Result{HTTPStatus: 200}
	}
	before := w.record().Position
	w.nudge()
	if r := w.record(); r.LeaseHolder != "another run" || r.Position != before || len(w.deliveries) != 0 {
		t.Errorf("the run wrote %+v and %d deliveries", r, len(w.deliveries))
	}
}

// The event at the head of a lane may be deleted while it waits. The next event begins with its own attempts.
func TestDeliver_CountsTheAttemptsOfEachEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer = down
	w.happen("a")
	w.deliver()
	w.mu.Lock()
	w.events = nil
	w.mu.Unlock()
	next := w.happen("a")
	w.deliver()
	w.wait(6 * time.Minute)
	w.deliver()
	if l := w.record().Lanes; len(l) != 1 || l[0].Head != next || l[0].Attempts != 2 {
		t.Errorf("lanes %+v, want one with the two attempts of %s", l, next)
	}
}

// Pub/Sub delivers nudges through a window. A receiver that hangs holds one place of it, however many nudges its
// webhook gets: the others meet the lease and return. So 99 other webhooks get their event in a window of two.
func TestDeliver_OneHangingReceiverDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.records, hookID)
	const hanging = "webhook 0"
	nudges := make(chan string, 300)
	for i := range 100 {
		id := fmt.Sprint("webhook ", i)
		w.records[id] = webhook.Webhook{
			ID: id, OrganizationID: id, URL: "https://hooks.example.com/", Status: webhook.Enabled,
			Position: event.After(w.now), Version: "0",
		}
		w.happen("a")
		w.events[i].OrganizationID = id
	}
	hangs, release, others := make(chan struct{}), make(chan struct{}), make(chan string, 100)
	w.answer = func(e event.View) webhook.Result {
		if e.OrganizationID == hanging {
			close(hangs)
			<-release
		} else {
			others <- e.OrganizationID
		}
		return webhook.Result{HTTPStatus: 200}
	}
	var window sync.WaitGroup
	deliverNext := func() {
		for id := range nudges {
			if err := w.deliverer().Deliver(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	}
	nudges <- hanging
	window.Go(deliverNext)
	stuck := time.After(time.Minute)
	select {
	case <-hangs:
	case <-stuck:
		t.Fatal("the hanging receiver got nothing")
	}
	for i := range 100 {
		nudges <- hanging
		nudges <- fmt.Sprint("webhook ", i)
	}
	close(nudges)
	window.Go(deliverNext)
	got := map[string]bool{}
	for len(got) < 99 {
		select {
		case id := <-others:
			got[id] = true
		case <-stuck:
			t.Fatalf("%d of 99 webhooks got their event", len(got))
		}
	}
	close(release)
	window.Wait()
}
