// Package cells opens the clusters that agents are placed on, and the source of their metrics. It is separate from
// package wire so that only binaries that use Kubernetes and Cloud Monitoring link their libraries.
package cells

import (
	"cmp"
	"context"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/functions/cmd/internal/wire"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/gke/podexec"
	"agents.example/controlplane/infra/monitoring"
	"agents.example/controlplane/shared/provisioning"
)

// Openers open the cells of a worker's configuration, and the source of their metrics.
func Openers(c config.Worker) wire.Openers {
	return wire.Openers{
		Clusters:      func(ctx context.Context) (wire.Clusters, error) { return openClusters(ctx, c) },
		Quiescer:      func(ctx context.Context) (provisioning.Quiescer, error) { return openQuiescer(ctx, c), nil },
		MetricsSource: func(ctx context.Context) (wire.MetricsSource, error) { return openMetricsSource(ctx, c) },
	}
}

func openClusters(ctx context.Context, c config.Worker) (wire.Clusters, error) {
	settings := gke.Settings{
		Database: c.DatabaseLabel(), Images: c.BuiltInImages(),
		KeysURL: c.KeysURL, RouterNamespace: c.RouterNamespace, GateAddress: c.GateAddress,
		Addresses: c.Addresses(), StorageClass: c.StorageClass, Resolvers: c.Resolvers,
		LoopbackImports: c.Local.AllowLoopbackWebhooks,
	}
	for _, cell := range c.Cells {
		settings.Cells = append(settings.Cells, gke.Cell{
			Name: cell.Name, Endpoint: cell.Endpoint, Kubeconfig: cell.Kubeconfig,
		})
	}
	return gke.Open(ctx, settings)
}

func openQuiescer(ctx context.Context, c config.Worker) provisioning.Quiescer {
	list := make([]connect.Cell, len(c.Cells))
	for i, cell := range c.Cells {
		list[i] = connect.Cell{Name: cell.Name, Endpoint: cell.Endpoint, Kubeconfig: cell.Kubeconfig}
	}
	return podexec.New(ctx, list)
}

func openMetricsSource(ctx context.Context, c config.Worker) (wire.MetricsSource, error) {
	options := monitoring.Options{
		ProjectID: cmp.Or(c.MonitoringProject, c.ProjectID), Endpoint: c.Local.Monitoring, Domain: c.AgentDomain,
	}
	for _, cell := range c.Cells {
		options.Cells = append(options.Cells, monitoring.Cell{
			Name: cell.Name, Cluster: cmp.Or(cell.Cluster, cell.Name), Location: cmp.Or(cell.Location, cell.Region),
		})
	}
	return monitoring.Open(ctx, options)
}
