// Package cells opens the clusters that agents are placed on. It is apart from package open so that
// only the binaries that speak to Kubernetes link its libraries.
package cells

import (
	"context"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/infra/gke"
)

// Opener opens the cells of a worker's configuration when they are first needed.
func Opener(c config.Worker) func(context.Context) (open.Clusters, error) {
	return func(ctx context.Context) (open.Clusters, error) {
		settings := gke.Settings{
			Image: c.AgentImage, Addresses: c.Addresses(), StorageClass: c.StorageClass, Resolvers: c.Resolvers,
			Gateway: gke.Gateway{Namespace: c.GatewayNamespace, Name: c.GatewayName, Sources: c.GatewaySources},
		}
		for _, cell := range c.Cells {
			settings.Cells = append(settings.Cells, gke.Cell{
				Name: cell.Name, Endpoint: cell.Endpoint, Kubeconfig: cell.Kubeconfig, Image: cell.Image,
			})
		}
		clusters, err := gke.Open(ctx, settings)
		if err != nil {
			return open.Clusters{}, err
		}
		return open.Clusters{
			Cluster: clusters, Fleet: clusters, Lookout: clusters, Close: clusters.Close,
		}, nil
	}
}
