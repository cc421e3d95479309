package webhooks

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// Test asks for the delivery of a test event. A worker makes one attempt, also if the webhook is disabled.
func Test(s Service) function.Route {
	return function.Route{
		Name: "TestWebhook", Method: http.MethodPost, Path: prefix + "/{webhook_id}/test",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.NudgeWebhooks},
		// Conflict: too many requested deliveries wait.
		Status: http.StatusAccepted, Summary: "Send a test event", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in webhookInput) (webhook.DeliveryView, error) {
			random := rand.Uint64() //nolint:gosec // names a delivery, protects nothing
			return s.request(ctx, in.Path, func(w *webhook.Webhook, now time.Time) (*webhook.Delivery, error) {
				d := webhook.NewTest(*w, random, now)
				d.Again(now)
				return &d, w.Request(d.ID, now)
			})
		}),
	}
}

// request records a delivery that a client asked for, and nudges the webhook. ask requests it of the webhook.
func (s Service) request(ctx context.Context, p path,
	ask func(w *webhook.Webhook, now time.Time) (*webhook.Delivery, error),
) (webhook.DeliveryView, error) {
	now := time.Now().UTC()
	w, err := s.change(ctx, p, func(w *webhook.Webhook) (*webhook.Delivery, error) { return ask(w, now) })
	if err != nil {
		return webhook.DeliveryView{}, err
	}
	// The delivery at the end is that of this request, or that of the first one with the same Idempotency-Key.
	requested, err := s.Store.Delivery(ctx, w.ID, w.Requests[len(w.Requests)-1])
	return requested.Show(), err
}

type deliveriesInput struct {
	Path  path       `json:"path"`
	Query page.Query `json:"query"`
}

// Deliveries reads a page of a webhook's deliveries, newest first.
func Deliveries(s Service) function.Route {
	return function.Route{
		Name: "ListWebhookDeliveries", Method: http.MethodGet, Path: prefix + "/{webhook_id}/deliveries",
		Access: function.Admin, Needs: []function.Need{function.Firestore},
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List the deliveries of a webhook", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in deliveriesInput) (page.Page[webhook.DeliveryView], error) {
			found, err := s.Store.Deliveries(ctx, string(in.Path.WebhookID), in.Query.Request())
			found.Self = &url.URL{
				Path: prefix + "/" + string(in.Path.WebhookID) + "/deliveries", RawQuery: in.Query.Values().Encode(),
			}
			return page.Map(found, webhook.Delivery.Show), err
		}),
	}
}

type deliveryInput struct {
	Path struct {
		WebhookID  function.UUID `json:"webhook_id" jsonschema:"The webhook's id."`
		DeliveryID function.UUID `json:"delivery_id" jsonschema:"The delivery's id."`
	} `json:"path"`
}

// Redeliver asks for one more attempt of a delivery that will not be attempted otherwise.
func Redeliver(s Service) function.Route {
	return function.Route{
		Name: "RedeliverWebhookDelivery", Method: http.MethodPost,
		Path:   prefix + "/{webhook_id}/deliveries/{delivery_id}/redeliver",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.NudgeWebhooks},
		// Conflict: the delivery will be attempted anyway, or too many requested deliveries wait.
		Status: http.StatusAccepted, Summary: "Repeat a delivery", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in deliveryInput) (webhook.DeliveryView, error) {
			p := path{in.Path.WebhookID}
			return s.request(ctx, p, func(w *webhook.Webhook, now time.Time) (*webhook.Delivery, error) {
				// It is read after the webhook: a run that commits an attempt in between makes the change run again.
				d, err := s.Store.Delivery(ctx, w.ID, string(in.Path.DeliveryID))
				if err == nil {
					err = w.Redeliver(&d, now)
				}
				return &d, err
			})
		}),
	}
}
