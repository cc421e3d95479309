// Package embedded provides an in-process Pub/Sub server for machines without the official emulator. Google's client
// library connects to it.
//
// Topics, subscriptions, messages and leases come from Google's fake, pstest. This package adds what pull subscriptions
// of the official emulator have and pstest lacks: a pull that waits for messages, delivery counts per subscription,
// back-off, and dead letters. It does not implement push, which the Dispatcher of package pubsubemu does, nor streaming
// pull, nor storage. A message that is not pulled for ten minutes is dropped. It does not interpret messages.
package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/rpc"
)

// Server is a running Pub/Sub.
type Server struct {
	*rpc.Server
	broker *broker
	fake   *pstest.Server
	ended  sync.Once
	err    error
}

// Start serves a Pub/Sub without topics on a free port of 127.0.0.1. ctx only bounds the start.
func Start(ctx context.Context) (*Server, error) {
	fake := pstest.NewServerWithAddress("127.0.0.1:0") // its listener is not used
	b := &broker{GServer: &fake.GServer, subscriptions: map[string]*subscription{}, changed: make(chan struct{})}
	server, err := rpc.Start(ctx, "", func(r grpc.ServiceRegistrar) {
		pubsubpb.RegisterPublisherServer(r, b)
		pubsubpb.RegisterSubscriberServer(r, b)
	}, resourceOf)
	if err != nil {
		_ = fake.Close()
		return nil, fmt.Errorf("start the embedded Pub/Sub: %w", err)
	}
	return &Server{Server: server, broker: b, fake: fake}, nil
}

// Done returns nil, a channel that never becomes ready: the server lives as long as this process.
func (s *Server) Done() <-chan struct{} { return nil }

// Close stops the server and its calls, and waits until they have returned. It may be called again.
func (s *Server) Close() error {
	s.ended.Do(func() {
		s.err = s.Server.Close()
		s.broker.stop()
		if err := s.fake.Close(); s.err == nil {
			s.err = err
		}
		s.fake.Wait()
	})
	return s.err
}

// resourceOf returns the topic or subscription named in a request.
func resourceOf(request any) string {
	switch r := request.(type) {
	case interface{ GetTopic() string }:
		return r.GetTopic()
	case interface{ GetSubscription() string }:
		return r.GetSubscription()
	case interface{ GetName() string }:
		return r.GetName()
	default:
		return ""
	}
}

// broker extends pstest. All calls that touch messages go through it, one at a time, because pstest modifies messages
// that are in use.
type broker struct {
	*pstest.GServer

	mu            sync.Mutex
	subscriptions map[string]*subscription
	// changed is closed when there may be messages to pull.
	changed chan struct{}
	stopped bool
}

// subscription is the additional state of a subscription.
type subscription struct {
	deadLetter *pubsubpb.DeadLetterPolicy
	retry      *pubsubpb.RetryPolicy
	// deliveries maps the ids of unacknowledged messages to their deliveries.
	deliveries map[string]*delivery
}

// delivery is the number of deliveries of a message, and the newest one.
type delivery struct {
	attempts int32
	ackID    string
	message  *pubsubpb.PubsubMessage
	// wait, if set, ends the back-off.
	wait *time.Timer
}

// wakePulls makes pulls check for messages again. The caller holds the lock.
func (b *broker) wakePulls() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// stop ends all back-offs.
func (b *broker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for _, s := range b.subscriptions {
		for _, d := range s.deliveries {
			if d.wait != nil {
				d.wait.Stop()
			}
		}
	}
}

// Publish implements pubsubpb.PublisherServer.
func (b *broker) Publish(ctx context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wakePulls()
	return b.GServer.Publish(ctx, r)
}

// StreamingPull implements pubsubpb.SubscriberServer.
func (b *broker) StreamingPull(pubsubpb.Subscriber_StreamingPullServer) error {
	return status.Error(codes.Unimplemented,
		"the embedded Pub/Sub has no StreamingPull: use Pull, or the official emulator")
}
