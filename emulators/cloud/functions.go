package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/emulators/pubsub"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/entrypoint/cells"
	"agents.example/controlplane/functions/entrypoint/config"
	"agents.example/controlplane/functions/entrypoint/open"
	"agents.example/controlplane/functions/entrypoint/providers"
	"agents.example/controlplane/shared/function"
)

// serve serves the catalogue: in this process, or as separate processes behind a router.
func (c *Cloud) serve(ctx context.Context) error {
	env, err := c.environment()
	if err != nil {
		return err
	}
	if c.options.Separate {
		return c.serveSeparately(ctx, env)
	}
	worker, err := config.Read[config.Worker](ctx, envconfig.MapLookuper(env))
	if err != nil {
		return err
	}
	accounts, err := config.Read[config.Providers](ctx, envconfig.MapLookuper(env))
	if err != nil {
		return err
	}
	openers, known := cells.Opener(worker), providers.Of(worker.Common, accounts)
	openers.Payments, openers.Members, openers.BillingClock = known.Payments, known.Members, c.options.BillingClock
	service, err := open.All(context.WithoutCancel(ctx), worker, openers)
	if err != nil {
		return err
	}
	c.closeLater(service.Close)
	return c.listen(service.Handler)
}

// listen serves a handler on the cloud's own address until the cloud is closed.
func (c *Cloud) listen(h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			c.died <- fmt.Errorf("serve the API: %w", err)
		}
	})
	c.closeLater(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

// How Pub/Sub delivers here: quicker than in production, where a retry begins at ten seconds.
const (
	minBackoff          = time.Second
	maxBackoff          = 10 * time.Second
	maxDeliveryAttempts = 20
	ackDeadline         = 600 * time.Second
)

// startDispatcher has every worker's messages pushed to it.
func (c *Cloud) startDispatcher(ctx context.Context) error {
	var subscriptions []pubsub.Subscription
	for _, w := range functions.Workers(functions.Dependencies{}) {
		s := pubsub.Subscription{
			Topic: string(w.Topic), Name: w.Name, Endpoint: c.Ready.BaseURL + w.Path(), Audience: c.Ready.BaseURL,
			MinBackoff: minBackoff, MaxBackoff: maxBackoff, AckDeadline: ackDeadline,
		}
		if w.Topic == function.AgentNudges {
			s.DeadLetterTopic, s.MaxDeliveryAttempts = string(function.AgentNudgesDead), maxDeliveryAttempts
		}
		subscriptions = append(subscriptions, s)
	}
	d, err := pubsub.StartDispatcher(ctx, pubsub.DispatcherOptions{
		Host: c.Ready.PubSubEmulatorHost, Project: c.Ready.ProjectID, Subscriptions: subscriptions, Observe: c.options.Deliveries,
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
