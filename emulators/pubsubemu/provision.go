//go:build unix

package pubsubemu

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	defaultAckDeadline = 10 * time.Second
	minAckDeadline     = 10 * time.Second // Pub/Sub's limits
	maxAckDeadline     = 600 * time.Second
	// leaseMargin is added to the deadline of a request, so that the emulator does not redeliver a message whose
	// request is about to time out.
	leaseMargin     = 5 * time.Second
	defaultAttempts = 5
)

// provision creates all topics before any subscription, because a subscription may name another one's topic for dead
// letters.
func (d *Dispatcher) provision(ctx context.Context) error {
	for _, subscription := range d.options.Subscriptions {
		for _, topic := range []string{subscription.Topic, subscription.DeadLetterTopic} {
			if topic == "" {
				continue
			}
			if err := d.ensureTopic(ctx, topic); err != nil {
				return fmt.Errorf("create topic %s: %w", topic, err)
			}
		}
	}
	for _, subscription := range d.options.Subscriptions {
		if err := d.ensureSubscription(ctx, subscription); err != nil {
			return fmt.Errorf("create subscription %s of topic %s: %w", subscription.Name, subscription.Topic, err)
		}
	}
	return nil
}

func (d *Dispatcher) ensureTopic(ctx context.Context, topic string) error {
	_, err := d.client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: d.topicName(topic)})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return err
}

func (d *Dispatcher) ensureSubscription(ctx context.Context, subscription Subscription) error {
	wanted := d.subscription(subscription)
	admin := d.client.SubscriptionAdminClient
	_, err := admin.CreateSubscription(ctx, wanted)
	if status.Code(err) != codes.AlreadyExists {
		return err
	}
	_, err = admin.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: wanted,
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{
			"ack_deadline_seconds", "retry_policy",
			"dead_letter_policy",
		}},
	})
	return err
}

// subscription returns a pull subscription, because the dispatcher does the pushing.
func (d *Dispatcher) subscription(s Subscription) *pubsubpb.Subscription {
	wanted := &pubsubpb.Subscription{
		Name:               d.subscriptionName(s.Name),
		Topic:              d.topicName(s.Topic),
		AckDeadlineSeconds: int32(s.lease() / time.Second),
	}
	if s.MinBackoff > 0 || s.MaxBackoff > 0 {
		wanted.RetryPolicy = &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(s.MinBackoff),
			MaximumBackoff: durationpb.New(max(s.MinBackoff, s.MaxBackoff)),
		}
	}
	if s.DeadLetterTopic != "" {
		attempts := s.MaxDeliveryAttempts
		if attempts == 0 {
			attempts = defaultAttempts
		}
		wanted.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{
			DeadLetterTopic: d.topicName(s.DeadLetterTopic), MaxDeliveryAttempts: int32(attempts),
		}
	}
	return wanted
}

func (s Subscription) deadline() time.Duration {
	if s.AckDeadline <= 0 {
		return defaultAckDeadline
	}
	return s.AckDeadline
}

func (s Subscription) lease() time.Duration {
	return min(max(s.deadline()+leaseMargin, minAckDeadline), maxAckDeadline)
}

func (d *Dispatcher) topicName(topic string) string {
	return fmt.Sprintf("projects/%s/topics/%s", d.options.Project, topic)
}

func (d *Dispatcher) subscriptionName(name string) string {
	return fmt.Sprintf("projects/%s/subscriptions/%s", d.options.Project, name)
}
