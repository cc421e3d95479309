package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/parallel"
)

// run is one run of a webhook.
type run struct {
	*Deliverer
	holder   string
	deadline time.Time
	secrets  []Secret
	// record is the webhook as it was committed last.
	record Webhook
	// lost: a commit failed, so nothing of w may be written.
	lost bool
	// caughtUp: the log was read up to its end.
	caughtUp bool
	// again: there is more to do after the run.
	again bool
	// nextAt is when the next attempt or heartbeat is due.
	nextAt time.Time

	// mu guards what follows while attempts are made concurrently.
	mu sync.Mutex
	// w is the record with what the run has changed since.
	w Webhook
	// failures counts failures in a row.
	failures int
	// succeeded is true once an attempt succeeded.
	succeeded bool
	// tried is true once a message was sent.
	tried bool
	// opened is true once the first attempt of an event failed.
	opened bool
	// disable is why the run disables the webhook; empty if it does not.
	disable string
}

func (r *run) outOfTime() bool { return !r.Now().Before(r.deadline) }

// receiverDown reports whether further attempts are pointless for now: several failed in a row, or nothing succeeded
// in all the time of the run.
func (r *run) receiverDown() bool {
	late := r.outOfTime()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures >= maxFailures || r.disable != "" || late && r.failures > 0 && !r.succeeded
}

// late reports whether the time of the run is over. It is not before the first attempt, however long the log took to
// read: without progress, the next run would take as long.
func (r *run) late() bool {
	over := r.outOfTime()
	r.mu.Lock()
	defer r.mu.Unlock()
	return over && r.tried
}

// stopped reports whether the run makes no further attempts.
func (r *run) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || r.late() || r.receiverDown() || r.webhook().Status != Enabled
}

// send sends an event once. at is when it began. Errors: that of ctx if it cut the attempt short.
func (r *run) send(ctx context.Context, e event.Event) (result Result, at time.Time, err error) {
	body, err := json.Marshal(e.Show())
	if err != nil {
		return Result{}, time.Time{}, err
	}
	at = r.Now()
	result = r.Sender.Send(ctx, Message{URL: r.w.URL, ID: string(e.ID), At: at, Body: body, Secrets: r.secrets})
	if ctx.Err() != nil && !result.OK() {
		return Result{}, at, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = true
	return result, at, nil
}

// attempt sends an event once and records what the result says about the receiver.
func (r *run) attempt(ctx context.Context, e event.Event) (result Result, at time.Time, err error) {
	if result, at, err = r.send(ctx, e); err != nil {
		return Result{}, time.Time{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case result.OK():
		r.failures, r.succeeded, r.w.FailingSince = 0, true, time.Time{}
	case result.HTTPStatus == http.StatusGone:
		r.failures++
		r.disable = DisabledGone
	case r.w.FailingSince.IsZero(), !r.w.FailedAt.IsZero() && at.Sub(r.w.FailedAt) >= maxFailing:
		r.failures++
		r.w.FailingSince, r.w.FailedAt = at, at
	default:
		r.failures++
		r.w.FailedAt = at
		if at.Sub(r.w.FailingSince) >= maxFailing {
			r.disable = cmp.Or(r.disable, DisabledFailing)
		}
	}
	return result, at, nil
}

// serveRequests attempts the deliveries that clients asked for, once each. A failure says nothing about the receiver's
// health for other events. A success shows that it is back. What was attempted is recorded even if another delivery
// could not be read; that one stays requested.
func (r *run) serveRequests(ctx context.Context) error {
	if len(r.w.Requests) == 0 {
		return nil
	}
	found, err := r.Store.LoadDeliveries(ctx, r.w.Requests...)
	if err != nil {
		return err
	}
	served := map[string]bool{}
	var done Done
	errs := parallel.ForEach(slices.Clone(r.w.Requests), maxConcurrent, func(id string) error {
		delivery, ok := found[id]
		if ok {
			if r.late() {
				return nil
			}
			if err := r.serve(ctx, &delivery); err != nil {
				return err
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		served[id] = true
		if ok {
			done.Deliveries = append(done.Deliveries, delivery)
		}
		return nil
	})
	err = r.update(ctx, done, func(w *Webhook) error {
		w.Requests = slices.DeleteFunc(slices.Clone(w.Requests), func(id string) bool { return served[id] })
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// serve attempts one requested delivery.
func (r *run) serve(ctx context.Context, d *Delivery) error {
	e := event.Event{
		ID: d.EventID, Type: d.EventType, CreatedAt: d.CreatedAt, OrganizationID: r.w.OrganizationID,
		Data: json.RawMessage(`{"webhook_id":"` + r.w.ID + `"}`),
	}
	if d.EventType != event.WebhookTest {
		var err error
		if e, err = r.Events.Get(ctx, r.w.OrganizationID, d.EventID); fault.Is(err, fault.NotFound) {
			d.add(Result{Reason: ReasonExpired}, r.Now(), time.Time{})
			return nil
		} else if err != nil {
			return err
		}
	}
	result, at, err := r.send(ctx, e)
	if err != nil {
		return err
	}
	d.add(result, at, time.Time{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeeded = r.succeeded || result.OK()
	return nil
}

// retryLanes attempts the heads of the lanes that are due, and drains the lanes that succeed. One success shows that
// the receiver is back, so all other lanes are tried early: those that this run has no time for, by the next ones.
func (r *run) retryLanes(ctx context.Context) error {
	tried := map[string]bool{}
	called := slices.ContainsFunc(r.w.Lanes, func(l Lane) bool { return l.Early })
	for {
		now := r.Now()
		if r.succeeded && !called {
			called = true
			r.callLanes(now, tried)
		}
		var due []Lane
		for _, l := range r.w.Lanes {
			if l.Early || !l.NextAttemptAt.After(now) {
				due = append(due, l)
			}
		}
		if len(due) == 0 || r.stopped(ctx) {
			return ctx.Err()
		}
		slices.SortFunc(due, func(a, b Lane) int {
			return cmp.Or(a.NextAttemptAt.Compare(b.NextAttemptAt), cmp.Compare(a.AgentID, b.AgentID))
		})
		due = due[:min(len(due), maxConcurrent)]
		if err := r.drainSome(ctx, due); err != nil {
			return err
		}
		for _, l := range due {
			tried[l.AgentID] = true
		}
	}
}

// callLanes makes each lane that waits be tried once before its time, but those that this run has tried.
func (r *run) callLanes(now time.Time, tried map[string]bool) {
	r.w.Lanes = slices.Clone(r.w.Lanes)
	for i := range r.w.Lanes {
		l := &r.w.Lanes[i]
		l.Early = l.NextAttemptAt.After(now) && !tried[l.AgentID]
	}
}

// drainSome delivers a page of events of each lane, and commits the result.
func (r *run) drainSome(ctx context.Context, lanes []Lane) error {
	var done Done
	errs := parallel.ForEach(lanes, maxConcurrent, func(l Lane) error {
		drained, deliveries, err := r.drain(ctx, &l)
		r.mu.Lock()
		defer r.mu.Unlock()
		done.Deliveries = append(done.Deliveries, deliveries...)
		at := slices.IndexFunc(r.w.Lanes, func(other Lane) bool { return other.AgentID == l.AgentID })
		if drained {
			r.w.Lanes = slices.Delete(slices.Clone(r.w.Lanes), at, at+1)
		} else {
			r.w.Lanes = slices.Clone(r.w.Lanes)
			r.w.Lanes[at] = l
		}
		return err
	})
	done.Events = r.disabledEvents()
	// What was delivered is recorded even if another lane could not be read.
	if err := r.commit(ctx, done); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// drain delivers a page of a lane's events, in order, until one fails. drained is true if none is left.
func (r *run) drain(ctx context.Context, l *Lane) (drained bool, done []Delivery, err error) {
	w := r.webhook()
	b, err := r.Events.List(ctx, w.OrganizationID, event.Filter{AgentID: l.AgentID}, r.from(l.After), pageSize)
	if err != nil {
		return false, nil, err
	}
	for _, e := range b.Events {
		switch {
		case e.ID > w.Position:
			return true, done, nil
		case e.AgentID != l.AgentID || e.ID != l.Head && !w.Wants(e.Type):
			l.After = e.ID
			continue
		}
		if r.stopped(ctx) {
			return false, done, nil
		}
		delivery, known := newDelivery(w, e, r.Now()), false
		if e.ID == l.Head {
			if known, err = r.load(ctx, &delivery); err != nil {
				return false, done, err
			}
		} else {
			l.Head, l.Attempts, l.FirstAt, l.NextAttemptAt = e.ID, 0, time.Time{}, r.Now()
		}
		if delivery.Status == Succeeded || !w.Wants(e.Type) { // by what a client did between two attempts
			if known && delivery.Status == Pending {
				delivery.giveUp(r.Now())
				done = append(done, delivery)
			}
			l.pass(e.ID, r.Now())
			continue
		}
		passed, err := r.deliver(ctx, l, e, &delivery)
		if err != nil {
			return false, done, err
		}
		done = append(done, delivery)
		if !passed {
			return false, done, nil
		}
	}
	l.After = max(l.After, b.Next)
	return !b.More || b.Next >= w.Position, done, nil
}

// load replaces a delivery by its record, if there is one.
func (r *run) load(ctx context.Context, d *Delivery) (known bool, err error) {
	found, err := r.Store.LoadDeliveries(ctx, d.ID)
	if recorded, ok := found[d.ID]; ok {
		*d, known = recorded, true
	}
	return known, err
}

// deliver attempts the head of a lane. passed is true if the lane goes on: the event was delivered or given up. An
// attempt before its time is none of those after which an event is given up, so a receiver that refuses one event, and
// takes others, still has 33 hours for it.
func (r *run) deliver(ctx context.Context, l *Lane, e event.Event, d *Delivery) (passed bool, err error) {
	early := l.NextAttemptAt.After(r.Now())
	result, at, err := r.attempt(ctx, e)
	if err != nil {
		return false, err
	}
	l.Early = false
	if early && !result.OK() {
		d.add(result, at, l.NextAttemptAt)
		return false, nil
	}
	l.Attempts++
	if l.FirstAt.IsZero() {
		l.FirstAt = at
	}
	next, again := nextAttempt(l.Attempts, at, result.RetryAfter, r.Random())
	if passed = result.OK() || !again; passed {
		l.pass(e.ID, at)
	} else {
		l.NextAttemptAt = next
		r.firstFailed(l.Attempts == 1)
	}
	d.add(result, at, next)
	return passed, nil
}

func (r *run) firstFailed(first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = r.opened || first
}

// webhook returns the webhook as the attempts of the run have left it until now.
func (r *run) webhook() Webhook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.w
}

// disabledEvents returns the event of a webhook that the run disables. commit does not write it if a client was first.
func (r *run) disabledEvents() []event.Draft {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disable == "" {
		return nil
	}
	data := map[string]any{"webhook_id": r.w.ID, "reason": r.disable, "failing_since": nil}
	if !r.w.FailingSince.IsZero() {
		data["failing_since"] = r.w.FailingSince.UTC()
	}
	return []event.Draft{event.New(event.WebhookDisabled, data)}
}
