package cloud

import (
	"context"
	"fmt"
	"net/http"
	"strings"
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

// Tick pushes a message to a scheduled worker, as its schedule does, and returns the status of the worker's answer.
func (c *Cloud) Tick(ctx context.Context, worker string) (status int, err error) {
	token, err := c.Issuer.Push(c.env["PUSH_AUDIENCE"], c.env["PUSH_SERVICE_ACCOUNT"])
	if err != nil {
		return 0, err
	}
	body := fmt.Sprintf(`{"message": {"data": "e30=", "messageId": "tick", "publishTime": %q}}`,
		time.Now().UTC().Format(time.RFC3339))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Ready.BaseURL+"/workers/"+worker,
		strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
