package subscriptions

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

type webhookInput struct {
	Header struct {
		Signature string `json:"Stripe-Signature,omitempty" jsonschema:"Stripe's signature of the body."`
	} `json:"header"`
	Body function.Verbatim `json:"body"`
}

// Example implements function.Exampler.
func (webhookInput) Example() any {
	var in webhookInput
	in.Body = function.Verbatim(`{"id": "evt_1", "type": "customer.subscription.updated", "data": {"object": {"id": "sub_1", "object": "subscription"}}}`)
	return in
}

// Received is the answer to an event.
type Received struct {
	Received bool `json:"received" jsonschema:"Always true."`
}

// Example implements function.Exampler.
func (Received) Example() any { return Received{true} }

// Webhook receives the events of the payment provider. The signature authenticates them. An event only names a
// subscription: its state is fetched from the provider.
func Webhook(service *billing.Service, payments billing.Payments) function.Route {
	return function.Route{
		Name: "ReceiveStripeEvent", Method: http.MethodPost, Path: "/api/v1/billing/webhooks/stripe",
		Role:   function.RoleAccounts,
		Access: function.Public, Needs: []function.Need{function.Firestore, function.NudgeWebhooks, function.Payments},
		Status: http.StatusOK, Summary: "Receive a Stripe event", Errors: []fault.Kind{fault.NotFound},
		Handle: function.Handle(func(ctx context.Context, in webhookInput) (Received, error) {
			event, err := payments.Event(in.Body, in.Header.Signature)
			if err != nil {
				return Received{}, err
			}
			return Received{true}, service.HandleEvent(ctx, event)
		}),
	}
}
