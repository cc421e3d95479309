package embedded

import (
	"container/list"
	"context"
	"strings"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The limits of acknowledgment deadlines, in seconds.
const (
	minDeadline = 10
	maxDeadline = 600
)

// CreateSubscription implements pubsubpb.SubscriberServer.
func (b *broker) CreateSubscription(_ context.Context, r *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.Count(r.GetName(), "/") != 3 {
		return nil, status.Errorf(codes.InvalidArgument, "name is %q: want projects/P/subscriptions/S", r.GetName())
	}
	if b.subscriptions[r.GetName()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "subscription %s exists", r.GetName())
	}
	if r.GetAckDeadlineSeconds() == 0 {
		r.AckDeadlineSeconds = minDeadline
	}
	if err := b.check(r); err != nil {
		return nil, err
	}
	b.subscriptions[r.GetName()] = &subscription{
		settings: r, messages: list.New(), byID: map[string]*list.Element{}, changed: make(chan struct{}),
	}
	return r, nil
}

// check checks the settings of a subscription. The caller holds the lock.
func (b *broker) check(r *pubsubpb.Subscription) error {
	if r.GetPushConfig().GetPushEndpoint() != "" {
		return status.Error(codes.Unimplemented,
			"the embedded Pub/Sub has no push: the dispatcher pulls, and pushes by itself")
	}
	if r.GetFilter() != "" || r.GetEnableMessageOrdering() || r.GetEnableExactlyOnceDelivery() {
		return status.Error(codes.Unimplemented,
			"the embedded Pub/Sub has no filters, order or exactly-once delivery: use the official emulator for them")
	}
	if n := r.GetAckDeadlineSeconds(); n < minDeadline || n > maxDeadline {
		return status.Errorf(codes.InvalidArgument, "ack_deadline_seconds is %d: want 10 to 600", n)
	}
	if _, err := b.topic(r.GetTopic()); err != nil {
		return err
	}
	policy := r.GetDeadLetterPolicy()
	if policy == nil {
		return nil
	}
	if n := policy.GetMaxDeliveryAttempts(); n < 5 || n > 100 {
		return status.Errorf(codes.InvalidArgument, "max_delivery_attempts is %d: want 5 to 100", n)
	}
	_, err := b.topic(policy.GetDeadLetterTopic())
	return err
}

// GetSubscription implements pubsubpb.SubscriberServer.
func (b *broker) GetSubscription(_ context.Context, r *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription,
	error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.subscription(r.GetSubscription())
	if err != nil {
		return nil, err
	}
	return s.settings, nil
}

// subscription returns a subscription. The caller holds the lock.
func (b *broker) subscription(name string) (*subscription, error) {
	s := b.subscriptions[name]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "subscription %q does not exist", name)
	}
	return s, nil
}

// UpdateSubscription implements pubsubpb.SubscriberServer.
func (b *broker) UpdateSubscription(_ context.Context, r *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription,
	error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := r.GetSubscription()
	s, err := b.subscription(wanted.GetName())
	if err != nil {
		return nil, err
	}
	settings := proto.CloneOf(s.settings) // responses have the old ones
	for _, path := range r.GetUpdateMask().GetPaths() {
		switch path {
		case "ack_deadline_seconds":
			settings.AckDeadlineSeconds = wanted.GetAckDeadlineSeconds()
		case "dead_letter_policy":
			settings.DeadLetterPolicy = wanted.GetDeadLetterPolicy()
		case "retry_policy":
			settings.RetryPolicy = wanted.GetRetryPolicy()
		default:
			return nil, status.Errorf(codes.Unimplemented, "the embedded Pub/Sub does not update %s", path)
		}
	}
	if err := b.check(settings); err != nil {
		return nil, err
	}
	s.settings = settings
	return settings, nil
}

// DeleteSubscription implements pubsubpb.SubscriberServer. Waiting pulls fail.
func (b *broker) DeleteSubscription(_ context.Context, r *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.subscription(r.GetSubscription())
	if err != nil {
		return nil, err
	}
	delete(b.subscriptions, r.GetSubscription())
	s.wakePulls()
	return &emptypb.Empty{}, nil
}
