// Package providers opens the way to who takes the customers' payments. It is apart from package open so that only the binaries that need
// it link its libraries.
package providers

import (
	"context"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/shared/billing"
)

// Opener opens the providers of a configuration when they are first needed.
func Opener(_ config.Common, _ config.Providers) func(context.Context) (open.Providers, error) {
	return func(context.Context) (open.Providers, error) {
		return open.Providers{Payments: billing.Nobody{}}, nil
	}
}
