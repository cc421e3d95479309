package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/provisioning"
)

// Observe finds agents that broke while they ran, or mended by themselves.
func Observe(observer *provisioning.HealthController) function.Worker {
	return function.Worker{
		Name: "ObserveAgents", Topic: function.ObserveTicks, Schedule: "* * * * *",
		Summary: "Find agents that broke or mended by themselves",
		Needs:   []function.Need{function.Firestore, function.Publish, function.Cluster, function.GatewayAccess},
		Handle:  func(ctx context.Context, _ function.Message) error { return observer.CheckHealth(ctx) },
	}
}
