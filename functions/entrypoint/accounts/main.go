// Command accounts serves the routes of callers, organizations and payments. Without a target it serves all routes: it links what they all
// need.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/functions/entrypoint/providers"
	"agents.example/controlplane/functions/entrypoint/run"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Accounts](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		return open.Accounts(ctx, c.Common, providers.Of(c.Common, c.Providers))
	})
}
