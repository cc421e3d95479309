// Package embedded is a Pub/Sub in this process, for machines without the official emulator. Google's client library
// talks to it.
//
// Topics, subscriptions, messages and leases are those of Google's own fake, pstest. This package adds what that lacks
// and a pull subscription of the official emulator has: a pull that waits for a message, deliveries counted for every
// subscription by itself, back-off between them, and dead letters. It has no push, as nobody uses the official one's,
// no streaming pull, and no storage. A message that nobody has pulled for ten minutes is dropped.
//
// It does not know what messages mean, nor who pushes them on.
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

// Start serves a Pub/Sub without topics on a free port of 127.0.0.1. ctx bounds the start only.
func Start(ctx context.Context) (*Server, error) {
	fake := pstest.NewServerWithAddress("127.0.0.1:0") // it serves there, too, but nobody is told
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

// Done is nil, and so never ready: the server ends with this process.
func (s *Server) Done() <-chan struct{} { return nil }

// Close ends the server and its calls, and waits until they have returned. It is safe to call again.
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

// resourceOf names the topic or the subscription that a request is about.
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

// broker is pstest with what it lacks. Whatever touches messages goes through here, one call at a time, because
// pstest's messages change while they are in use.
type broker struct {
	*pstest.GServer

	mu            sync.Mutex
	subscriptions map[string]*subscription
	// changed is closed when there may be something to pull.
	changed chan struct{}
	stopped bool
}

// subscription is what is known of a subscription beside what pstest knows.
type subscription struct {
	deadLetter *pubsubpb.DeadLetterPolicy
	retry      *pubsubpb.RetryPolicy
	// deliveries are those of the messages that are not done, by their ids.
	deliveries map[string]*delivery
}

// delivery is how often a message was delivered, and the newest delivery.
type delivery struct {
	attempts int32
	ackID    string
	message  *pubsubpb.PubsubMessage
	// wait, when there is one, ends the back-off.
	wait *time.Timer
}

// wake lets pulls look again. It is called with the lock held.
func (b *broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// stop ends the waits.
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
	defer b.wake()
	return b.GServer.Publish(ctx, r)
}

// StreamingPull implements pubsubpb.SubscriberServer.
func (b *broker) StreamingPull(pubsubpb.Subscriber_StreamingPullServer) error {
	return status.Error(codes.Unimplemented,
		"the embedded Pub/Sub has no StreamingPull: use Pull, or the official emulator")
}
