package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/emulators/cloudrun"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/inprocess"
	"agents.example/controlplane/shared/function"
)

// serve serves every function of the catalogue, in this process or in separate ones behind a router.
func (c *Cloud) serve(ctx context.Context) error {
	var err error
	if c.env, err = c.environment(); err != nil {
		return err
	}
	if change := c.options.Environment; change != nil {
		if err := change(c.env); err != nil {
			return err
		}
	}
	err = dataplane.AdmitImages(ctx, c.Ready.Kubeconfig, dataplane.Images{
		Platform: c.env["PLATFORM_IMAGE"], Agent: c.env["AGENT_IMAGE"],
		Registries: strings.FieldsFunc(c.env["AGENT_REGISTRIES"], func(r rune) bool { return r == ',' }),
	})
	if err != nil {
		return err
	}
	if err := c.putCatalog(ctx); err != nil {
		return err
	}
	if c.options.Separate {
		return c.serveSeparately(ctx)
	}
	service, err := inprocess.Open(context.WithoutCancel(ctx), c.env,
		inprocess.Options{BillingClock: c.options.BillingClock})
	if err != nil {
		return err
	}
	c.closeLater(service.Close)
	return c.listen(function.NewServer(c.options.Wrap(service.Handler)))
}

// listen lets a server serve on the cloud's address until the cloud is closed.
func (c *Cloud) listen(server *http.Server) error {
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			c.died <- fmt.Errorf("serve the API: %w", err)
		}
	})
	c.closeLater(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		serving.Wait()
		return err
	})
	return nil
}

// maxDeliveryAttempts is as in terraform/topics.tf.
const maxDeliveryAttempts = 20

// pubsubHost is the variable with the address of Pub/Sub.
const pubsubHost = "PUBSUB_EMULATOR_HOST"

// waits are the waits of Pub/Sub after failures: before a message is delivered again, and before the next message of
// the subscription is delivered.
type waits struct{ minBackoff, maxBackoff, maxPushBackoff time.Duration }

// deliveryWaits returns the waits of a deployment, or shorter ones so that tests and demonstrations of failures take
// seconds instead of minutes. The push window is that of a deployment in both cases.
func (c *Cloud) deliveryWaits() waits {
	if c.options.ProductionDelivery {
		return waits{minBackoff: 10 * time.Second, maxBackoff: 600 * time.Second, maxPushBackoff: 60 * time.Second}
	}
	return waits{minBackoff: time.Second, maxBackoff: 10 * time.Second, maxPushBackoff: time.Second}
}

// startDispatcher pushes messages to the workers.
func (c *Cloud) startDispatcher(ctx context.Context) error {
	var subscriptions []pubsubemu.Subscription
	wait := c.deliveryWaits()
	for _, w := range functions.Workers(functions.Dependencies{}) {
		s := pubsubemu.Subscription{
			Topic: string(w.Topic), Name: w.Name, Endpoint: c.Ready.BaseURL + w.Path(), Audience: c.Ready.BaseURL,
			MinBackoff: wait.minBackoff, MaxBackoff: wait.maxBackoff, AckDeadline: cloudrun.WorkerTimeout(w),
		}
		if w.Topic == function.AgentNudges {
			s.DeadLetterTopic, s.MaxDeliveryAttempts = string(function.AgentNudgesDead), maxDeliveryAttempts
		}
		subscriptions = append(subscriptions, s)
	}
	d, err := pubsubemu.StartDispatcher(ctx, pubsubemu.DispatcherOptions{
		Host: c.env[pubsubHost], Project: c.Ready.ProjectID, Subscriptions: subscriptions,
		Observe: c.options.Deliveries, MaxPushBackoff: wait.maxPushBackoff,
		Token: func(audience string) (string, error) { return c.Issuer.Push(audience, pushAccount) },
		Grace: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	c.dispatcher = d
	c.closeLater(d.Close)
	return nil
}
