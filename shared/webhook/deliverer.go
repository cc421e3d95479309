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
	// scanSize is how many events the first call of a run reads, and maxScanSize bounds later ones.
	scanSize, maxScanSize = 25 * pageSize, 200 * pageSize
	// maxLanes bounds the record, which has up to 200 bytes for a lane and must fit into a document of 1 MiB. A page
	// may open some more.
	maxLanes = 4000
	// maxConcurrent is how many attempts of one webhook are made concurrently.
	maxConcurrent = 8
	// maxFailures in a row without a success mean that the receiver is down.
	maxFailures = 3
	// maxFailing is how long a webhook may fail without a success before it is disabled. After as long without an
	// attempt, what failed before says nothing.
	maxFailing = 72 * time.Hour
	// heartbeat is the longest time between two runs. It finds events whose nudge was lost.
	heartbeat = 15 * time.Minute
	// selfNudged is when a run that could not finish is due if its own nudge is lost.
	selfNudged = 30 * time.Second
)

// Deliver runs a webhook: it repeats what is due and delivers the events after its position. It has no effect on a
// webhook that another run works on but to make it due: that run looks for events once more after it has released its
// lease, and so finds the events of this nudge.
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

// run works on a webhook once. After the deadline it starts no attempt but its first. next is when there is more to do;
// zero for never.
func (d *Deliverer) run(ctx context.Context, id string, deadline time.Time) (next time.Time, err error) {
	w, err := d.Store.Load(ctx, id)
	if err != nil || w.Status != Enabled && len(w.Requests) == 0 {
		return time.Time{}, err
	}
	r := &run{Deliverer: d, holder: uuid.NewString(), deadline: deadline}
	if err := r.acquire(ctx, w); err != nil {
		return time.Time{}, err
	}
	r.secrets, err = d.Secrets.Signing(r.w, d.Now())
	if err == nil {
		err = r.work(ctx)
	}
	if errors.Is(err, ErrLeaseLost) {
		return time.Time{}, err
	}
	if errors.Is(err, errSettings) {
		// The next run goes by the new ones. What this one learned may be about another receiver.
		err, r.failures, r.disable = nil, 0, ""
	}
	if releaseErr := r.release(ctx, err != nil); releaseErr != nil || err != nil {
		return time.Time{}, errors.Join(err, releaseErr)
	}
	switch {
	case r.w.Status != Enabled && len(r.w.Requests) == 0:
		return time.Time{}, nil
	case r.receiverDown():
		return r.retryAt(), nil
	case r.again, len(r.w.Requests) > 0:
		return d.Now(), nil
	default:
		return r.retryAt(), nil
	}
}

// retryAt returns when a run should look at what it could not deliver. Only the run that made a first attempt waits for
// the second: if every nudge of a receiver that is down waited, they would hold the pushes of others.
func (r *run) retryAt() time.Time {
	if !r.opened {
		return time.Time{}
	}
	return r.nextAt
}

// acquire takes the lease. If another run has it, acquire makes the webhook due before the lease ends, which tells that
// run that it must look again.
func (r *run) acquire(ctx context.Context, w Webhook) (err error) {
	leased := false
	r.record, err = r.Store.Update(ctx, w, Done{}, func(w *Webhook) error {
		now := r.Now()
		if leased = w.leased(r.holder, now); leased {
			if w.calledAgain() {
				return ErrLeaseLost
			}
			w.DueAt = now
			return nil
		}
		w.LeaseHolder, w.LeaseUntil = r.holder, now.Add(leaseTime)
		w.DueAt = w.LeaseUntil // the sweep finds a run that died
		return nil
	})
	if err == nil && leased {
		return ErrLeaseLost
	}
	r.w = r.record
	return err
}

// calledAgain reports whether a leased webhook was made due after its lease began.
func (w Webhook) calledAgain() bool { return !w.DueAt.Equal(w.LeaseUntil) }

// from returns the cursor at which reading continues. Events before it may be deleted, and a cursor among them is
// refused.
func (d *Deliverer) from(cursor event.ID) event.ID {
	return max(cursor, event.After(d.Now().Add(time.Hour-event.Retention)))
}

// work repeats what is due and delivers new events. Deliveries that cannot be served delay no others.
func (r *run) work(ctx context.Context) error {
	err := r.serveRequests(ctx)
	if r.lost || r.w.Status != Enabled {
		return err
	}
	if laneErr := r.retryLanes(ctx); laneErr != nil {
		return errors.Join(err, laneErr)
	}
	return errors.Join(err, r.scan(ctx))
}

// release ends the lease and says when the webhook is due next. Of the run's state it writes what no commit has written
// yet: how far the log was read without any event, and which lanes the next run tries early.
func (r *run) release(ctx context.Context, failed bool) error {
	return r.update(ctx, Done{}, func(w *Webhook) error {
		changed := !w.sameSettings(r.record)
		if !r.lost && !changed {
			w.Position, w.Lanes = r.w.Position, slices.Clone(r.w.Lanes)
			for i := range w.Lanes {
				w.Lanes[i].Early = w.Lanes[i].Early && !r.receiverDown()
			}
		}
		r.again = r.lost || changed || !r.caughtUp || r.late() || w.calledAgain()
		w.LeaseHolder, w.LeaseUntil = "", time.Time{}
		w.DueAt = r.dueAt(*w, failed)
		return nil
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
	case failed || r.again && !r.receiverDown():
		return now.Add(selfNudged)
	}
	r.nextAt = now.Add(heartbeat)
	for _, l := range w.Lanes {
		if l.NextAttemptAt.Before(r.nextAt) {
			r.nextAt = l.NextAttemptAt
		}
	}
	if r.receiverDown() {
		// Lanes that were due and not tried stay due. They come first in the next run.
		first, _ := nextAttempt(1, now, 0, r.Random())
		r.nextAt = later(r.nextAt, first)
	}
	if now.Before(w.EnabledAt.Add(untilKnown)) {
		return now // each sweep finds the events of which no process nudges the webhook
	}
	return r.nextAt
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// errSettings is the error of a commit of events that were sent by settings which a client has changed since.
var errSettings = errors.New("the webhook's settings have changed")

// commit writes the state of the run, and what it has done. If a client has changed what the run went by, nothing is
// written: the next run sends the events again, by the new settings.
func (r *run) commit(ctx context.Context, done Done) error {
	return r.update(ctx, done, func(w *Webhook) error {
		if !w.sameSettings(r.record) || r.disable != "" && w.Status != Enabled {
			return errSettings
		}
		w.Position, w.Lanes, w.FailingSince = r.w.Position, slices.Clone(r.w.Lanes), r.w.FailingSince
		w.FailedAt = r.w.FailedAt
		if r.disable != "" {
			w.Disable(r.disable)
		}
		return nil
	})
}

// update changes the record under the lease. After a failure it is unknown whether the record and the deliveries have
// what the run did, so no further commit may write the run's state.
func (r *run) update(ctx context.Context, done Done, change func(*Webhook) error) error {
	// What the receiver took is recorded even if the nudge has timed out.
	ctx = context.WithoutCancel(ctx)
	updated, err := r.Store.Update(ctx, r.record, done, func(w *Webhook) error {
		if w.LeaseHolder != r.holder {
			return ErrLeaseLost
		}
		return change(w)
	})
	if err != nil {
		r.lost = true
		return err
	}
	r.record, r.w = updated, updated
	return nil
}
