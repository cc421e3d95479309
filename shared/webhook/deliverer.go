package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
)

// Deliverer delivers the events of webhooks. One run at a time works on a webhook, under a lease.
type Deliverer struct {
	Store   WorkerStore
	Events  Events
	Sender  Sender
	Secrets SecretSource
	Nudger  Nudger
	// Now is the clock.
	Now func() time.Time
	// Wait waits, or returns the error of ctx. Nil means that it waits as long in real time.
	Wait func(ctx context.Context, d time.Duration) error
	// Random spreads the attempts; it returns numbers from 0 up to 1.
	Random func() float64
}

const (
	// runBudget is how long a run starts attempts. A longer one would delay the acknowledgment of its nudge.
	runBudget = 10 * time.Second
	// leaseTime outlives a run: its budget, the last attempt and the commits.
	leaseTime = 45 * time.Second
	// pageSize is how many events are delivered between two commits; of a lane, how many are read, too.
	pageSize = 40
	// scanSize is how many events are read with one call.
	scanSize = 25 * pageSize
	// maxConcurrent is how many attempts of one webhook are made concurrently.
	maxConcurrent = 8
	// maxFailures in a row without a success mean that the receiver is down.
	maxFailures = 3
	// maxFailing is how long a webhook may fail without a success before it is disabled.
	maxFailing = 72 * time.Hour
	// heartbeat is the longest time between two runs. It finds events whose nudge was lost.
	heartbeat = 15 * time.Minute
	// selfNudged is when a run that could not finish is due if its own nudge is lost.
	selfNudged = 30 * time.Second
)

// Deliver runs a webhook: it repeats what is due and delivers the events after its position. It has no effect on a
// webhook that another run works on: that one looks for events once more after it has released its lease, and so finds
// the events of this nudge.
//
// It waits for the second attempt of an event, which is due after seconds; later ones are left to the sweep.
func (d *Deliverer) Deliver(ctx context.Context, id string) error {
	deadline := d.Now().Add(runBudget)
	for {
		next, err := d.run(ctx, id, deadline)
		switch {
		case errors.Is(err, ErrLeaseLost), fault.Is(err, fault.NotFound):
			return nil
		case err != nil:
			return fmt.Errorf("deliver the events of webhook %s: %w", id, err)
		}
		switch now := d.Now(); {
		case next.IsZero() || next.After(now) && next.After(deadline):
			return nil
		case !now.Before(deadline):
			return d.Nudger.NudgeWebhook(ctx, id)
		default:
			if err := d.wait(ctx, next.Sub(now)); err != nil {
				return err
			}
		}
	}
}

func (d *Deliverer) wait(ctx context.Context, long time.Duration) error {
	if d.Wait != nil {
		return d.Wait(ctx, long)
	}
	select {
	case <-time.After(long):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run works on a webhook once, and starts no attempt after the deadline. next is when there is more to do; zero for
// never.
func (d *Deliverer) run(ctx context.Context, id string, deadline time.Time) (next time.Time, err error) {
	w, err := d.Store.Load(ctx, id)
	if err != nil || w.Status != Enabled && len(w.Requests) == 0 {
		return time.Time{}, err
	}
	r := &run{Deliverer: d, holder: uuid.NewString(), deadline: deadline}
	r.w, err = d.Store.Update(ctx, w, Done{}, func(w *Webhook) error {
		now := d.Now()
		if w.leased(r.holder, now) {
			return ErrLeaseLost
		}
		w.LeaseHolder, w.LeaseUntil = r.holder, now.Add(leaseTime)
		w.DueAt = w.LeaseUntil // the sweep finds a run that died
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	r.secrets, err = d.Secrets.Signing(r.w, d.Now())
	if err == nil {
		err = r.work(ctx)
	}
	if errors.Is(err, ErrLeaseLost) {
		return time.Time{}, err
	}
	if releaseErr := r.release(ctx, err != nil); releaseErr != nil || err != nil {
		return time.Time{}, errors.Join(err, releaseErr)
	}
	switch {
	case r.receiverDown():
		return r.retryAt(), nil
	case r.outOfTime(), len(r.w.Requests) > 0:
		return d.Now(), nil
	case r.w.Status != Enabled:
		return time.Time{}, nil
	}
	behind, err := d.behind(ctx, r.w)
	if behind {
		return d.Now(), err
	}
	return r.retryAt(), err
}

// retryAt returns when a run should look at what it could not deliver. Only the run that made a first attempt waits for
// the second: if every nudge of a receiver that is down waited, they would hold the pushes of others.
func (r *run) retryAt() time.Time {
	if !r.opened {
		return time.Time{}
	}
	return r.w.DueAt
}

// behind reports whether there are events after the webhook's position.
func (d *Deliverer) behind(ctx context.Context, w Webhook) (bool, error) {
	b, err := d.Events.List(ctx, w.OrganizationID, event.Filter{}, d.from(w.Position), 1)
	return len(b.Events) > 0, err
}

// from returns the cursor at which reading continues. Events before it may be deleted, and a cursor among them is
// refused.
func (d *Deliverer) from(cursor event.ID) event.ID {
	return max(cursor, event.After(d.Now().Add(time.Hour-event.Retention)))
}

// work repeats what is due and delivers new events.
func (r *run) work(ctx context.Context) error {
	if err := r.serveRequests(ctx); err != nil || r.w.Status != Enabled {
		return err
	}
	if err := r.retryLanes(ctx); err != nil {
		return err
	}
	return r.scan(ctx)
}

// release ends the lease and says when the webhook is due next.
func (r *run) release(ctx context.Context, failed bool) error {
	return r.commit(ctx, Done{}, func(w *Webhook) {
		w.LeaseHolder, w.LeaseUntil = "", time.Time{}
		w.DueAt = r.dueAt(*w, failed)
	})
}

// dueAt returns when the webhook is due after this run.
func (r *run) dueAt(w Webhook, failed bool) time.Time {
	now := r.Now()
	switch {
	case len(w.Requests) > 0:
		return now.Add(selfNudged)
	case w.Status != Enabled:
		return time.Time{}
	case failed || r.outOfTime() && !r.receiverDown():
		return now.Add(selfNudged)
	}
	due := now.Add(heartbeat)
	for _, l := range w.Lanes {
		if l.NextAttemptAt.Before(due) {
			due = l.NextAttemptAt
		}
	}
	if r.receiverDown() {
		// Lanes that were due and not tried stay due. They come first in the next run.
		first, _ := nextAttempt(1, now, 0, r.Random())
		due = later(due, first)
	}
	return due
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// commit writes the state of the run, and what it has done.
func (r *run) commit(ctx context.Context, done Done, also func(*Webhook)) error {
	// What the receiver took is recorded even if the nudge has timed out.
	ctx = context.WithoutCancel(ctx)
	updated, err := r.Store.Update(ctx, r.w, done, func(w *Webhook) error {
		if w.LeaseHolder != r.holder {
			return ErrLeaseLost
		}
		w.Position, w.Lanes, w.FailingSince = r.w.Position, slices.Clone(r.w.Lanes), r.w.FailingSince
		w.Requests = slices.DeleteFunc(slices.Clone(w.Requests), func(id string) bool { return r.served[id] })
		if r.disable != "" {
			w.Disable(r.disable)
		}
		if also != nil {
			also(w)
		}
		return nil
	})
	if err == nil {
		r.w = updated
	}
	return err
}
