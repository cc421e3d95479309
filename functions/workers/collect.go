package workers

import (
	"context"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/metrics"
)

// Collect reads what was measured of agents. There is a tick a minute; what is due at it is the collector's to decide.
func Collect(collector *metrics.Collector) function.Worker {
	return function.Worker{
		Name: "CollectMetrics", Topic: function.CollectTicks, Schedule: "* * * * *",
		Summary: "Read what was measured of agents",
		Needs:   []function.Need{function.Firestore, function.Monitoring},
		Handle:  func(ctx context.Context, _ function.Message) error { return collector.Collect(ctx) },
	}
}
