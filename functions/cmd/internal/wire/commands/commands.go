// Package commands opens the commands in agents' containers. It is separate from package wire so that only the binary
// that may enter containers links them.
package commands

import (
	"context"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/gke/podexec"
	"agents.example/controlplane/shared/agentexec"
)

// Openers open the commands in the clusters of a configuration.
func Openers(cells config.Cells) wire.Openers {
	return wire.Openers{Commands: func(ctx context.Context) (agentexec.Source, error) { return open(ctx, cells), nil }}
}

func open(ctx context.Context, cells config.Cells) agentexec.Source {
	list := make([]connect.Cell, len(cells))
	for i, c := range cells {
		list[i] = connect.Cell{Name: c.Name, Endpoint: c.Endpoint, Kubeconfig: c.Kubeconfig}
	}
	return podexec.New(ctx, list)
}
