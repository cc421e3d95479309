package cloud

import (
	"context"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/functions"
)

// tick is the interval of all schedules. In production Cloud Scheduler follows the cron expression of each.
const tick = 10 * time.Second

// startScheduler publishes to the topics of scheduled workers, as Cloud Scheduler does. It leaves out the tick of a
// worker that runs: a slow machine would have ever more runs concurrently.
func (c *Cloud) startScheduler(ctx context.Context) error {
	if c.options.NoSchedule {
		return nil
	}
	client, err := pubsubemu.Client(ctx, c.env[pubsubHost], c.Ready.ProjectID)
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	var ticking sync.WaitGroup
	for _, w := range functions.Workers(functions.Dependencies{}) {
		if w.Schedule == "" {
			continue
		}
		ticking.Go(func() {
			t := time.NewTicker(tick)
			defer t.Stop()
			for {
				select {
				case <-run.Done():
					return
				case <-t.C:
				}
				if c.dispatcher.Pushing(w.Name) {
					continue
				}
				// After a lost tick, the next one does its work.
				_, _ = client.TopicAdminClient.Publish(run, &pubsubpb.PublishRequest{
					Topic:    "projects/" + c.Ready.ProjectID + "/topics/" + string(w.Topic),
					Messages: []*pubsubpb.PubsubMessage{{Data: []byte("{}")}},
				})
			}
		})
	}
	c.closeLater(func() error {
		stop()
		ticking.Wait()
		return client.Close()
	})
	return nil
}
