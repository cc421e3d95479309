package firestore

import (
	"context"
	"fmt"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// deliveryFields lists what is stored of a delivery. Firestore deletes it some time after expires_at.
func deliveryFields(d *webhook.Delivery) fields {
	expiresAt := d.CreatedAt.Add(webhook.DeliveryRetention)
	return fields{
		{"webhook_id", text(&d.WebhookID)},
		{"organization_id", text(&d.OrganizationID)},
		{"event_id", text(&d.EventID)},
		{"event_type", text(&d.EventType)},
		{"agent_id", text(&d.AgentID)},
		{"status", text(&d.Status)},
		{"attempts", array(&d.Attempts, attemptFields)},
		{"next_attempt_at", timestamp(&d.NextAttemptAt)},
		{"created_at", timestamp(&d.CreatedAt)},
		{"completed_at", timestamp(&d.CompletedAt)},
		{"expires_at", timestamp(&expiresAt)},
	}
}

func attemptFields(a *webhook.Attempt) fields {
	return fields{
		{"at", timestamp(&a.At)},
		{"http_status", number(&a.HTTPStatus)},
		{"latency_ns", number(&a.Latency)},
		{"reason", text(&a.Reason)},
	}
}

// deliveryOf makes the delivery of a document that exists.
func deliveryOf(snap *gcp.DocumentSnapshot) (webhook.Delivery, error) {
	d := webhook.Delivery{ID: snap.Ref.ID}
	rest, err := decodeWithRest(snap, deliveryFields(&d))
	d.Rest = rest
	return d, err
}

func (c *Client) saveDelivery(b *batch, d webhook.Delivery) error {
	ref, ok := c.ref(deliveryCollection, d.ID)
	if !ok {
		return fmt.Errorf("save a delivery: %w", errBadID)
	}
	b.Set(ref, deliveryFields(&d).encodeWith(d.Rest), gcp.MergeAll)
	return nil
}

// Delivery implements webhook.Store.
func (s *Webhooks) Delivery(ctx context.Context, webhookID, deliveryID string) (webhook.Delivery, error) {
	ref, ok := s.client.ref(deliveryCollection, deliveryID)
	if !ok {
		return webhook.Delivery{}, webhook.DeliveryNotFound()
	}
	snap, err := s.client.readOne(ctx, ref)
	if err != nil {
		return webhook.Delivery{}, err
	}
	if !snap.Exists() {
		return webhook.Delivery{}, webhook.DeliveryNotFound()
	}
	d, err := deliveryOf(snap)
	if err != nil {
		return webhook.Delivery{}, err
	}
	own := call.From(ctx).Caller.OrganizationID
	if own == "" || d.OrganizationID != own || d.WebhookID != webhookID || !s.keeps(d) {
		return webhook.Delivery{}, webhook.DeliveryNotFound()
	}
	return d, nil
}

// keeps reports whether a delivery is still shown. Firestore deletes it some days after its end.
func (s *Webhooks) keeps(d webhook.Delivery) bool {
	return s.client.now().Sub(d.CreatedAt) < webhook.DeliveryRetention
}

// Deliveries implements webhook.Store.
func (s *Webhooks) Deliveries(ctx context.Context, webhookID string, p page.Request) (page.Page[webhook.Delivery],
	error,
) {
	if _, err := s.Get(ctx, webhookID); err != nil {
		return page.Page[webhook.Delivery]{}, err
	}
	return listPage(ctx, s.client, listing[webhook.Delivery]{
		// Those that are no longer kept can be very many: they are all that is left after the last page.
		query: query{
			collection: deliveryCollection, equal: []equality{{"webhook_id", webhookID}},
			from: s.client.now().Add(-webhook.DeliveryRetention),
		},
		tieBreaker: gcp.DocumentID,
		decode:     deliveryOf,
		position:   func(d webhook.Delivery) position { return position{d.CreatedAt, d.ID} },
		include:    s.keeps,
	}, p)
}
