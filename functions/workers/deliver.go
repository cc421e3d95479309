package workers

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webhook"
)

// Deliver delivers the events of the webhook named in a nudge. A message without a webhook is logged and dropped.
func Deliver(deliverer *webhook.Deliverer) function.Worker {
	return function.Worker{
		Name: "DeliverWebhook", Topic: function.WebhookNudges, Summary: "Deliver events to the receiver of a webhook",
		Needs: []function.Need{
			function.Firestore, function.Publish, function.WebhookSign, function.WebhookSend,
		},
		Handle: func(ctx context.Context, m function.Message) error {
			var nudge function.WebhookNudge
			if err := json.Unmarshal(m.Data, &nudge); err != nil || uuid.Validate(nudge.WebhookID) != nil {
				slog.ErrorContext(ctx, "message names no webhook; dropped", "message_id", m.ID, "bytes", len(m.Data))
				return nil //nolint:nilerr // a retry cannot succeed
			}
			return deliverer.Deliver(ctx, nudge.WebhookID)
		},
	}
}
