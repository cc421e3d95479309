// Package cells opens the clusters that agents are placed on, and what is measured of them. It is apart from package open so that only the
// binaries that speak to Kubernetes and to Cloud Monitoring link their libraries.
package cells

import (
	"cmp"
	"context"

	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/infra/monitoring"
)

// Opener opens the cells of a worker's configuration, and what is measured of them, when they are first needed.
func Opener(c config.Worker) open.Openers {
	return open.Openers{Clusters: clusters(c), Points: points(c)}
}

func clusters(c config.Worker) func(context.Context) (open.Clusters, error) {
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

func points(c config.Worker) func(context.Context) (open.Points, error) {
	return func(ctx context.Context) (open.Points, error) {
		options := monitoring.Options{
			ProjectID: cmp.Or(c.MonitoringProject, c.ProjectID), Endpoint: c.Local.Monitoring, Domain: c.AgentDomain,
		}
		for _, cell := range c.Cells {
			options.Cells = append(options.Cells, monitoring.Cell{
				Name: cell.Name, Cluster: cmp.Or(cell.Cluster, cell.Name), Location: cmp.Or(cell.Location, cell.Region),
			})
		}
		source, err := monitoring.Open(ctx, options)
		if err != nil {
			return open.Points{}, err
		}
		return open.Points{Source: source, Close: source.Close}, nil
	}
}
