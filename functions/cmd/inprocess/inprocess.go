// Package inprocess serves the whole catalogue in the calling process, from the environment variables of the binaries.
// The local cloud uses it; a deployment runs one binary per role instead.
package inprocess

import (
	"context"
	"net/http"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/functions/cmd/internal/wire/cells"
	"agents.example/controlplane/functions/cmd/internal/wire/commands"
	"agents.example/controlplane/functions/cmd/internal/wire/providers"
	"agents.example/controlplane/functions/mcp"
)

// Options change what the environment cannot express.
type Options struct {
	// BillingClock is the clock of accounts; nil means time.Now.
	BillingClock func() time.Time
}

// Service is the opened catalogue.
type Service struct {
	Handler http.Handler
	// Close releases the clients that the handler uses. Call it after the last request.
	Close func() error
}

// Open opens every function of the catalogue. ctx bounds the opening of clients, which happens when they are first
// used.
func Open(ctx context.Context, environment map[string]string, o Options) (Service, error) {
	lookuper := envconfig.MapLookuper(environment)
	worker, err := config.Read[config.Worker](ctx, lookuper)
	if err != nil {
		return Service{}, err
	}
	routes, err := config.Read[config.Routes](ctx, lookuper)
	if err != nil {
		return Service{}, err
	}
	openers, external := cells.Openers(worker), providers.Openers(worker.Common, worker.Providers, worker.Cells)
	openers.Payments, openers.Members, openers.Logs = external.Payments, external.Members, external.Logs
	openers.Commands = commands.Openers(worker.Cells).Commands
	openers.MCP = mcp.New
	settings := wire.RouteSettings(routes, openers)
	settings.BillingClock = o.BillingClock
	s, err := wire.All(ctx, worker, settings)
	return Service{Handler: s.Handler, Close: s.Close}, err
}
