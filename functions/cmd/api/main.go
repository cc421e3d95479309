// Command api serves the routes of agents, secrets, keys and the audit log.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/functions/cmd/internal/wire"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Routes](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		return wire.API(ctx, c)
	})
}
