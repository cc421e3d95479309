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
	// pullWait is how long a pull waits for a message before it returns none.
	pullWait = 30 * time.Second
	// leaseCheck is the interval for finding messages with an expired lease. All other events wake a pull.
	leaseCheck = time.Second
	// backoffLease is the lease in seconds of a message during its back-off: the maximum of Pub/Sub, for leases as for
	// back-offs.
	backoffLease = 600
)

// Pull implements pubsubpb.SubscriberServer.
func (b *broker) Pull(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	end := time.NewTimer(pullWait)
	defer end.Stop()
	check := time.NewTicker(leaseCheck)
	defer check.Stop()
	for {
		messages, changed, err := b.pull(ctx, r)
		if err != nil || len(messages) > 0 || r.GetReturnImmediately() { //nolint:staticcheck // still in use
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

// pull returns the available messages. changed is closed when there may be more.
func (b *broker) pull(ctx context.Context, r *pubsubpb.PullRequest) (messages []*pubsubpb.ReceivedMessage,
	changed <-chan struct{}, err error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	response, err := b.GServer.Pull(ctx, &pubsubpb.PullRequest{
		Subscription: r.GetSubscription(), MaxMessages: r.GetMaxMessages(),
		ReturnImmediately: true, //nolint:staticcheck // Pull does the waiting
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
		if s.isOutOfAttempts(d) { // its last lease expired
			b.moveToDeadLetter(ctx, r.GetSubscription(), s, d)
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

// Acknowledge implements pubsubpb.SubscriberServer. It ignores messages that have been redelivered since.
func (b *broker) Acknowledge(ctx context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ackID := range r.GetAckIds() {
		if s, d := b.newestDelivery(r.GetSubscription(), ackID); d != nil {
			delete(s.deliveries, d.message.GetMessageId())
		}
	}
	return b.GServer.Acknowledge(ctx, r)
}

// ModifyAckDeadline implements pubsubpb.SubscriberServer. A deadline of 0 returns messages: they are redelivered after
// their back-off, or become dead letters.
func (b *broker) ModifyAckDeadline(ctx context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.GetAckDeadlineSeconds() > 0 {
		return b.GServer.ModifyAckDeadline(ctx, r)
	}
	defer b.wakePulls()
	for _, ackID := range r.GetAckIds() {
		s, d := b.newestDelivery(r.GetSubscription(), ackID)
		if d == nil {
			continue
		}
		switch wait := s.backoff(d.attempts); {
		case s.isOutOfAttempts(d):
			b.moveToDeadLetter(ctx, r.GetSubscription(), s, d)
		case wait <= 0:
			b.setLease(ctx, r.GetSubscription(), ackID, 0)
		default:
			b.setLease(ctx, r.GetSubscription(), ackID, backoffLease)
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
	b.setLease(context.Background(), subscription, ackID, 0)
	b.wakePulls()
}

// The caller holds the lock in all functions below.

// newestDelivery returns the delivery with an ack id, if it is the newest of its message.
func (b *broker) newestDelivery(name, ackID string) (*subscription, *delivery) {
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

// setLease extends the lease of a message in pstest to a number of seconds from now; 0 returns the message. pstest only
// fails for an unknown subscription, for which there is nothing to do.
func (b *broker) setLease(ctx context.Context, subscription, ackID string, seconds int32) {
	_, _ = b.GServer.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
		Subscription: subscription, AckIds: []string{ackID}, AckDeadlineSeconds: seconds,
	})
}

// isOutOfAttempts reports whether a message has used all its delivery attempts.
func (s *subscription) isOutOfAttempts(d *delivery) bool {
	return s.deadLetter != nil && d.attempts >= s.deadLetter.GetMaxDeliveryAttempts()
}

// backoff returns the wait after a number of deliveries. It doubles from the minimum to the maximum.
func (s *subscription) backoff(attempts int32) time.Duration {
	if s.retry == nil {
		return 0
	}
	least, most := s.retry.GetMinimumBackoff().AsDuration(), s.retry.GetMaximumBackoff().AsDuration()
	return min(least<<min(max(attempts-1, 0), 16), most)
}

// moveToDeadLetter moves a message to the dead letter topic, with the attributes that Cloud Pub/Sub adds.
func (b *broker) moveToDeadLetter(ctx context.Context, name string, s *subscription, d *delivery) {
	dead := proto.CloneOf(d.message)
	dead.Attributes = maps.Clone(dead.GetAttributes())
	if dead.Attributes == nil {
		dead.Attributes = map[string]string{}
	}
	parts := strings.Split(name, "/") // projects/P/subscriptions/S
	dead.Attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = strconv.Itoa(int(d.attempts))
	dead.Attributes["CloudPubSubDeadLetterSourceSubscription"] = parts[3]
	dead.Attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = parts[1]
	published := dead.GetPublishTime().AsTime().Format(time.RFC3339Nano)
	dead.Attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = published
	topic := s.deadLetter.GetDeadLetterTopic()
	if _, err := b.GServer.Publish(ctx,
		&pubsubpb.PublishRequest{Topic: topic, Messages: []*pubsubpb.PubsubMessage{dead}}); err != nil {
		return // without the topic the message stays, as in Cloud Pub/Sub
	}
	_, _ = b.GServer.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: name, AckIds: []string{d.ackID}})
	delete(s.deliveries, d.message.GetMessageId())
	b.wakePulls()
}
