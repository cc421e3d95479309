//go:build unix

package pubsubemu_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pubsubclient "cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"agents.example/controlplane/emulators/pubsubemu"
)

func TestClose_WaitsForRequestsInFlight(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	var answered atomic.Bool
	p := newTestProject(t, func(http.ResponseWriter, *http.Request, push) {
		arrived <- struct{}{}
		<-release
		answered.Store(true)
	})
	dispatcher := p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{{
		Topic: "work", Name: "push", Endpoint: p.url, DeadLetterTopic: "other",
	}}})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	next(t, arrived)
	closed := make(chan error, 1)
	go func() { closed <- dispatcher.Close() }()
	for range 20 { // a Close that does not wait returns before that
		p.publish("other", &pubsubclient.Message{Data: []byte("x")})
	}
	if len(closed) > 0 {
		t.Error("Close returned while a request was in flight")
	}
	close(release)
	if err := next(t, closed); err != nil {
		t.Error(err)
	}
	if !answered.Load() {
		t.Error("Close returned before the endpoint answered")
	}
	if got := next(t, p.deliveries); !got.Acked {
		t.Errorf("delivery = %+v, want acked", got)
	}
}

func TestClose_CancelsRequestsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	p := newTestProject(t, func(_ http.ResponseWriter, r *http.Request, _ push) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	dispatcher := p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: []pubsubemu.Subscription{{
			Topic: "work", Name: "push", Endpoint: p.url,
			AckDeadline: 10 * time.Minute,
		}}, Grace: 50 * time.Millisecond,
	})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	next(t, arrived)
	if err := dispatcher.Close(); err != nil {
		t.Error(err)
	}
	if got := next(t, p.deliveries); got.Acked || got.Err == nil {
		t.Errorf("delivery = %+v, want an error", got)
	}
}

func TestStartDispatcher_UpdatesAnExistingSubscription(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	p := newTestProject(t, func(w http.ResponseWriter, _ *http.Request, _ push) {
		if broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	subscription := pubsubemu.Subscription{Topic: "work", Name: "push", Endpoint: p.url}
	first := p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{subscription}})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	if got := next(t, p.deliveries); got.Acked || got.Attempt != 0 {
		t.Errorf("delivery = %+v, want failed and uncounted", got)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	broken.Store(false)
	for len(p.deliveries) > 0 {
		<-p.deliveries
	}
	subscription.DeadLetterTopic, subscription.MaxDeliveryAttempts = "dead", 50
	subscription.MinBackoff, subscription.AckDeadline = time.Second, 20*time.Second
	p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{subscription}})
	if got := next(t, p.deliveries); !got.Acked || got.Attempt == 0 {
		t.Errorf("delivery = %+v, want counted and acked", got)
	}
	got, err := p.client().SubscriptionAdminClient.GetSubscription(t.Context(),
		&pubsubpb.GetSubscriptionRequest{Subscription: p.name("push")})
	if err != nil {
		t.Fatal(err)
	}
	if n := got.DeadLetterPolicy.GetMaxDeliveryAttempts(); n != 50 {
		t.Errorf("MaxDeliveryAttempts = %d, want 50", n)
	}
	if s := got.RetryPolicy.GetMinimumBackoff().GetSeconds(); s != 1 {
		t.Errorf("MinimumBackoff = %d s, want 1", s)
	}
	if got.AckDeadlineSeconds != 25 {
		t.Errorf("AckDeadlineSeconds = %d, want 25", got.AckDeadlineSeconds)
	}
}

func TestClose_ReportsADeletedSubscription(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	p := newTestProject(t, func(http.ResponseWriter, *http.Request, push) {
		arrived <- struct{}{}
		<-release
	})
	dispatcher, err := pubsubemu.StartDispatcher(t.Context(), pubsubemu.DispatcherOptions{
		Host: host, Project: p.project, Concurrency: 1,
		Subscriptions: []pubsubemu.Subscription{{Topic: "work", Name: "push", Endpoint: p.url}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	next(t, arrived) // no pull is waiting now; the emulator would take a minute to refuse it
	admin := p.client().SubscriptionAdminClient
	if err := admin.DeleteSubscription(t.Context(),
		&pubsubpb.DeleteSubscriptionRequest{Subscription: p.name("push")}); err != nil {
		t.Fatal(err)
	}
	close(release)
	next(t, dispatcher.Done())
	if err := dispatcher.Close(); status.Code(err) != codes.NotFound {
		t.Errorf("Close: error = %v, want NotFound", err)
	}
}

func TestDispatcher_UsesExactlyItsConcurrency(t *testing.T) {
	t.Parallel()
	const concurrency, messages = 8, 64
	var inFlight, most atomic.Int32
	var full sync.WaitGroup
	full.Add(concurrency)
	var arrived atomic.Int32
	p := newTestProject(t, func(http.ResponseWriter, *http.Request, push) {
		now := inFlight.Add(1)
		defer inFlight.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if arrived.Add(1) <= concurrency {
			full.Done()
			full.Wait() // returns only when the maximum number of requests is in flight
		}
	})
	p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: []pubsubemu.Subscription{{
			Topic: "work", Name: "push", Endpoint: p.url,
			AckDeadline: 30 * time.Second,
		}}, Concurrency: concurrency, InitialWindow: concurrency,
	})
	p.publish("work", numbered(messages)...)
	for range messages {
		if got := next(t, p.deliveries); !got.Acked {
			t.Errorf("delivery = %+v, want acked", got)
		}
	}
	if got := most.Load(); got != concurrency {
		t.Errorf("maximum requests in flight = %d, want %d", got, concurrency)
	}
}
