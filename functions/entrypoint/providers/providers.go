// Package providers opens the way to who takes the customers' payments, and who keeps their members. It is apart from package open so that only the binaries that need
// it link its libraries.
package providers

import (
	"context"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/infra/firebase"
	"agents.example/controlplane/infra/stripe"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/member"
)

// Of says how the providers of a configuration are opened.
func Of(c config.Common, p config.Providers) open.Openers {
	return open.Openers{
		Payments: func(context.Context) (billing.Payments, error) { return openPayments(p) },
		Members:  func(ctx context.Context) (member.Provider, error) { return openMembers(ctx, c.Issuer) },
	}
}

// openPayments opens Stripe, if there is a key; otherwise nobody takes payments.
func openPayments(p config.Providers) (billing.Payments, error) {
	if p.StripeKey == "" {
		return billing.Nobody{}, nil
	}
	return stripe.Open(stripe.Options{
		Key: p.StripeKey.Reveal(), WebhookSecret: p.StripeWebhookSecret.Reveal(), URL: p.StripeURL, ReturnURL: p.AppURL,
	})
}

// openMembers opens Firebase Authentication, if it issues the sessions. Every other identity provider manages members by itself.
func openMembers(ctx context.Context, issuer string) (member.Provider, error) {
	if project, ok := firebase.Project(issuer); ok {
		return firebase.Open(ctx, project)
	}
	return member.Elsewhere{Issuer: issuer}, nil
}
