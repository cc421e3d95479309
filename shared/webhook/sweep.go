package webhook

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/parallel"
)

// Sweeper makes sure that no webhook waits forever: it nudges those that are due.
type Sweeper struct {
	Store  WorkerStore
	Nudger Nudger
	// Now is the clock.
	Now func() time.Time
}

const (
	// sweepBatch bounds one sweep. The next one continues with the longest overdue webhooks.
	sweepBatch = 500
	// sweepConcurrency is how many nudges are published concurrently.
	sweepConcurrency = 16
)

// Sweep nudges every webhook that is due. A failure of one does not stop the others.
func (s *Sweeper) Sweep(ctx context.Context) error {
	due, err := s.Store.ListDue(ctx, s.Now(), sweepBatch)
	if err != nil {
		return err
	}
	return errors.Join(parallel.ForEach(due, sweepConcurrency, func(id string) error {
		return s.Nudger.NudgeWebhook(ctx, id)
	})...)
}

// Notifier nudges the webhooks of an organization after one of its events was committed. A lost nudge delays the event
// until the next one, or until the webhook is due anyway.
type Notifier struct {
	Store  WorkerStore
	Nudger Nudger
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	known map[string]enabled
}

// enabled is what a process knows of an organization's webhooks.
type enabled struct {
	ids   []string
	until time.Time
}

const (
	// knownFor is how long a process relies on its knowledge of an organization's webhooks.
	knownFor = 30 * time.Second
	// untilKnown is after what time every process knows of a webhook that was enabled. Clocks may differ.
	untilKnown = knownFor + 30*time.Second
	// maxKnown bounds that knowledge. A full map is emptied.
	maxKnown = 10_000
)

// EventCommitted nudges the enabled webhooks of an organization. It reports failures to the log: the change that has
// the event is committed.
func (n *Notifier) EventCommitted(ctx context.Context, organizationID string) {
	ids, err := n.webhooks(ctx, organizationID)
	if err == nil {
		err = errors.Join(parallel.ForEach(ids, len(ids)+1, func(id string) error {
			return n.Nudger.NudgeWebhook(ctx, id)
		})...)
	}
	if err != nil {
		slog.WarnContext(ctx, "webhooks could not be nudged; they deliver the event later", logevent.Key,
			logevent.NudgeNotPublished, "organization_id", organizationID, "error", err)
	}
}

// webhooks returns the ids of the organization's enabled webhooks.
func (n *Notifier) webhooks(ctx context.Context, organizationID string) ([]string, error) {
	now := n.Now()
	n.mu.Lock()
	found, ok := n.known[organizationID]
	n.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.ids, nil
	}
	ids, err := n.Store.ListEnabled(ctx, organizationID)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= maxKnown {
		n.known = map[string]enabled{}
	}
	n.known[organizationID] = enabled{ids: ids, until: now.Add(knownFor)}
	return ids, nil
}
