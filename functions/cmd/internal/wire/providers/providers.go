// Package providers opens the payment provider and the administration of members. It is separate from package wire so
// that only binaries that use Stripe and Firebase link their libraries.
package providers

import (
	"context"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/payments"
	"agents.example/controlplane/infra/firebase"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/member"
)

// Openers open the providers of a configuration.
func Openers(c config.Common, p config.Providers) wire.Openers {
	return wire.Openers{
		Payments: func(context.Context) (billing.Payments, error) { return payments.Open(p) },
		Members:  func(ctx context.Context) (member.Provider, error) { return openMembers(ctx, c.Issuer) },
	}
}

// openMembers opens Firebase Authentication if it issues the sessions. Other identity providers manage members
// themselves.
func openMembers(ctx context.Context, issuer string) (member.Provider, error) {
	if project, ok := firebase.ProjectOf(issuer); ok {
		return firebase.Open(ctx, project)
	}
	return member.ManagedExternally{Issuer: issuer}, nil
}
