//go:build unix

package pubsubemu

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	defaultConcurrency = 64
	defaultGrace       = 10 * time.Second
)

// Subscription is one push subscription, as Terraform would make it.
type Subscription struct {
	// Topic, Name and DeadLetterTopic are ids without their project; an empty DeadLetterTopic means none.
	Topic, Name, DeadLetterTopic string
	// Endpoint is the URL that messages are posted to.
	Endpoint string
	// Audience of the token; empty means the endpoint, as in Cloud Pub/Sub.
	Audience string
	// MaxDeliveryAttempts before the dead letter, 5 to 100; 0 means 5.
	MaxDeliveryAttempts int
	// MinBackoff and MaxBackoff bound the wait before a redelivery, 0 to 600 s; both 0 means at once.
	MinBackoff, MaxBackoff time.Duration
	// AckDeadline is how long a request may take, at most 600 s; 0 means 10 s. Below 10 s, which Cloud Pub/Sub
	// refuses, it holds for the request only.
	AckDeadline time.Duration
}

// DispatcherOptions of StartDispatcher.
type DispatcherOptions struct {
	// Host is the emulator's address; Project owns the topics and subscriptions.
	Host, Project string
	Subscriptions []Subscription
	// Concurrency is the number of requests in flight a subscription; 0 means 64.
	Concurrency int
	// Token answers the OIDC token of a request for an audience; nil sends none.
	Token func(audience string) (string, error)
	// Observe, when given, is called after every push, from several goroutines.
	Observe func(Delivery)
	// Grace is how long Close waits for requests in flight before it cuts them off; 0 means 10 s.
	Grace time.Duration
}

// Delivery is one push and its outcome.
type Delivery struct {
	// Subscription is the id without the project.
	Subscription, MessageID string
	// Attempt counts from 1; 0 when the subscription has no dead letter topic: only then deliveries are counted.
	Attempt int
	// Status is the HTTP status, or 0 with Err when there was no answer.
	Status int
	Err    error
	// Acked is whether the message is done; otherwise it comes again.
	Acked bool
	Took  time.Duration
}

// Dispatcher pushes the messages of its subscriptions until it is closed.
type Dispatcher struct {
	options DispatcherOptions
	client  *pubsub.Client
	http    *http.Client
	// requests is the context of pushes in flight: pulling ends first, they are cut off only after the grace period.
	requests context.Context
	stop     context.CancelFunc // ends pulling
	cut      context.CancelFunc // ends requests
	done     chan struct{}      // closed when no subscription is pulled any more
	closing  sync.Once
	mu       sync.Mutex
	errs     []error
}

// StartDispatcher makes the topics and subscriptions in the emulator, or changes subscriptions that exist, and starts
// pushing. ctx bounds the preparation only.
func StartDispatcher(ctx context.Context, options DispatcherOptions) (*Dispatcher, error) {
	if options.Concurrency <= 0 {
		options.Concurrency = defaultConcurrency
	}
	if options.Grace <= 0 {
		options.Grace = defaultGrace
	}
	client, err := Client(ctx, options.Host, options.Project)
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{options: options, client: client, http: newHTTPClient(options.Concurrency),
		done: make(chan struct{})}
	if err := d.provision(ctx); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	pulling, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.requests, d.cut = context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, subscription := range options.Subscriptions {
		running.Go(func() { d.pull(pulling, subscription) })
	}
	go func() {
		running.Wait()
		close(d.done)
	}()
	return d, nil
}

// Client answers a Pub/Sub client of the emulator at host, without credentials. The caller closes it.
func Client(ctx context.Context, host, project string) (*pubsub.Client, error) {
	client, err := pubsub.NewClient(ctx, project,
		option.WithEndpoint(host), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return nil, fmt.Errorf("open a client of the pubsub emulator at %s: %w", host, err)
	}
	return client, nil
}

// Done is closed when nothing is pulled any more and no request is in flight: after Close, or because a subscription
// can't be pulled, for example when somebody deleted it. Then Close tells why.
func (d *Dispatcher) Done() <-chan struct{} { return d.done }

// Close stops pulling, waits for the requests in flight (cutting them off after the grace period; their messages are
// not acknowledged), and frees everything. It is safe to call again. The error is that of pulling which had failed.
func (d *Dispatcher) Close() error {
	d.closing.Do(func() {
		d.stop()
		timer := time.AfterFunc(d.options.Grace, d.cut)
		<-d.done
		timer.Stop()
		d.cut()
		d.http.CloseIdleConnections()
		d.fail(d.client.Close())
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.errs...)
}

func (d *Dispatcher) pull(ctx context.Context, subscription Subscription) {
	push := d.pusher(subscription)
	p := puller{
		client: d.client.SubscriptionAdminClient, subscription: d.subscriptionName(subscription.Name),
		slots: make(chan struct{}, d.options.Concurrency),
		handle: func(message *pubsubpb.ReceivedMessage) bool {
			// Not the context of pulling: requests in flight outlive it.
			delivery := push(d.requests, message)
			if d.options.Observe != nil {
				d.options.Observe(delivery)
			}
			return delivery.Acked
		},
	}
	if err := p.run(ctx); err != nil {
		d.fail(err)
		d.stop() // one subscription fewer would be hard to notice
	}
}

func (d *Dispatcher) fail(err error) {
	if err == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
}
