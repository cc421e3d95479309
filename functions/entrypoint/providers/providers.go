// Package providers opens the way to who takes the customers' payments. It is apart from package open so that only the binaries that need
// it link its libraries.
package providers

import (
	"context"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/infra/stripe"
	"agents.example/controlplane/shared/billing"
)

// Opener opens the providers of a configuration when they are first needed.
func Opener(_ config.Common, p config.Providers) func(context.Context) (open.Providers, error) {
	return func(context.Context) (open.Providers, error) {
		if p.StripeKey == "" {
			return open.Providers{Payments: billing.Nobody{}}, nil
		}
		payments, err := stripe.Open(stripe.Options{
			Key: p.StripeKey.Reveal(), WebhookSecret: p.StripeWebhookSecret.Reveal(), URL: p.StripeURL, ReturnURL: p.AppURL,
		})
		if err != nil {
			return open.Providers{}, err
		}
		return open.Providers{Payments: payments, Close: payments.Close}, nil
	}
}
