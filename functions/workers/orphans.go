package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// CollectOrphans deletes namespaces and secrets that belong to no agent.
func CollectOrphans(collector *provisioning.OrphanCollector) function.Worker {
	return function.Worker{
		Name: "CollectOrphans", Topic: function.OrphanTicks, Schedule: "17 * * * *",
		Summary: "Delete namespaces and secrets without an agent",
		Needs:   []function.Need{function.FirestoreRead, function.ClusterCollect, function.SecretCollect},
		Handle:  func(ctx context.Context, _ function.Message) error { return collector.Collect(ctx) },
	}
}
