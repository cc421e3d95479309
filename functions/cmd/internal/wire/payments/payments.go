// Package payments opens the payment provider. It is separate from package wire so that only binaries that use Stripe
// link its library.
package payments

import (
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/stripe"
	"agents.example/controlplane/shared/billing"
)

// Open opens Stripe if there is a key. Without one, the operator sets plans.
func Open(p config.Providers) (billing.Payments, error) {
	if p.StripeKey == "" {
		return billing.NoProvider{}, nil
	}
	return stripe.Open(stripe.Options{
		Key: p.StripeKey.Reveal(), WebhookSecret: p.StripeWebhookSecret.Reveal(), URL: p.StripeURL, ReturnURL: p.AppURL,
	})
}
