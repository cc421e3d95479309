package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/webhook"
)

// Change implements webhook.Store.
func (s *Webhooks) Change(ctx context.Context, id string,
	change func(*webhook.Webhook) (*webhook.Delivery, error),
) (webhook.Webhook, error) {
	var changed webhook.Webhook
	err := s.write(ctx, id, func(w webhook.Webhook, snap *gcp.DocumentSnapshot) (*batch, map[string]any, error) {
		changed = w
		delivery, err := change(&changed)
		if err != nil {
			return nil, nil, err
		}
		b := s.client.batch().Update(snap.Ref, updates(webhookFields(&changed).encodeWith(changed.Rest)),
			gcp.LastUpdateTime(snap.UpdateTime))
		if delivery != nil {
			if err := s.client.saveDelivery(b, *delivery); err != nil {
				return nil, nil, err
			}
		}
		return b, answerOfWebhook(changed), nil
	}, func(record map[string]any) (err error) {
		changed, err = answeredWebhook(record)
		return err
	})
	if err != nil {
		return webhook.Webhook{}, err
	}
	return decodeWebhook(changed.ID, webhookFields(&changed).encodeWith(changed.Rest))
}

// Delete implements webhook.Store.
func (s *Webhooks) Delete(ctx context.Context, id string) error {
	return s.write(ctx, id, func(_ webhook.Webhook, snap *gcp.DocumentSnapshot) (*batch, map[string]any, error) {
		return s.client.batch().Delete(snap.Ref, gcp.Exists), nil, nil
	}, func(map[string]any) error { return nil })
}

// write commits a change of a webhook. prepare returns the writes, and the record of an idempotent answer; replay reads
// such a record.
func (s *Webhooks) write(ctx context.Context, id string,
	prepare func(webhook.Webhook, *gcp.DocumentSnapshot) (*batch, map[string]any, error),
	replay func(record map[string]any) error,
) error {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return err
	}
	ref, ok := s.client.ref(webhookCollection, id)
	if !ok {
		return webhook.NotFound()
	}
	return ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, ref)
		switch {
		case err != nil || state.committed != "":
			return err
		case ch.replays(state.answer):
			return replay(state.answer.record)
		}
		w, err := existingWebhook(state.target)
		if w, err = ownWebhook(ctx, w, err); err != nil {
			return err
		}
		b, record, err := prepare(w, state.target)
		if err != nil {
			return err
		}
		ch.writeEntry(b, state.org, webhookTarget(w), nil)
		ch.saveAnswer(b, state.answer, record)
		return ch.commitOfSession(ctx, b)
	})
}
