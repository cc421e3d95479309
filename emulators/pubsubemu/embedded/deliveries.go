package embedded

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// pullWait is how long a pull waits for a message before it returns none.
const pullWait = 30 * time.Second

// Pull implements pubsubpb.SubscriberServer.
func (b *broker) Pull(ctx context.Context, r *pubsubpb.PullRequest) (*pubsubpb.PullResponse, error) {
	if r.GetMaxMessages() <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "max_messages is %d: want at least 1", r.GetMaxMessages())
	}
	for end := time.Now().Add(pullWait); ; {
		messages, next, changed, err := b.pull(r, end)
		if err != nil || len(messages) > 0 || r.GetReturnImmediately() || //nolint:staticcheck // still in use
			time.Until(end) <= 0 {
			return &pubsubpb.PullResponse{ReceivedMessages: messages}, err
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		timer.Stop()
	}
}

// pull returns the available messages. If there is none, next is when there will be one, if not after end, and changed
// is closed when there may be one earlier.
func (b *broker) pull(r *pubsubpb.PullRequest, end time.Time) (messages []*pubsubpb.ReceivedMessage, next time.Time,
	changed <-chan struct{}, err error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.subscription(r.GetSubscription())
	if err != nil {
		return nil, end, nil, err
	}
	now, next := time.Now(), end
	for e := s.messages.Front(); e != nil && len(messages) < int(r.GetMaxMessages()); {
		m, following := e.Value.(*message), e.Next()
		switch {
		case m.until.After(now):
			if m.until.Before(next) {
				next = m.until
			}
		case s.isOutOfAttempts(m) && b.moveToDeadLetter(s, e): // its last lease expired
		default:
			messages = append(messages, s.deliver(m, now))
		}
		e = following
	}
	return messages, next, s.changed, nil
}

// deliver leases a message.
func (s *subscription) deliver(m *message, now time.Time) *pubsubpb.ReceivedMessage {
	m.attempts++
	m.ackID = fmt.Sprintf("%s:%d", m.GetMessageId(), m.attempts)
	m.until = now.Add(time.Duration(s.settings.GetAckDeadlineSeconds()) * time.Second)
	received := &pubsubpb.ReceivedMessage{AckId: m.ackID, Message: m.PubsubMessage}
	if s.settings.GetDeadLetterPolicy() != nil {
		received.DeliveryAttempt = m.attempts
	}
	return received
}

// Acknowledge implements pubsubpb.SubscriberServer. It ignores messages that have been redelivered since.
func (b *broker) Acknowledge(_ context.Context, r *pubsubpb.AcknowledgeRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.subscription(r.GetSubscription())
	if err != nil {
		return nil, err
	}
	for _, ackID := range r.GetAckIds() {
		if e, _ := s.newestDelivery(ackID); e != nil {
			s.remove(e)
		}
	}
	return &emptypb.Empty{}, nil
}

// ModifyAckDeadline implements pubsubpb.SubscriberServer. A deadline of 0 returns messages: they are redelivered after
// their back-off, or become dead letters.
func (b *broker) ModifyAckDeadline(_ context.Context, r *pubsubpb.ModifyAckDeadlineRequest) (*emptypb.Empty, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.subscription(r.GetSubscription())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, ackID := range r.GetAckIds() {
		e, m := s.newestDelivery(ackID)
		switch seconds := r.GetAckDeadlineSeconds(); {
		case e == nil:
		case seconds > 0:
			m.until = now.Add(time.Duration(seconds) * time.Second)
		case s.isOutOfAttempts(m) && b.moveToDeadLetter(s, e):
		default:
			m.until = now.Add(s.backoff(m.attempts))
		}
	}
	s.wakePulls()
	return &emptypb.Empty{}, nil
}

// The caller holds the lock in all functions below.

// newestDelivery returns the message with an ack id, if it is that of the newest delivery.
func (s *subscription) newestDelivery(ackID string) (*list.Element, *message) {
	id, _, _ := strings.Cut(ackID, ":")
	e := s.byID[id]
	if e == nil {
		return nil, nil
	}
	m := e.Value.(*message)
	if m.ackID != ackID {
		return nil, nil
	}
	return e, m
}

// remove removes a message.
func (s *subscription) remove(e *list.Element) {
	m := s.messages.Remove(e).(*message)
	delete(s.byID, m.GetMessageId())
}

// isOutOfAttempts reports whether a message has used all its delivery attempts.
func (s *subscription) isOutOfAttempts(m *message) bool {
	policy := s.settings.GetDeadLetterPolicy()
	return policy != nil && m.attempts >= policy.GetMaxDeliveryAttempts()
}

// backoff returns the wait after a number of deliveries. It doubles from the minimum to the maximum.
func (s *subscription) backoff(attempts int32) time.Duration {
	policy := s.settings.GetRetryPolicy()
	least, most := policy.GetMinimumBackoff().AsDuration(), policy.GetMaximumBackoff().AsDuration()
	return min(least<<min(max(attempts-1, 0), 16), most)
}

// moveToDeadLetter moves a message to the dead letter topic, with the attributes that Cloud Pub/Sub adds. Without the
// topic it reports false, and the message stays, as in Cloud Pub/Sub.
func (b *broker) moveToDeadLetter(s *subscription, e *list.Element) bool {
	topic := s.settings.GetDeadLetterPolicy().GetDeadLetterTopic()
	if b.topics[topic] == nil {
		return false
	}
	m := e.Value.(*message)
	attributes := maps.Clone(m.GetAttributes())
	if attributes == nil {
		attributes = map[string]string{}
	}
	parts := strings.Split(s.settings.GetName(), "/") // projects/P/subscriptions/S
	attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = strconv.Itoa(int(m.attempts))
	attributes["CloudPubSubDeadLetterSourceSubscription"] = parts[3]
	attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] = parts[1]
	attributes["CloudPubSubDeadLetterSourceTopicPublishTime"] = m.GetPublishTime().AsTime().Format(time.RFC3339Nano)
	b.publish(topic, &pubsubpb.PubsubMessage{
		Data: m.GetData(), Attributes: attributes, OrderingKey: m.GetOrderingKey(),
	})
	s.remove(e)
	return true
}
