package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/parallel"
)

// scan delivers the events after the webhook's position, page by page: concurrently among agents, and in order for each
// agent. Events of an agent with a lane belong to the lane, without an attempt. Each event of a page that is neither
// delivered nor given up opens a lane for its agent, so the position always passes the whole page.
//
// While there are maxLanes, later events wait in the log.
//
// It reads many pages with one call: each call also reads the events of the minutes before the position again, because
// one that was requested then may have been committed after it. So calls grow with what the run has delivered: few read
// a long backlog, and a slow receiver makes no run read much more than it takes.
func (r *run) scan(ctx context.Context) error {
	for size := scanSize; !r.stopped(ctx); size = min(2*size, maxScanSize) {
		from := r.from(r.w.Position)
		b, err := r.Events.List(ctx, r.w.OrganizationID, event.Filter{}, from, size)
		if err != nil {
			return err
		}
		for events := range slices.Chunk(b.Events, pageSize) {
			if r.stopped(ctx) {
				return ctx.Err()
			}
			if len(r.w.Lanes) >= maxLanes {
				r.caughtUp = true // as far as it can be: the attempts of the lanes come first
				return nil
			}
			if err := r.deliverPage(ctx, from, events); err != nil {
				return err
			}
			from = r.w.Position
		}
		r.w.Position = max(from, b.Next) // the release records it
		if r.caughtUp = !b.More; r.caughtUp {
			return nil
		}
	}
	return ctx.Err()
}

// queue is the events of one agent in a page. Each has the cursor right before it.
type queue struct {
	lane   Lane
	events []event.Event
	before []event.ID
	// delivered: none is left for the lane.
	delivered bool
}

// queues sorts a page's events by agent. It leaves out agents with lanes, and types that the webhook does not want.
func (r *run) queues(from event.ID, events []event.Event) []*queue {
	skip := map[string]bool{}
	for _, l := range r.w.Lanes {
		skip[l.AgentID] = true
	}
	byAgent, all := map[string]*queue{}, []*queue{}
	for _, e := range events {
		if !skip[e.AgentID] && r.w.Wants(e.Type) {
			q := byAgent[e.AgentID]
			if q == nil {
				q = &queue{lane: Lane{AgentID: e.AgentID}}
				byAgent[e.AgentID], all = q, append(all, q)
			}
			q.events, q.before = append(q.events, e), append(q.before, from)
		}
		from = e.ID
	}
	return all
}

// deliverPage delivers a page, and commits the result.
func (r *run) deliverPage(ctx context.Context, from event.ID, events []event.Event) error {
	var done Done
	queues := r.queues(from, events)
	errs := parallel.ForEach(queues, maxConcurrent, func(q *queue) error {
		deliveries, err := r.deliverQueue(ctx, q)
		r.mu.Lock()
		defer r.mu.Unlock()
		done.Deliveries = append(done.Deliveries, deliveries...)
		return err
	})
	r.w.Lanes = slices.Clone(r.w.Lanes)
	for _, q := range queues {
		if !q.delivered {
			r.w.Lanes = append(r.w.Lanes, q.lane)
		}
	}
	r.w.Position = events[len(events)-1].ID
	done.Events = r.disabledEvents()
	if err := r.commit(ctx, done); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// deliverQueue delivers events of one agent until one fails.
func (r *run) deliverQueue(ctx context.Context, q *queue) (done []Delivery, err error) {
	for i, e := range q.events {
		l := &q.lane
		l.After, l.Head, l.Attempts, l.FirstAt, l.NextAttemptAt = q.before[i], e.ID, 0, time.Time{}, r.Now()
		if r.stopped(ctx) {
			return done, nil
		}
		delivery := newDelivery(r.webhook(), e, r.Now())
		passed, err := r.deliver(ctx, l, e, &delivery)
		if err != nil {
			return done, err
		}
		done = append(done, delivery)
		if !passed {
			return done, nil
		}
	}
	q.delivered = true
	return done, nil
}
