package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Observe finds running agents that broke, and broken ones that recovered.
func Observe(controller *provisioning.HealthController) function.Worker {
	return function.Worker{
		Name: "ObserveAgents", Topic: function.ObserveTicks, Schedule: "* * * * *",
		Summary: "Find agents that broke or recovered by themselves",
		Needs:   []function.Need{function.Firestore, function.Publish, function.ClusterLook, function.GatewayAccess},
		Handle:  func(ctx context.Context, _ function.Message) error { return controller.CheckHealth(ctx) },
	}
}
