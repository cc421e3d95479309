// Command exec serves the routes that enter agents' containers. No other binary does, so that no other identity may.
package main

import (
	"context"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/run"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/commands"
)

func main() {
	run.Main(func(ctx context.Context) (run.Service, error) {
		c, err := config.Read[config.Routes](ctx, envconfig.OsLookuper())
		if err != nil {
			return run.Service{}, err
		}
		return wire.Exec(ctx, c, commands.Openers(c.Cells))
	})
}
