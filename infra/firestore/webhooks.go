package firestore

import (
	"context"
	"errors"
	"fmt"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// Webhooks implements webhook.Store.
type Webhooks struct {
	client *Client
}

var _ webhook.Store = (*Webhooks)(nil)

// Webhooks is the store of webhooks for routes.
func (c *Client) Webhooks() *Webhooks { return &Webhooks{client: c} }

// webhookFields lists what is stored of a webhook. It holds no secret.
func webhookFields(w *webhook.Webhook) fields {
	return fields{
		{"organization_id", text(&w.OrganizationID)},
		{"url", text(&w.URL)},
		{"types", texts(&w.Types)},
		{"description", text(&w.Description)},
		{"status", text(&w.Status)},
		{"disabled_reason", text(&w.DisabledReason)},
		{"secret_version", number(&w.SecretVersion)},
		{"secret_since", timestamp(&w.SecretSince)},
		{"former_secrets", number(&w.FormerSecrets)},
		{"former_secrets_until", timestamp(&w.FormerSecretsUntil)},
		{"former_secret_ends", array(&w.FormerSecretEnds, secretEndFields)},
		{"created_at", timestamp(&w.CreatedAt)},
		{"updated_at", timestamp(&w.UpdatedAt)},
		{"created_by", text(&w.CreatedBy)},
		{"enabled_at", timestamp(&w.EnabledAt)},
		{"position", text(&w.Position)},
		{"lanes", array(&w.Lanes, laneFields)},
		{"requests", texts(&w.Requests)},
		{"failing_since", timestamp(&w.FailingSince)},
		{"failed_at", timestamp(&w.FailedAt)},
		{"due_at", timestamp(&w.DueAt)},
		{"lease_holder", text(&w.LeaseHolder)},
		{"lease_until", timestamp(&w.LeaseUntil)},
	}
}

func secretEndFields(e *webhook.SecretEnd) fields {
	return fields{{"version", number(&e.Version)}, {"until", timestamp(&e.Until)}}
}

func laneFields(l *webhook.Lane) fields {
	return fields{
		{"agent_id", text(&l.AgentID)},
		{"after", text(&l.After)},
		{"head", text(&l.Head)},
		{"attempts", number(&l.Attempts)},
		{"first_at", timestamp(&l.FirstAt)},
		{"next_attempt_at", timestamp(&l.NextAttemptAt)},
		{"early", flag(&l.Early)},
	}
}

// webhookOf makes the webhook of a document that exists.
func webhookOf(snap *gcp.DocumentSnapshot) (webhook.Webhook, error) {
	w := webhook.Webhook{ID: snap.Ref.ID, Version: versionOf(snap.UpdateTime)}
	rest, err := decodeWithRest(snap, webhookFields(&w))
	w.Rest = rest
	return w, err
}

func webhookTarget(w webhook.Webhook) audit.Target {
	return audit.Target{Type: "webhook", ID: w.ID, Name: w.Description}
}

// webhookCreatedField is a field of an organization that the creation of a webhook writes, so that of concurrent
// creations in an organization only one is committed: each counts the webhooks of the others.
const webhookCreatedField = "webhook_created_at"

// Create implements webhook.Store. It fills in OrganizationID, and Position by the database's clock.
func (s *Webhooks) Create(ctx context.Context, w webhook.Webhook) (webhook.Webhook, error) {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return webhook.Webhook{}, err
	}
	ref, ok := s.client.ref(webhookCollection, w.ID)
	if !ok {
		return webhook.Webhook{}, fmt.Errorf("create a webhook: %w", errBadID)
	}
	w.OrganizationID = ch.call.Caller.OrganizationID
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, nil)
		if err != nil || state.committed != "" {
			return err
		}
		if ch.replays(state.answer) {
			w, err = answeredWebhook(state.answer.record)
			ch.call.Entry.SetTarget(webhookTarget(w))
			return err
		}
		if err := s.checkRoom(ctx, state.org); err != nil {
			return err
		}
		w.Position = event.After(state.org.snap.ReadTime)
		b := s.client.batch().Create(ref, webhookFields(&w).encode())
		state.org.save(b, []gcp.Update{{Path: webhookCreatedField, Value: ch.at}})
		ch.writeEntry(b, state.org, webhookTarget(w), nil)
		ch.saveAnswer(b, state.answer, answerOfWebhook(w))
		return ch.commitOfSession(ctx, b)
	})
	if err != nil {
		return webhook.Webhook{}, err
	}
	return decodeWebhook(w.ID, webhookFields(&w).encode())
}

// decodeWebhook makes the webhook of an encoded record: what a later read returns.
func decodeWebhook(id string, doc map[string]any) (webhook.Webhook, error) {
	w := webhook.Webhook{ID: id}
	rest, err := webhookFields(&w).decode(inMap(doc))
	w.Rest = rest
	return w, err
}

// answerOfWebhook is the record of an answer that shows a webhook.
func answerOfWebhook(w webhook.Webhook) map[string]any {
	return map[string]any{"id": w.ID, "webhook": webhookFields(&w).encode()}
}

func answeredWebhook(record map[string]any) (webhook.Webhook, error) {
	id, _ := record["id"].(string)
	doc, _ := record["webhook"].(map[string]any)
	w, err := decodeWebhook(id, doc)
	if err == nil && id == "" {
		err = errors.New("the answer shows no webhook")
	}
	if err != nil {
		return w, fmt.Errorf("decode the answer to a repeated request: %w", err)
	}
	return w, nil
}

// checkRoom checks that the organization's plan allows another webhook. Errors: Conflict.
func (s *Webhooks) checkRoom(ctx context.Context, org organizationState) error {
	limit, err := org.MaxWebhooks()
	if err != nil {
		return fmt.Errorf("create a webhook: %w", err)
	}
	found, err := s.client.runQuery(ctx, query{
		collection: webhookCollection, equal: []equality{{"organization_id", org.ID}}, only: []string{},
		order: []order{{gcp.DocumentID, gcp.Asc}}, limit: limit,
	})
	if err != nil || len(found) < limit {
		return err
	}
	return fault.New(fault.Conflict, "webhook_limit_reached",
		"The organization has %d webhooks, as many as its plan allows. Delete one first.", len(found)).
		WithMeta(map[string]any{"current": len(found), "max": limit})
}

// webhook reads a webhook. Errors: NotFound, Unavailable.
func (c *Client) webhook(ctx context.Context, id string) (webhook.Webhook, error) {
	ref, ok := c.ref(webhookCollection, id)
	if !ok {
		return webhook.Webhook{}, webhook.NotFound()
	}
	snap, err := c.readOne(ctx, ref)
	if err != nil {
		return webhook.Webhook{}, err
	}
	return existingWebhook(snap)
}

// existingWebhook makes the webhook of a document. Errors: NotFound.
func existingWebhook(snap *gcp.DocumentSnapshot) (webhook.Webhook, error) {
	if !snap.Exists() {
		return webhook.Webhook{}, webhook.NotFound()
	}
	return webhookOf(snap)
}

// ownWebhook returns a webhook that was read if it is one of the caller's organization. Errors: NotFound, or that of
// reading.
func ownWebhook(ctx context.Context, w webhook.Webhook, err error) (webhook.Webhook, error) {
	if err != nil {
		return webhook.Webhook{}, err
	}
	if own := call.From(ctx).Caller.OrganizationID; own == "" || w.OrganizationID != own {
		return webhook.Webhook{}, webhook.NotFound()
	}
	return w, nil
}

// Get implements webhook.Store.
func (s *Webhooks) Get(ctx context.Context, id string) (webhook.Webhook, error) {
	w, err := s.client.webhook(ctx, id)
	return ownWebhook(ctx, w, err)
}

// EachWebhook visits the webhooks of all organizations.
func (s *Webhooks) EachWebhook(ctx context.Context, visit func(webhook.Webhook) error) error {
	return s.client.eachDocument(ctx, query{collection: webhookCollection, limit: webhookPage},
		func(snap *gcp.DocumentSnapshot) error {
			w, err := webhookOf(snap)
			if err != nil {
				return err
			}
			return visit(w)
		})
}

// webhookPage is how many webhooks EachWebhook reads in one call.
const webhookPage = 200

// List implements webhook.Store.
func (s *Webhooks) List(ctx context.Context, p page.Request) (page.Page[webhook.Webhook], error) {
	return listPage(ctx, s.client, listing[webhook.Webhook]{
		query: query{
			collection: webhookCollection, equal: []equality{{"organization_id", call.From(ctx).Caller.OrganizationID}},
		},
		tieBreaker: gcp.DocumentID,
		decode:     webhookOf,
		position:   func(w webhook.Webhook) position { return position{w.CreatedAt, w.ID} },
	}, p)
}
