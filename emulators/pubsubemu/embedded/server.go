// Package embedded provides an in-process Pub/Sub server for machines without the official emulator. Google's client
// library connects to it.
//
// It has what pull subscriptions of the official emulator have: a pull that waits for messages, leases, delivery counts
// per subscription, back-off, and dead letters. It does not implement push, which the Dispatcher of package pubsubemu
// does, nor streaming pull, nor storage. A message stays until it is acknowledged. It does not interpret messages.
package embedded

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"agents.example/controlplane/emulators/rpc"
)

// Server is a running Pub/Sub.
type Server struct{ *rpc.Server }

// Start serves a Pub/Sub without topics on a free port of 127.0.0.1. ctx only bounds the start.
func Start(ctx context.Context) (*Server, error) {
	b := newBroker()
	server, err := rpc.Start(ctx, "", func(r grpc.ServiceRegistrar) {
		pubsubpb.RegisterPublisherServer(r, b)
		pubsubpb.RegisterSubscriberServer(r, b)
	}, resourceOf)
	if err != nil {
		return nil, fmt.Errorf("start the embedded Pub/Sub: %w", err)
	}
	return &Server{server}, nil
}

// Done returns nil, a channel that never becomes ready: the server lives as long as this process.
func (s *Server) Done() <-chan struct{} { return nil }

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

// broker has all topics and subscriptions. Methods that it does not implement fail with Unimplemented.
type broker struct {
	pubsubpb.UnimplementedPublisherServer
	pubsubpb.UnimplementedSubscriberServer

	mu            sync.Mutex
	topics        map[string]*pubsubpb.Topic
	subscriptions map[string]*subscription
	published     int
}

func newBroker() *broker {
	return &broker{topics: map[string]*pubsubpb.Topic{}, subscriptions: map[string]*subscription{}}
}

// subscription is one with its messages.
type subscription struct {
	settings *pubsubpb.Subscription
	// messages are of type *message, in the order of their publication; byID has their elements.
	messages *list.List
	byID     map[string]*list.Element
	// changed is closed when there may be messages to pull.
	changed chan struct{}
}

// message is an unacknowledged message of a subscription.
type message struct {
	*pubsubpb.PubsubMessage
	attempts int32
	// ackID is that of the newest delivery.
	ackID string
	// until is when the lease or the back-off ends; before the first delivery it is zero.
	until time.Time
}

// wakePulls makes pulls check for messages again. The caller holds the lock.
func (s *subscription) wakePulls() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// CreateTopic implements pubsubpb.PublisherServer.
func (b *broker) CreateTopic(_ context.Context, r *pubsubpb.Topic) (*pubsubpb.Topic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.topics[r.GetName()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "topic %s exists", r.GetName())
	}
	b.topics[r.GetName()] = r
	return r, nil
}

// GetTopic implements pubsubpb.PublisherServer.
func (b *broker) GetTopic(_ context.Context, r *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topic(r.GetTopic())
}

// topic returns a topic. The caller holds the lock.
func (b *broker) topic(name string) (*pubsubpb.Topic, error) {
	topic := b.topics[name]
	if topic == nil {
		return nil, status.Errorf(codes.NotFound, "topic %q does not exist", name)
	}
	return topic, nil
}

// Publish implements pubsubpb.PublisherServer.
func (b *broker) Publish(_ context.Context, r *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.topic(r.GetTopic()); err != nil {
		return nil, err
	}
	for _, m := range r.GetMessages() {
		if err := checkAttributes(m.GetAttributes()); err != nil {
			return nil, err
		}
	}
	ids := make([]string, 0, len(r.GetMessages()))
	for _, m := range r.GetMessages() {
		ids = append(ids, b.publish(r.GetTopic(), m))
	}
	return &pubsubpb.PublishResponse{MessageIds: ids}, nil
}

// checkAttributes enforces the quotas of https://cloud.google.com/pubsub/quotas#resource_limits.
func checkAttributes(attributes map[string]string) error {
	const maxAttributes, maxKey, maxValue = 100, 256, 1024
	if n := len(attributes); n > maxAttributes {
		return status.Errorf(codes.InvalidArgument, "the message has %d attributes: want %d at most", n, maxAttributes)
	}
	for key, value := range attributes {
		if len(key) > maxKey || len(value) > maxValue {
			return status.Errorf(codes.InvalidArgument,
				"attribute %.20q has a key of %d bytes and a value of %d bytes: want %d and %d at most",
				key, len(key), len(value), maxKey, maxValue)
		}
	}
	return nil
}

// publish adds a message to all subscriptions of a topic. None of them changes it. The caller holds the lock.
func (b *broker) publish(topic string, m *pubsubpb.PubsubMessage) (id string) {
	b.published++
	m.MessageId, m.PublishTime = strconv.Itoa(b.published), timestamppb.Now()
	for _, s := range b.subscriptions {
		if s.settings.GetTopic() == topic {
			s.byID[m.GetMessageId()] = s.messages.PushBack(&message{PubsubMessage: m})
			s.wakePulls()
		}
	}
	return m.GetMessageId()
}

// StreamingPull implements pubsubpb.SubscriberServer.
func (b *broker) StreamingPull(pubsubpb.Subscriber_StreamingPullServer) error {
	return status.Error(codes.Unimplemented,
		"the embedded Pub/Sub has no StreamingPull: use Pull, or the official emulator")
}
