package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

// Collect reads the metrics of agents. It runs every minute; the collector decides what is due.
func Collect(collector *metrics.Collector) function.Worker {
	return function.Worker{
		Name: "CollectMetrics", Topic: function.CollectTicks, Schedule: "* * * * *",
		Summary: "Read the metrics of agents",
		Needs:   []function.Need{function.Firestore, function.Monitoring},
		Handle:  func(ctx context.Context, _ function.Message) error { return collector.Collect(ctx) },
	}
}
