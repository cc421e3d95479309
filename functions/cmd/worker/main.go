// Command worker serves the workers that Pub/Sub pushes to.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/cells"
	"agents.example/controlplane/functions/cmd/internal/wire/payments"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/infra/firestore/backups"
	"agents.example/controlplane/shared/billing"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Worker](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		openers := cells.Openers(c)
		openers.Payments = func(context.Context) (billing.Payments, error) { return payments.Open(c.Providers) }
		openers.Backups = func(ctx context.Context) (workers.Backups, error) {
			return backups.Open(ctx, c.ProjectID, c.Database)
		}
		return wire.Workers(ctx, c, openers)
	})
}
