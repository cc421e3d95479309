package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

const waitingSubscription = "projects/p/subscriptions/s"

// newWaitingBroker returns a broker with a subscription, and with messages. Tests call it without a connection, so
// that they wait in virtual time.
func newWaitingBroker(t *testing.T, retry *pubsubpb.RetryPolicy, messages ...*pubsubpb.PubsubMessage) *broker {
	t.Helper()
	const topic = "projects/p/topics/t"
	b := newBroker()
	if _, err := b.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: waitingSubscription, Topic: topic, AckDeadlineSeconds: 10, RetryPolicy: retry,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: messages}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNack_RedeliversAfterTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least, most = 10 * time.Second, 15 * time.Second
		b := newWaitingBroker(t, &pubsubpb.RetryPolicy{
			MinimumBackoff: durationpb.New(least), MaximumBackoff: durationpb.New(most),
		}, &pubsubpb.PubsubMessage{Data: []byte("x")})
		pull := func() *pubsubpb.ReceivedMessage {
			r, err := b.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: waitingSubscription, MaxMessages: 1})
			if err != nil || len(r.GetReceivedMessages()) != 1 {
				t.Fatalf("Pull = %v, %v; want one message", r, err)
			}
			return r.GetReceivedMessages()[0]
		}
		m := pull()
		for _, want := range []time.Duration{least, most, most} {
			began := time.Now()
			if _, err := b.ModifyAckDeadline(t.Context(), &pubsubpb.ModifyAckDeadlineRequest{
				Subscription: waitingSubscription, AckIds: []string{m.GetAckId()},
			}); err != nil {
				t.Fatal(err)
			}
			m = pull()
			if waited := time.Since(began); waited != want {
				t.Errorf("redelivered after %v, want %v", waited, want)
			}
		}
		if _, err := b.Acknowledge(t.Context(), &pubsubpb.AcknowledgeRequest{
			Subscription: waitingSubscription, AckIds: []string{m.GetAckId()},
		}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r, err := b.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: waitingSubscription, MaxMessages: 1})
		if len(r.GetReceivedMessages()) > 0 || err != nil || time.Since(began) != pullWait {
			t.Errorf("after the acknowledgement, a pull gets %v, %v after %s; want nothing after %s", r, err,
				time.Since(began), pullWait)
		}
	})
}

func TestPull_EndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newWaitingBroker(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), pullWait/2)
		defer cancel()
		began := time.Now()
		_, err := b.Pull(ctx, &pubsubpb.PullRequest{Subscription: waitingSubscription, MaxMessages: 1})
		if status.Code(err) != codes.DeadlineExceeded || time.Since(began) != pullWait/2 {
			t.Errorf("a pull without messages = %v after %s, want DeadlineExceeded after %s", err, time.Since(began),
				pullWait/2)
		}
	})
}
