package simulationtest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// webhookDocument is a webhook's record and the number of its last write.
type webhookDocument struct {
	webhook webhook.Webhook
	version int64
}

func (d webhookDocument) read() webhook.Webhook {
	w := d.webhook
	w.Types, w.Lanes, w.Requests = slices.Clone(w.Types), slices.Clone(w.Lanes), slices.Clone(w.Requests)
	w.Version = strconv.FormatInt(d.version, 36)
	return w
}

// log appends the events of a commit, whose time is later than that of every commit before it.
func (d *Database) logEvents(agentID string, drafts []event.Draft) {
	if d.now == nil || len(drafts) == 0 {
		return
	}
	at := d.now().Truncate(time.Microsecond)
	if last := len(d.log) - 1; last >= 0 && !at.After(d.log[last].CreatedAt) {
		at = d.log[last].CreatedAt.Add(time.Microsecond)
	}
	record := event.RecordID(uint64(len(d.log)))
	for i, draft := range drafts {
		d.log = append(d.log, event.Event{
			ID: event.NewID(at, record, i), Type: draft.Type, CreatedAt: at, OrganizationID: organizationID,
			AgentID: agentID, Data: draft.Data,
		})
	}
}

// EventLog is one process's client of the log of events. It implements webhook.Events.
type EventLog struct {
	Database *Database
	Process  Stepper
}

var _ webhook.Events = EventLog{}

// List implements webhook.Events.
func (l EventLog) List(
	ctx context.Context, _ string, f event.Filter, after event.ID, limit int,
) (b event.Batch, err error) {
	b.Next = after
	err = l.Process.Look(ctx, DatabaseService, "list events "+f.AgentID, func() error {
		all := l.Database.log
		first, _ := slices.BinarySearchFunc(all, after, func(e event.Event, id event.ID) int {
			if e.ID <= id {
				return -1
			}
			return 1
		})
		for _, e := range all[first:] {
			if len(b.Events) == limit {
				b.More = true
				return nil
			}
			if f.Matches(e) {
				b.Events = append(b.Events, e)
				b.Next = e.ID
			}
		}
		return nil
	})
	return b, read(err)
}

// Get implements webhook.Events.
func (l EventLog) Get(ctx context.Context, _ string, id event.ID) (e event.Event, err error) {
	err = l.Process.Look(ctx, DatabaseService, "get event", func() error {
		i := slices.IndexFunc(l.Database.log, func(e event.Event) bool { return e.ID == id })
		if i < 0 {
			return event.NotFound()
		}
		e = l.Database.log[i]
		return nil
	})
	return e, read(err)
}

// Webhooks is one process's client of the database. It implements webhook.WorkerStore, and what routes need.
type Webhooks struct {
	Database *Database
	Process  Stepper
	// Report nudges the webhooks of the organization after a commit with events.
	Report func(ctx context.Context)
}

var _ webhook.WorkerStore = Webhooks{}

// Load implements webhook.WorkerStore.
func (s Webhooks) Load(ctx context.Context, id string) (w webhook.Webhook, err error) {
	err = s.Process.Look(ctx, DatabaseService, "load webhook", func() error {
		found, ok := s.Database.webhooks[id]
		if !ok {
			return webhook.NotFound()
		}
		w = found.read()
		return nil
	})
	return w, read(err)
}

// Update implements webhook.WorkerStore.
func (s Webhooks) Update(
	ctx context.Context, w webhook.Webhook, done webhook.Done, change func(*webhook.Webhook) error,
) (webhook.Webhook, error) {
	err := attempts(ctx, func(again bool) (err error) {
		if again {
			if w, err = s.Load(ctx, w.ID); err != nil {
				return err
			}
		}
		before, changed := w, w
		if err := change(&changed); err != nil {
			return err
		}
		saved := w
		err = s.Process.Step(ctx, DatabaseService, "commit webhook", func() (err error) {
			saved, err = s.Database.commitWebhook(before, changed, done)
			return err
		})
		if err == nil {
			w = saved
		}
		return err
	})
	if err == nil && len(done.Events) > 0 {
		s.Report(ctx)
	}
	return w, err
}

// Change applies a client's change of a webhook, and writes a delivery if the change returns one.
func (s Webhooks) Change(
	ctx context.Context, id string, change func(*webhook.Webhook) (*webhook.Delivery, error),
) error {
	writeID := uuid.NewString()
	return attempts(ctx, func(bool) error {
		committed := false
		var before webhook.Webhook
		err := s.Process.Look(ctx, DatabaseService, "read before change", func() error {
			found, ok := s.Database.webhooks[id]
			if !ok {
				return webhook.NotFound()
			}
			before, committed = found.read(), s.Database.writes[writeID]
			return nil
		})
		if err != nil || committed {
			return err
		}
		changed, done := before, webhook.Done{}
		delivery, err := change(&changed)
		if err != nil {
			return err
		}
		if delivery != nil {
			done.Deliveries = append(done.Deliveries, *delivery)
		}
		return s.Process.Step(ctx, DatabaseService, "commit webhook", func() error {
			_, err := s.Database.commitWebhook(before, changed, done)
			s.Database.writes[writeID] = err == nil
			return err
		})
	})
}

// Create writes a new webhook.
func (s Webhooks) Create(ctx context.Context, w webhook.Webhook) error {
	return attempts(ctx, func(bool) error {
		return s.Process.Step(ctx, DatabaseService, "commit webhook", func() error {
			if _, known := s.Database.webhooks[w.ID]; !known {
				s.Database.Commits++
				s.Database.webhooks[w.ID] = webhookDocument{webhook: w, version: s.Database.Commits}
			}
			return nil
		})
	})
}

// Delete removes a webhook.
func (s Webhooks) Delete(ctx context.Context, id string) error {
	return attempts(ctx, func(bool) error {
		return s.Process.Step(ctx, DatabaseService, "delete webhook", func() error {
			delete(s.Database.webhooks, id)
			return nil
		})
	})
}

// commitWebhook commits a changed webhook with what a run did.
func (d *Database) commitWebhook(before, after webhook.Webhook, done webhook.Done) (webhook.Webhook, error) {
	present, ok := d.webhooks[before.ID]
	if !ok || strconv.FormatInt(present.version, 36) != before.Version && !d.Rules.NoPreconditions {
		return before, errConflict
	}
	d.Commits++
	saved := webhookDocument{webhook: after, version: d.Commits}
	d.webhooks[before.ID] = saved
	for _, delivery := range done.Deliveries {
		d.deliveries[delivery.ID] = delivery
	}
	d.logEvents("", done.Events)
	return saved.read(), nil
}

// LoadDeliveries implements webhook.WorkerStore.
func (s Webhooks) LoadDeliveries(ctx context.Context, ids ...string) (found map[string]webhook.Delivery, err error) {
	err = s.Process.Look(ctx, DatabaseService, "load deliveries "+cmp.Or(ids...), func() error {
		found = map[string]webhook.Delivery{}
		for _, id := range ids {
			if d, ok := s.Database.deliveries[id]; ok {
				d.Attempts = slices.Clone(d.Attempts)
				found[id] = d
			}
		}
		return nil
	})
	return found, read(err)
}

// ListDue implements webhook.WorkerStore.
func (s Webhooks) ListDue(ctx context.Context, now time.Time, limit int) (due []string, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list due webhooks", func() error {
		for _, id := range s.Database.webhookIDs() {
			if at := s.Database.webhooks[id].webhook.DueAt; !at.IsZero() && !at.After(now) && len(due) < limit {
				due = append(due, id)
			}
		}
		return nil
	})
	return due, read(err)
}

// ListEnabled implements webhook.WorkerStore.
func (s Webhooks) ListEnabled(ctx context.Context, _ string) (ids []string, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list enabled webhooks", func() error {
		for _, id := range s.Database.webhookIDs() {
			if s.Database.webhooks[id].webhook.Status == webhook.Enabled {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, read(err)
}

// webhookIDs lists the ids of all webhooks, in order.
func (d *Database) webhookIDs() []string { return slices.Sorted(maps.Keys(d.webhooks)) }
