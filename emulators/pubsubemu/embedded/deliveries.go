package embedded

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// pullWait is how long a pull waits for a message before it answers none.
	pullWait = 30 * time.Second
	// leaseCheck is how soon a message is found whose lease has ended. Everything else that a pull waits for wakes it.
	leaseCheck = time.Second
	// hold is the lease of a message that waits for its back-off to end. It is the longest that Pub/Sub gives, as is
	// the back-off.
	hold = 600
)

// Pull implements pubsubpb.SubscriberServer.
func (b *broker) Pull(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	end := time.NewTimer(pullWait)
	defer end.Stop()
	check := time.NewTicker(leaseCheck)
	defer check.Stop()
	for {
		messages, changed, err := b.pull(ctx, r)
		if err != nil || len(messages) > 0 || r.GetReturnImmediately() { //nolint:staticcheck // deprecated, and asked for all the same
			return &pubsubpb.PullResponse{ReceivedMessages: messages}, err
		}
		select {
		case <-changed:
		case <-check.C:
		case <-end.C:
			return &pubsubpb.PullResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// pull takes the messages that there are. changed is closed when there may be more.
func (b *broker) pull(ctx context.Context, r *pubsubpb.PullRequest) (messages []*pubsubpb.ReceivedMessage,
	changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	response, err := b.GServer.Pull(ctx, &pubsubpb.PullRequest{
		Subscription: r.GetSubscription(), MaxMessages: r.GetMaxMessages(), ReturnImmediately: true, //nolint:staticcheck // the wait is ours
	})
	if err != nil {
		return nil, nil, err
	}
	s := b.subscriptions[r.GetSubscription()]
	for _, m := range response.GetReceivedMessages() {
		m = proto.CloneOf(m)
		d := s.deliveries[m.GetMessage().GetMessageId()]
		if d == nil {
			d = &delivery{message: m.GetMessage()}
			s.deliveries[m.GetMessage().GetMessageId()] = d
		}
		d.ackID = m.GetAckId()
		if s.spent(d) { // its last lease has ended without an answer
			b.bury(ctx, r.GetSubscription(), s, d)
			continue
		}
		d.attempts++
		if s.deadLetter != nil {
			m.DeliveryAttempt = d.attempts
		}
		messages = append(messages, m)
	}
	return messages, b.changed, nil
}

// Acknowledge implements pubsubpb.SubscriberServer. What was delivered again since is not acknowledged.
func (b *broker) Acknowledge(ctx context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ackID := range r.GetAckIds() {
		if s, d := b.newest(r.GetSubscription(), ackID); d != nil {
			delete(s.deliveries, d.message.GetMessageId())
		}
	}
	return b.GServer.Acknowledge(ctx, r)
}

// ModifyAckDeadline implements pubsubpb.SubscriberServer. A deadline of 0 gives messages back: they come again after
// their back-off, or become dead letters.
func (b *broker) ModifyAckDeadline(ctx context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.GetAckDeadlineSeconds() > 0 {
		return b.GServer.ModifyAckDeadline(ctx, r)
	}
	defer b.wake()
	for _, ackID := range r.GetAckIds() {
		s, d := b.newest(r.GetSubscription(), ackID)
		if d == nil {
			continue
		}
		switch wait := s.backoff(d.attempts); {
		case s.spent(d):
			b.bury(ctx, r.GetSubscription(), s, d)
		case wait <= 0:
			b.lease(ctx, r.GetSubscription(), ackID, 0)
		default:
			b.lease(ctx, r.GetSubscription(), ackID, hold)
			d.wait = time.AfterFunc(wait, func() { b.release(r.GetSubscription(), ackID) })
		}
	}
	return &emptypb.Empty{}, nil
}

// release ends the back-off of a message.
func (b *broker) release(subscription, ackID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	b.lease(context.Background(), subscription, ackID, 0)
	b.wake()
}

// The rest is called with the lock held.

// newest finds the delivery that an acknowledgement is about, if that is the newest of its message.
func (b *broker) newest(name, ackID string) (*subscription, *delivery) {
	s := b.subscriptions[name]
	if s == nil {
		return nil, nil
	}
	id, _, _ := strings.Cut(ackID, ":")
	if d := s.deliveries[id]; d != nil && d.ackID == ackID {
		return s, d
	}
	return s, nil
}

// lease has pstest lease a message for so many seconds from now; 0 gives it back. Nothing can go wrong with a
// subscription that is there, and with one that is not, nothing is to be done.
func (b *broker) lease(ctx context.Context, subscription, ackID string, seconds int32) {
	_, _ = b.GServer.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: subscription, AckIds: []string{ackID}, AckDeadlineSeconds: seconds,
	})
}

// spent reports whether a message has had all its deliveries.
func (s *subscription) spent(d *delivery) bool {
	return s.deadLetter != nil && d.attempts >= s.deadLetter.GetMaxDeliveryAttempts()
}

// backoff is the wait after so many deliveries: it doubles from the least to the most.
func (s *subscription) backoff(attempts int32) time.Duration {
	if s.retry == nil {
		return 0
	}
	least, most := s.retry.GetMinimumBackoff().AsDuration(), s.retry.GetMaximumBackoff().AsDuration()
	return min(least<<min(max(attempts-1, 0), 16), most)
}

// bury publishes a message to the dead letter topic, with what Cloud Pub/Sub adds to it, and is done with it.
func (b *broker) bury(ctx context.Context, name string, s *subscription, d *delivery) {
	dead := proto.CloneOf(d.message)
	dead.Attributes = maps.Clone(dead.GetAttributes())
	if dead.Attributes == nil {
		dead.Attributes = map[string]string{}
	}
	parts := strings.Split(name, "/") // projects/P/subscriptions/S
	dead.Attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = strconv.Itoa(int(d.attempts))
	dead.Attributes["CloudPubSubDeadLetterSourceSubscription"] = parts[3]
	dead.Attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = parts[1]
	dead.Attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = dead.GetPublishTime().AsTime().Format(time.RFC3339Nano)
	topic := s.deadLetter.GetDeadLetterTopic()
	if _, err := b.GServer.Publish(ctx,
		&pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{dead}}); err != nil {
		return // without its topic it stays, as in Cloud Pub/Sub
	}
	_, _ = b.GServer.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: name, AckIds: []string{d.ackID}})
	delete(s.deliveries, d.message.GetMessageId())
	b.wake()
}
