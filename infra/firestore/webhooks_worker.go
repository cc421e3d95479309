package firestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/webhook"
)

// WebhookWorkerStore implements webhook.WorkerStore.
type WebhookWorkerStore struct {
	client *Client
}

var _ webhook.WorkerStore = (*WebhookWorkerStore)(nil)

// WebhookWorkerStore is the store of webhooks for workers.
func (c *Client) WebhookWorkerStore() *WebhookWorkerStore { return &WebhookWorkerStore{client: c} }

// Load implements webhook.WorkerStore.
func (s *WebhookWorkerStore) Load(ctx context.Context, id string) (webhook.Webhook, error) {
	return s.client.webhook(ctx, id)
}

// Update implements webhook.WorkerStore. It reads the webhook again only after another writer came first, or if a
// commit may have been carried out; what a run writes is the same however often it is written.
func (s *WebhookWorkerStore) Update(ctx context.Context, w webhook.Webhook, done webhook.Done,
	change func(*webhook.Webhook) error,
) (webhook.Webhook, error) {
	ref, ok := s.client.ref(webhookCollection, w.ID)
	if !ok {
		return webhook.Webhook{}, webhook.NotFound()
	}
	err := s.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) (err error) {
		if again {
			if w, err = s.Load(ctx, w.ID); err != nil {
				return err
			}
		}
		read, err := updateTimeOf(w.Version)
		if err != nil {
			return fmt.Errorf("update the webhook %s: %w", w.ID, err)
		}
		changed := w
		if err := change(&changed); err != nil {
			return err
		}
		doc := webhookFields(&changed).encodeWith(changed.Rest)
		b := s.client.batch().Update(ref, updates(doc), gcp.LastUpdateTime(read))
		for _, d := range done.Deliveries {
			if err := s.client.saveDelivery(b, d); err != nil {
				return err
			}
		}
		s.client.writeEvents(b, changed.OrganizationID, "", done.Events)
		version, err := s.client.commit(ctx, b)
		if err != nil {
			return err
		}
		w, err = decodeWebhook(w.ID, doc)
		w.Version = version
		return err
	})
	if err == nil && len(done.Events) > 0 {
		s.client.reportEvents(ctx, w.OrganizationID)
	}
	return w, err
}

// LoadDeliveries implements webhook.WorkerStore. It reports a record that can't be decoded and leaves it out: each run
// needs it again, and would get no further. The next attempt replaces the record.
func (s *WebhookWorkerStore) LoadDeliveries(ctx context.Context, ids ...string) (map[string]webhook.Delivery, error) {
	var refs []*gcp.DocumentRef
	for _, id := range ids {
		if ref, ok := s.client.ref(deliveryCollection, id); ok {
			refs = append(refs, ref)
		}
	}
	found := map[string]webhook.Delivery{}
	if len(refs) == 0 {
		return found, nil
	}
	snaps, err := s.client.read(ctx, refs...)
	if err != nil {
		return nil, err
	}
	for _, snap := range snaps {
		if !snap.Exists() {
			continue
		}
		d, err := deliveryOf(snap)
		if err != nil {
			reportUnreadable(ctx, deliveryCollection, snap.Ref.ID, err)
			continue
		}
		found[d.ID] = d
	}
	return found, nil
}

// ListDue implements webhook.WorkerStore.
func (s *WebhookWorkerStore) ListDue(ctx context.Context, now time.Time, limit int) ([]string, error) {
	q := query{collection: webhookCollection, until: "due_at", now: now}
	return dueIDs(ctx, s.client, q, limit, webhookOf)
}

// maxEnabled is more than the webhooks of any plan.
const maxEnabled = 100

// ListEnabled implements webhook.WorkerStore.
func (s *WebhookWorkerStore) ListEnabled(ctx context.Context, organizationID string) ([]string, error) {
	if organizationID == "" {
		return nil, errors.New("list webhooks: no organization")
	}
	snaps, err := s.client.runQuery(ctx, query{
		collection: webhookCollection,
		equal:      []equality{{"organization_id", organizationID}, {"status", string(webhook.Enabled)}},
		only:       []string{}, order: []order{{gcp.DocumentID, gcp.Asc}}, limit: maxEnabled,
	})
	return documentIDs(snaps), err
}
