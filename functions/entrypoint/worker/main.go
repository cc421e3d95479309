// Command worker serves the workers that Pub/Sub pushes to.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/entrypoint/cells"
	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/functions/entrypoint/run"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Worker](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		return open.Workers(ctx, c, cells.Opener(c))
	})
}
