// Command accounts serves the routes of callers, organizations, payments and agents' logs. Without a target it serves
// all routes, because it links all their dependencies.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/providers"
	"agents.example/controlplane/functions/mcp"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Accounts](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		openers := providers.Openers(c.Common, c.Providers, c.Cells)
		openers.MCP = mcp.New
		return wire.Accounts(ctx, c.Routes, openers)
	})
}
