// Package providers opens the outside systems of the role accounts: the payment provider, the administration of members
// and the logs of agents. It is separate from package wire so that only binaries that use Stripe and Firebase link
// their libraries, and from package cells so that a binary that reads logs links no more of Kubernetes' than that
// takes.
package providers

import (
	"context"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/payments"
	"agents.example/controlplane/infra/firebase"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/gke/podlogs"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/member"
)

// Openers open the providers of a configuration, and the logs of its cells.
func Openers(c config.Common, p config.Providers, cells config.Cells) wire.Openers {
	return wire.Openers{
		Payments: func(context.Context) (billing.Payments, error) { return payments.Open(p) },
		Members:  func(ctx context.Context) (member.Provider, error) { return openMembers(ctx, c.Issuer) },
		Logs:     func(ctx context.Context) (agentlog.Source, error) { return openLogs(ctx, cells), nil },
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

// openLogs opens the logs of agents in the clusters that they are placed on.
func openLogs(ctx context.Context, cells config.Cells) agentlog.Source {
	list := make([]connect.Cell, len(cells))
	for i, c := range cells {
		list[i] = connect.Cell{Name: c.Name, Endpoint: c.Endpoint, Kubeconfig: c.Kubeconfig}
	}
	return podlogs.New(ctx, list)
}
