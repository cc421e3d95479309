// Package logs opens the logs of agents in the clusters that they are placed on. It is separate from packages wire and
// cells so that a binary that reads logs links no more of Kubernetes' libraries than that takes.
package logs

import (
	"context"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/gke/podlogs"
	"agents.example/controlplane/shared/agentlog"
)

// Opener opens the logs of a configuration's cells.
func Opener(cells config.Cells) func(ctx context.Context) (agentlog.Source, error) {
	return func(ctx context.Context) (agentlog.Source, error) {
		list := make([]connect.Cell, len(cells))
		for i, c := range cells {
			list[i] = connect.Cell{Name: c.Name, Endpoint: c.Endpoint, Kubeconfig: c.Kubeconfig}
		}
		return podlogs.New(ctx, list), nil
	}
}
