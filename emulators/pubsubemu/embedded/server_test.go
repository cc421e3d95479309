package embedded_test

import (
	"context"
	"fmt"
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
	// A library of the Pub/Sub client starts this one when it is loaded, and never ends it.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// pubsubFixture is a server with a topic.
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
		for range 2 { // closing again does no harm
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

// subscribe makes a subscription, with changes to what is usual.
func (f pubsubFixture) subscribe(id, of string, changes func(*pubsubpb.Subscription)) {
	f.t.Helper()
	s := &pubsubpb.Subscription{Name: name(id), Topic: of, AckDeadlineSeconds: 10}
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
		Topic: topic, Messages: []*pubsubpb.PubsubMessage{{Data: []byte(text),
			Attributes: map[string]string{"k": "v"}}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f pubsubFixture) pull(id string) *pubsubpb.ReceivedMessage {
	f.t.Helper()
	r, err := f.subscriber.Pull(f.t.Context(), &pubsubpb.PullRequest{Subscription: name(id), MaxMessages: 1})
	if err != nil || len(r.GetReceivedMessages()) != 1 {
		f.t.Fatalf("pull %s: %v, %v", id, r, err)
	}
	return r.GetReceivedMessages()[0]
}

// nothing reports whether there is nothing to pull at once.
func (f pubsubFixture) nothing(id string) bool {
	f.t.Helper()
	r, err := f.subscriber.Pull(f.t.Context(), &pubsubpb.PullRequest{Subscription: name(id), MaxMessages: 1, ReturnImmediately: true}) //nolint:staticcheck // it is what is asked for
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

func TestSubscriptionsCountByThemselves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("a", topic, fiveAttempts)
	f.subscribe("b", topic, fiveAttempts)
	f.subscribe("plain", topic, nil)
	f.subscribe("graves", dead, nil)
	f.publish("x")
	for attempt := int32(1); attempt <= 5; attempt++ {
		m := f.pull("a")
		if m.GetDeliveryAttempt() != attempt {
			t.Errorf("attempt %d is counted as %d", attempt, m.GetDeliveryAttempt())
		}
		if plain := f.pull("plain"); plain.GetDeliveryAttempt() != 0 {
			t.Errorf("without a dead letter topic attempt %d is counted as %d", attempt, plain.GetDeliveryAttempt())
		} else {
			f.nack("plain", plain)
		}
		f.nack("a", m)
	}
	m := f.pull("graves").GetMessage()
	attributes := m.GetAttributes()
	if string(m.GetData()) != "x" || attributes["k"] != "v" ||
		attributes["CloudPubSubDeadLetterSourceDeliveryCount"] != "5" ||
		attributes["CloudPubSubDeadLetterSourceSubscription"] != "a" ||
		attributes["CloudPubSubDeadLetterSourceSubscriptionProject"] != "p" {
		t.Errorf("the dead letter is %v", m)
	}
	if !f.nothing("a") {
		t.Error("a dead message is delivered again")
	}
	if m := f.pull("b"); m.GetDeliveryAttempt() != 1 {
		t.Errorf("the other subscription's first attempt is counted as %d", m.GetDeliveryAttempt())
	}
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const least, most = 200 * time.Millisecond, 300 * time.Millisecond
	f.subscribe("s", topic, func(s *pubsubpb.Subscription) {
		s.RetryPolicy = &pubsubpb.RetryPolicy{MinimumBackoff: durationpb.New(least),
			MaximumBackoff: durationpb.New(most)}
	})
	f.publish("x")
	m := f.pull("s")
	for _, want := range []time.Duration{least, most, most} {
		began := time.Now()
		f.nack("s", m)
		if !f.nothing("s") {
			t.Error("there is no back-off")
		}
		m = f.pull("s")
		if waited := time.Since(began); waited < want {
			t.Errorf("delivered again after %v, want %v", waited, want)
		}
	}
	f.ack("s", m)
	if !f.nothing("s") {
		t.Error("what is done is delivered again")
	}
}

func TestOldDeliveriesDecideNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, fiveAttempts)
	f.publish("x")
	first := f.pull("s")
	f.nack("s", first)
	second := f.pull("s")
	f.ack("s", first)
	f.nack("s", first)
	if !f.nothing("s") {
		t.Error("an old delivery was given back")
	}
	f.nack("s", second)
	if third := f.pull("s"); third.GetDeliveryAttempt() != 3 {
		t.Errorf("attempt %d, want 3: an old delivery was acknowledged", third.GetDeliveryAttempt())
	}
}

func TestPullWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.subscribe("s", topic, nil)
	pulled := make(chan error, 1)
	pull := func() {
		r, err := f.subscriber.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: name("s"), MaxMessages: 1})
		if err == nil && len(r.GetReceivedMessages()) == 0 {
			err = fmt.Errorf("nothing was pulled")
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
		t.Errorf("pulling what was deleted: %v", err)
	}
	f.subscribe("s", topic, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.subscriber.Pull(ctx,
		&pubsubpb.PullRequest{Subscription: name("s"), MaxMessages: 1}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("pulling nothing until the deadline: %v", err)
	}
}

func TestPoliciesChange(t *testing.T) {
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
		if err != nil || got.GetAckDeadlineSeconds() != 20 ||
			(got.GetRetryPolicy() != nil) != (paths[0] != "ack_deadline_seconds") ||
			(got.GetDeadLetterPolicy() == nil) != (paths[0] == "dead_letter_policy") {
			t.Errorf("after %v: %v, %v", paths, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for what, row := range map[string]struct {
		change func(*pubsubpb.Subscription)
		want   codes.Code
	}{
		"push": {change: func(s *pubsubpb.Subscription) { s.PushConfig = &pubsubpb.PushConfig{PushEndpoint: "https://e.example"} }, want: codes.Unimplemented},
		"filters": {change: func(s *pubsubpb.Subscription) { s.Filter = `attributes.k = "v"` },
			want: codes.Unimplemented},
		"order": {change: func(s *pubsubpb.Subscription) { s.EnableMessageOrdering = true },
			want: codes.Unimplemented},
		"exactly-once": {change: func(s *pubsubpb.Subscription) { s.EnableExactlyOnceDelivery = true },
			want: codes.Unimplemented},
		"no topic": {change: func(s *pubsubpb.Subscription) { s.Topic = "projects/p/topics/none" },
			want: codes.NotFound},
		"no grave": {change: func(s *pubsubpb.Subscription) {
			fiveAttempts(s)
			s.DeadLetterPolicy.DeadLetterTopic = "projects/p/topics/none"
		}, want: codes.NotFound},
		"few attempts": {change: func(s *pubsubpb.Subscription) { fiveAttempts(s); s.DeadLetterPolicy.MaxDeliveryAttempts = 4 }, want: codes.InvalidArgument},
	} {
		s := &pubsubpb.Subscription{Name: name("s"), Topic: topic, AckDeadlineSeconds: 10}
		row.change(s)
		if _, err := f.subscriber.CreateSubscription(t.Context(), s); status.Code(err) != row.want {
			t.Errorf("%s: %v, want %s", what, err, row.want)
		}
	}
	stream, err := f.subscriber.StreamingPull(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("StreamingPull: %v", err)
	}
}
