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

// Subscription is a push subscription, with the settings that Terraform would give it.
type Subscription struct {
	// Topic, Name and DeadLetterTopic are ids without the project. DeadLetterTopic may be empty.
	Topic, Name, DeadLetterTopic string
	// Endpoint is the URL that receives the messages.
	Endpoint string
	// Audience of the token. If empty, it is the endpoint, as in Cloud Pub/Sub.
	Audience string
	// MaxDeliveryAttempts is the number of deliveries before the dead letter, 5 to 100. 0 means 5.
	MaxDeliveryAttempts int
	// MinBackoff and MaxBackoff bound the wait before a redelivery, 0 to 600 s. If both are 0, it is immediate.
	MinBackoff, MaxBackoff time.Duration
	// AckDeadline bounds a request, at most 600 s. 0 means 10 s. Cloud Pub/Sub refuses less than 10 s; here a smaller
	// value only bounds the request.
	AckDeadline time.Duration
}

// DispatcherOptions configure StartDispatcher.
type DispatcherOptions struct {
	// Host is the emulator's address; Project owns the topics and subscriptions.
	Host, Project string
	Subscriptions []Subscription
	// Concurrency is the maximum number of concurrent requests per subscription. 0 means 64.
	Concurrency int
	// InitialWindow is the number of concurrent requests with which a subscription begins. Acknowledgements raise the
	// number and failures lower it, as in Cloud Pub/Sub. 0 means 5.
	InitialWindow int
	// MaxPushBackoff is the longest pause of a subscription, with all of its messages, after negative acknowledgements.
	// 0 means 60 s, as in Cloud Pub/Sub.
	MaxPushBackoff time.Duration
	// Token returns an OIDC token for an audience. If nil, requests have no token.
	Token func(audience string) (string, error)
	// Observe, if set, is called after every push, concurrently.
	Observe func(Delivery)
	// Grace is how long Close waits for requests in flight before it cancels them. 0 means 10 s.
	Grace time.Duration
}

// Delivery is one push and its outcome.
type Delivery struct {
	// Subscription is the id without the project.
	Subscription, MessageID string
	// Attempt counts from 1. It is 0 if the subscription has no dead letter topic, since only then Pub/Sub counts.
	Attempt int
	// Status is the HTTP status, or 0 with Err if there was no response.
	Status int
	Err    error
	// Acked reports whether the message was acknowledged. Otherwise it is redelivered.
	Acked bool
	Took  time.Duration
}

// Dispatcher pushes the messages of its subscriptions until Close.
type Dispatcher struct {
	options DispatcherOptions
	client  *pubsub.Client
	http    *http.Client
	// requests is the context of pushes in flight. Pulling ends first; pushes are canceled after the grace period.
	requests context.Context
	stop     context.CancelFunc // stops pulling
	cut      context.CancelFunc // cancels requests
	done     chan struct{}      // closed when all pulling has ended
	closing  sync.Once
	mu       sync.Mutex
	errs     []error
	// pushing counts the requests in flight by subscription.
	pushing map[string]int
}

// Pushing reports whether a request of a subscription is in flight.
func (d *Dispatcher) Pushing(subscription string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pushing[subscription] > 0
}

func (d *Dispatcher) count(subscription string, change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pushing[subscription] += change
}

// StartDispatcher creates the topics and subscriptions in the emulator, updates existing subscriptions, and starts
// pushing. ctx only bounds the setup.
func StartDispatcher(ctx context.Context, options DispatcherOptions) (*Dispatcher, error) {
	if options.Concurrency <= 0 {
		options.Concurrency = defaultConcurrency
	}
	if options.InitialWindow <= 0 {
		options.InitialWindow = defaultInitialWindow
	}
	if options.MaxPushBackoff <= 0 {
		options.MaxPushBackoff = maxPushBackoff
	}
	if options.Grace <= 0 {
		options.Grace = defaultGrace
	}
	client, err := Client(ctx, options.Host, options.Project)
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{
		options: options, client: client, http: newHTTPClient(options.Concurrency),
		done: make(chan struct{}), pushing: map[string]int{},
	}
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

// Client returns a Pub/Sub client for the emulator at host, without credentials. The caller closes it.
func Client(ctx context.Context, host, project string) (*pubsub.Client, error) {
	client, err := pubsub.NewClient(ctx, project,
		option.WithEndpoint(host), option.WithoutAuthentication(), option.WithTelemetryDisabled(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		return nil, fmt.Errorf("open a client of the pubsub emulator at %s: %w", host, err)
	}
	return client, nil
}

// Done is closed when pulling has ended and no request is in flight: after Close, or when a subscription can no longer
// be pulled, for example because it was deleted. Close then returns the reason.
func (d *Dispatcher) Done() <-chan struct{} { return d.done }

// Close stops pulling, waits for requests in flight, and releases all resources. After the grace period it cancels the
// requests; their messages are not acknowledged. Close may be called again. It returns the error that ended pulling, if
// any.
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
		lease:  subscription.lease(),
		window: newWindow(d.options.InitialWindow, d.options.Concurrency, d.options.MaxPushBackoff),
		handle: func(message *pubsubpb.ReceivedMessage) bool {
			d.count(subscription.Name, 1)
			defer d.count(subscription.Name, -1)
			// Requests in flight outlive the context of pulling.
			delivery := push(d.requests, message)
			if d.options.Observe != nil {
				d.options.Observe(delivery)
			}
			return delivery.Acked
		},
	}
	if err := p.run(ctx); err != nil {
		d.fail(err)
		d.stop() // a single missing subscription would be hard to notice
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
