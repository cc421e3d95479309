package embedded_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"agents.example/controlplane/emulators/pubsubemu/embedded"
)

func TestMain(m *testing.M) {
	// A library of the Pub/Sub client starts this goroutine in an init function and never stops it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// pubsubFixture is a server with a topic and a dead letter topic.
type pubsubFixture struct {
	t          *testing.T
	publisher  pubsubpb.PublisherClient
	subscriber pubsubpb.SubscriberClient
}

const (
	topic = "projects/p/topics/t"
	dead  = "projects/p/topics/dead"
)

func newFixture(t *testing.T) pubsubFixture {
	t.Helper()
	server, err := embedded.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		for range 2 { // Close may be called twice
			if err := server.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	f := pubsubFixture{t, pubsubpb.NewPublisherClient(conn), pubsubpb.NewSubscriberClient(conn)}
	for _, name := range []string{topic, dead} {
		if _, err := f.publisher.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func name(subscription string) string { return "projects/p/subscriptions/" + subscription }

// subscribe creates a subscription; changes may modify the defaults.
func (f pubsubFixture) subscribe(id, topicName string, changes func(*pubsubpb.Subscription)) {
	f.t.Helper()
	s := &pubsubpb.Subscription{Name: name(id), Topic: topicName, AckDeadlineSeconds: 600}
	if changes != nil {
		changes(s)
	}
	if _, err := f.subscriber.CreateSubscription(f.t.Context(), s); err != nil {
		f.t.Fatal(err)
	}
}

func (f pubsubFixture) publish(text string) {
	f.t.Helper()
	_, err := f.publisher.Publish(f.t.Context(), &pubsubpb.PublishRequest{
		Topic: topic, Messages: []*pubsubpb.PubsubMessage{{
			Data:       []byte(text),
			Attributes: map[string]string{"k": "v"},
		}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f pubsubFixture) pull(id string) *pubsubpb.ReceivedMessage {
	f.t.Helper()
	r, err := f.subscriber.Pull(f.t.Context(), &pubsubpb.PullRequest{Subscription: name(id), MaxMessages: 1})
	if err != nil || len(r.GetReceivedMessages()) != 1 {
		f.t.Fatalf("Pull(%s) = %v, %v; want one message", id, r, err)
	}
	return r.GetReceivedMessages()[0]
}

// isEmpty reports whether an immediate pull returns no message.
func (f pubsubFixture) isEmpty(id string) bool {
	f.t.Helper()
	r, err := f.subscriber.Pull(f.t.Context(), &pubsubpb.PullRequest{Subscription: name(id), MaxMessages: 1, ReturnImmediately: true}) //nolint:staticcheck // deprecated, but still in use
	if err != nil {
		f.t.Fatal(err)
	}
	return len(r.GetReceivedMessages()) == 0
}

func (f pubsubFixture) ack(id string, m *pubsubpb.ReceivedMessage) {
	f.t.Helper()
	if _, err := f.subscriber.Acknowledge(f.t.Context(),
		&pubsubpb.AcknowledgeRequest{Subscription: name(id), AckIds: []string{m.GetAckId()}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f pubsubFixture) nack(id string, m *pubsubpb.ReceivedMessage) {
	f.t.Helper()
	if _, err := f.subscriber.ModifyAckDeadline(f.t.Context(),
		&pubsubpb.ModifyAckDeadlineRequest{Subscription: name(id), AckIds: []string{m.GetAckId()}}); err != nil {
		f.t.Fatal(err)
	}
}

func fiveAttempts(s *pubsubpb.Subscription) {
	s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: dead, MaxDeliveryAttempts: 5}
}

func TestPull_CountsAttemptsPerSubscription(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("a", topic, fiveAttempts)
	f.subscribe("b", topic, fiveAttempts)
	f.subscribe("plain", topic, nil)
	f.subscribe("dead letters", dead, nil)
	f.publish("x")
	for attempt := int32(1); attempt <= 5; attempt++ {
		m := f.pull("a")
		if m.GetDeliveryAttempt() != attempt {
			t.Errorf("DeliveryAttempt = %d, want %d", m.GetDeliveryAttempt(), attempt)
		}
		if plain := f.pull("plain"); plain.GetDeliveryAttempt() != 0 {
			t.Errorf("DeliveryAttempt without a dead letter topic = %d, want 0", plain.GetDeliveryAttempt())
		} else {
			f.nack("plain", plain)
		}
		f.nack("a", m)
	}
	m := f.pull("dead letters").GetMessage()
	attributes := m.GetAttributes()
	if string(m.GetData()) != "x" {
		t.Errorf("data of the dead letter = %q, want x", m.GetData())
	}
	for key, want := range map[string]string{
		"k": "v",
		"CloudPubSubDeadLetterSourceDeliveryCount":       "5",
		"CloudPubSubDeadLetterSourceSubscription":        "a",
		"CloudPubSubDeadLetterSourceSubscriptionProject": "p",
	} {
		if attributes[key] != want {
			t.Errorf("attribute %s of the dead letter = %q, want %q", key, attributes[key], want)
		}
	}
	if !f.isEmpty("a") {
		t.Error("the dead message was redelivered to a")
	}
	if m := f.pull("b"); m.GetDeliveryAttempt() != 1 {
		t.Errorf("first DeliveryAttempt of b = %d, want 1", m.GetDeliveryAttempt())
	}
}

func TestAck_IgnoresOlderDeliveries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, fiveAttempts)
	f.publish("x")
	first := f.pull("s")
	f.nack("s", first)
	second := f.pull("s")
	f.ack("s", first)
	f.nack("s", first)
	if !f.isEmpty("s") {
		t.Error("nack of an old delivery returned the message")
	}
	f.nack("s", second)
	if third := f.pull("s"); third.GetDeliveryAttempt() != 3 {
		t.Errorf("DeliveryAttempt = %d, want 3", third.GetDeliveryAttempt())
	}
}

func TestPull_WaitsForAMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, nil)
	pulled := make(chan error, 1)
	pull := func() {
		r, err := f.subscriber.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: name("s"), MaxMessages: 1})
		if err == nil && len(r.GetReceivedMessages()) == 0 {
			err = fmt.Errorf("pull returned no message")
		}
		pulled <- err
	}
	go pull()
	f.publish("x")
	if err := <-pulled; err != nil {
		t.Error(err)
	}
	go pull()
	if _, err := f.subscriber.DeleteSubscription(t.Context(),
		&pubsubpb.DeleteSubscriptionRequest{Subscription: name("s")}); err != nil {
		t.Fatal(err)
	}
	if err := <-pulled; status.Code(err) != codes.NotFound {
		t.Errorf("Pull of a deleted subscription: error = %v, want NotFound", err)
	}
}

func TestUpdateSubscription_ChangesOnlyMaskedPolicies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, fiveAttempts)
	wanted := &pubsubpb.Subscription{
		Name: name("s"), Topic: topic, AckDeadlineSeconds: 20,
		RetryPolicy: &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(time.Second)},
	}
	for _, paths := range [][]string{{"ack_deadline_seconds"}, {"retry_policy"}, {"dead_letter_policy"}} {
		r := &pubsubpb.UpdateSubscriptionRequest{Subscription: wanted, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}
		if _, err := f.subscriber.UpdateSubscription(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, err := f.subscriber.GetSubscription(t.Context(), &pubsubpb.GetSubscriptionRequest{Subscription: name("s")})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetAckDeadlineSeconds() != 20 {
			t.Errorf("after updating %v: AckDeadlineSeconds = %d, want 20", paths, got.GetAckDeadlineSeconds())
		}
		if want := paths[0] != "ack_deadline_seconds"; (got.GetRetryPolicy() != nil) != want {
			t.Errorf("after updating %v: RetryPolicy = %v, want present %t", paths, got.GetRetryPolicy(), want)
		}
		if want := paths[0] != "dead_letter_policy"; (got.GetDeadLetterPolicy() != nil) != want {
			t.Errorf("after updating %v: DeadLetterPolicy = %v, want present %t", paths, got.GetDeadLetterPolicy(),
				want)
		}
	}
}

func TestPublish_RefusesAttributesBeyondTheQuotas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, nil)
	long := func(key, value int) map[string]string {
		return map[string]string{strings.Repeat("k", key): strings.Repeat("v", value)}
	}
	many := func(n int) map[string]string {
		attributes := map[string]string{}
		for i := range n {
			attributes[strconv.Itoa(i)] = ""
		}
		return attributes
	}
	for kind, row := range map[string]struct {
		attributes map[string]string
		want       codes.Code
	}{
		"long":           {attributes: long(256, 1024), want: codes.OK},
		"many":           {attributes: many(100), want: codes.OK},
		"too long key":   {attributes: long(257, 1), want: codes.InvalidArgument},
		"too long value": {attributes: long(1, 1025), want: codes.InvalidArgument},
		"too many":       {attributes: many(101), want: codes.InvalidArgument},
	} {
		_, err := f.publisher.Publish(t.Context(), &pubsubpb.PublishRequest{
			Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Attributes: row.attributes}},
		})
		if got := status.Code(err); got != row.want {
			t.Errorf("%s: error = %v, want %s", kind, err, row.want)
		}
		if row.want == codes.OK {
			f.ack("s", f.pull("s"))
		}
	}
	if !f.isEmpty("s") {
		t.Error("a refused message was published")
	}
}

func TestServer_RefusesUnsupportedRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for kind, row := range map[string]struct {
		change func(*pubsubpb.Subscription)
		want   codes.Code
	}{
		"push endpoint": {change: func(s *pubsubpb.Subscription) { s.PushConfig = &pubsubpb.PushConfig{PushEndpoint: "https://e.example"} }, want: codes.Unimplemented},
		"filter": {
			change: func(s *pubsubpb.Subscription) { s.Filter = `attributes.k = "v"` },
			want:   codes.Unimplemented,
		},
		"message ordering": {
			change: func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true },
			want:   codes.Unimplemented,
		},
		"exactly-once delivery": {
			change: func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true },
			want:   codes.Unimplemented,
		},
		"malformed name": {
			change: func(s *pubsubpb.Subscription) { s.Name = "s" },
			want:   codes.InvalidArgument,
		},
		"unknown topic": {
			change: func(s *pubsubpb.Subscription) { s.Topic = "projects/p/topics/none" },
			want:   codes.NotFound,
		},
		"unknown dead letter topic": {change: func(s *pubsubpb.Subscription) {
			fiveAttempts(s)
			s.DeadLetterPolicy.DeadLetterTopic = "projects/p/topics/none"
		}, want: codes.NotFound},
		"too few attempts": {change: func(s *pubsubpb.Subscription) { fiveAttempts(s); s.DeadLetterPolicy.MaxDeliveryAttempts = 4 }, want: codes.InvalidArgument},
	} {
		s := &pubsubpb.Subscription{Name: name("s"), Topic: topic, AckDeadlineSeconds: 10}
		row.change(s)
		if _, err := f.subscriber.CreateSubscription(t.Context(), s); status.Code(err) != row.want {
			t.Errorf("%s: error = %v, want %s", kind, err, row.want)
		}
	}
	stream, err := f.subscriber.StreamingPull(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("StreamingPull: error = %v, want Unimplemented", err)
	}
}
