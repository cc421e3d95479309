package embedded

import (
	"context"
	"slices"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// The subscription fields that pstest does not get.
const (
	deadLetterField = "dead_letter_policy"
	retryField      = "retry_policy"
)

// CreateSubscription implements pubsubpb.SubscriberServer. pstest gets no policies, because it counts deliveries for
// all subscriptions together.
func (b *broker) CreateSubscription(ctx context.Context, r *pubsubpb.Subscription) (*pubsubpb.Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkPolicies(ctx, r); err != nil {
		return nil, err
	}
	bare := proto.CloneOf(r)
	bare.DeadLetterPolicy, bare.RetryPolicy = nil, nil
	made, err := b.GServer.CreateSubscription(ctx, bare)
	if err != nil {
		return nil, err
	}
	s := &subscription{
		deadLetter: r.GetDeadLetterPolicy(), retry: r.GetRetryPolicy(),
		deliveries: map[string]*delivery{},
	}
	b.subscriptions[r.GetName()] = s
	return s.withPolicies(made), nil
}

// checkPolicies checks the policies of a subscription.
func (b *broker) checkPolicies(ctx context.Context, r *pubsubpb.Subscription) error {
	if r.GetPushConfig().GetPushEndpoint() != "" {
		return status.Error(codes.Unimplemented,
			"the embedded Pub/Sub has no push: the dispatcher pulls, and pushes by itself")
	}
	if r.GetFilter() != "" || r.GetEnableMessageOrdering() || r.GetEnableExactlyOnceDelivery() {
		return status.Error(codes.Unimplemented,
			"the embedded Pub/Sub has no filters, order or exactly-once delivery: use the official emulator for them")
	}
	policy := r.GetDeadLetterPolicy()
	if policy == nil {
		return nil
	}
	if n := policy.GetMaxDeliveryAttempts(); n < 5 || n > 100 {
		return status.Errorf(codes.InvalidArgument, "max_delivery_attempts is %d: want 5 to 100", n)
	}
	_, err := b.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: policy.GetDeadLetterTopic()})
	return err
}

// GetSubscription implements pubsubpb.SubscriberServer.
func (b *broker) GetSubscription(ctx context.Context, r *pubsubpb.GetSubscriptionRequest) (*pubsubpb.Subscription,
	error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, err := b.GServer.GetSubscription(ctx, r)
	if err != nil {
		return nil, err
	}
	return b.subscriptions[r.GetSubscription()].withPolicies(found), nil
}

// UpdateSubscription implements pubsubpb.SubscriberServer.
func (b *broker) UpdateSubscription(ctx context.Context, r *pubsubpb.UpdateSubscriptionRequest) (*pubsubpb.Subscription,
	error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkPolicies(ctx, r.GetSubscription()); err != nil {
		return nil, err
	}
	paths := r.GetUpdateMask().GetPaths()
	kept := func(path string) bool { return path == deadLetterField || path == retryField }
	updated, err := b.GServer.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: proto.CloneOf(r.GetSubscription()),
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: slices.DeleteFunc(slices.Clone(paths), kept)},
	})
	if err != nil {
		return nil, err
	}
	s := b.subscriptions[r.GetSubscription().GetName()]
	if slices.Contains(paths, deadLetterField) {
		s.deadLetter = r.GetSubscription().GetDeadLetterPolicy()
	}
	if slices.Contains(paths, retryField) {
		s.retry = r.GetSubscription().GetRetryPolicy()
	}
	return s.withPolicies(updated), nil
}

// DeleteSubscription implements pubsubpb.SubscriberServer. Waiting pulls fail.
func (b *broker) DeleteSubscription(ctx context.Context, r *pubsubpb.DeleteSubscriptionRequest) (*emptypb.Empty,
	error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.wakePulls()
	delete(b.subscriptions, r.GetSubscription())
	return b.GServer.DeleteSubscription(ctx, r)
}

// ListSubscriptions implements pubsubpb.SubscriberServer.
func (b *broker) ListSubscriptions(context.Context,
	*pubsubpb.ListSubscriptionsRequest,
) (*pubsubpb.ListSubscriptionsResponse, error) {
	return nil, status.Error(codes.Unimplemented,
		"the embedded Pub/Sub has no ListSubscriptions: use the official emulator for it")
}

// withPolicies returns a subscription of pstest with its policies.
func (s *subscription) withPolicies(bare *pubsubpb.Subscription) *pubsubpb.Subscription {
	whole := proto.CloneOf(bare)
	whole.DeadLetterPolicy, whole.RetryPolicy = s.deadLetter, s.retry
	return whole
}
