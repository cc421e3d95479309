//go:build unix

package pubsubemu_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pubsubclient "cloud.google.com/go/pubsub/v2"

	"agents.example/controlplane/emulators/process"
	"agents.example/controlplane/emulators/pubsubemu"
)

func TestDispatcher_PushesInCloudPubSubFormat(t *testing.T) {
	t.Parallel()
	pushes := make(chan push, 1)
	p := newTestProject(t, func(_ http.ResponseWriter, _ *http.Request, got push) { pushes <- got })
	tests := []struct {
		name         string
		subscription pubsubemu.Subscription
		message      *pubsubclient.Message
		audience     string
		body         string
	}{
		{
			name: "everything set",
			subscription: pubsubemu.Subscription{
				Topic: "full", Name: "full-push", Audience: "https://worker.example",
				DeadLetterTopic: "dead",
			},
			message: &pubsubclient.Message{
				Data:       []byte(`{"agent_id":"a"}`),
				Attributes: map[string]string{"k": "v"}, OrderingKey: "a",
			},
			audience: "https://worker.example",
			body: `{"deliveryAttempt":1,"message":{"attributes":{"k":"v"},"data":"eyJhZ2VudF9pZCI6ImEifQ==","messageId":"ID","message_id":"ID",` +
				`"orderingKey":"a","publishTime":"TIME","publish_time":"TIME"},"subscription":"projects/PROJECT/subscriptions/full-push"}`,
		},
		{
			name:         "no dead letter, no audience, attributes only",
			subscription: pubsubemu.Subscription{Topic: "bare", Name: "bare-push"},
			message:      &pubsubclient.Message{Attributes: map[string]string{"k": "v"}},
			audience:     p.url + "/bare-push",
			body: `{"message":{"attributes":{"k":"v"},"messageId":"ID","message_id":"ID","publishTime":"TIME","publish_time":"TIME"},` +
				`"subscription":"projects/PROJECT/subscriptions/bare-push"}`,
		},
	}
	var subscriptions []pubsubemu.Subscription
	for _, test := range tests {
		test.subscription.Endpoint = p.url + "/" + test.subscription.Name
		subscriptions = append(subscriptions, test.subscription)
	}
	p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: subscriptions,
		Token:         func(audience string) (string, error) { return "token for " + audience, nil },
	})
	for _, test := range tests { // sequentially, because they share the endpoint
		id := p.publish(test.subscription.Topic, test.message)[0]
		got := next(t, pushes)
		want := strings.NewReplacer("ID", id, "PROJECT", p.project, "TIME",
			got.Message.PublishTime.Format(time.RFC3339Nano)).Replace(test.body)
		if got.Raw != want {
			t.Errorf("%s: body =\n%s\nwant\n%s", test.name, got.Raw, want)
		}
		if age := time.Since(got.Message.PublishTime); age < -time.Minute || age > time.Minute {
			t.Errorf("%s: age of publishTime = %v, want less than a minute", test.name, age)
		}
		if got, want := got.Header.Get("Authorization"), "Bearer token for "+test.audience; got != want {
			t.Errorf("%s: Authorization = %q, want %q", test.name, got, want)
		}
		if got := got.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: Content-Type = %q, want application/json", test.name, got)
		}
		if delivery := next(t, p.deliveries); !delivery.Acked || delivery.MessageID != id ||
			delivery.Status != http.StatusOK {
			t.Errorf("%s: delivery = %+v, want message %s acked with status 200", test.name, delivery, id)
		}
	}
}

func TestDispatcher_AcksOnlyCloudPubSubsStatuses(t *testing.T) {
	t.Parallel()
	acked := map[int]bool{
		200: true, 201: true, 202: true, 204: true, 203: false, 302: false, 400: false, 404: false,
		409: false, 429: false, 500: false, 503: false,
	}
	p := newTestProject(t, func(w http.ResponseWriter, r *http.Request, got push) {
		if got.DeliveryAttempt > 1 {
			return
		}
		w.Header().Set("Location", "/elsewhere")
		code, err := strconv.Atoi(string(got.Message.Data))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
	})
	p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: []pubsubemu.Subscription{
			{Topic: "work", Name: "push", Endpoint: p.url, DeadLetterTopic: "dead"},
		}, MaxPushBackoff: time.Millisecond,
	})
	codes := map[string]int{}
	want := len(acked)
	for code, ack := range acked {
		codes[p.publish("work", &pubsubclient.Message{Data: fmt.Append(nil, code)})[0]] = code
		if !ack {
			want++
		}
	}
	for range want {
		delivery := next(t, p.deliveries)
		code := codes[delivery.MessageID]
		switch {
		case delivery.Attempt == 1 && (delivery.Status != code || delivery.Acked != acked[code]):
			t.Errorf("status %d: first delivery = %+v, want this status and acked %t", code, delivery, acked[code])
		case delivery.Attempt > 1 && (acked[code] || !delivery.Acked):
			t.Errorf("status %d: unexpected redelivery or failure: %+v", code, delivery)
		}
	}
}

func TestDispatcher_DeadLettersAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	p := newTestProject(t, func(w http.ResponseWriter, r *http.Request, _ push) {
		if r.URL.Path != "/dead" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: []pubsubemu.Subscription{
			{Topic: "work", Name: "push", Endpoint: p.url + "/work", DeadLetterTopic: "dead", MaxDeliveryAttempts: 6},
			{Topic: "dead", Name: "dead", Endpoint: p.url + "/dead"},
		}, MaxPushBackoff: time.Millisecond,
	})
	p.publish("work", &pubsubclient.Message{Data: []byte("poison")})
	for attempt := 1; attempt <= 6; attempt++ {
		if got := next(t, p.deliveries); got.Subscription != "push" || got.Attempt != attempt || got.Acked {
			t.Errorf("delivery = %+v, want failed attempt %d of push", got, attempt)
		}
	}
	if got := next(t, p.deliveries); got.Subscription != "dead" || got.Attempt != 0 || !got.Acked {
		t.Errorf("delivery = %+v, want an uncounted, acked one of dead", got)
	}
}

func TestDispatcher_RedeliversAfterTheBackoff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: waits 3 s for back-off")
	}
	pushes := make(chan push, 10)
	p := newTestProject(t, func(w http.ResponseWriter, _ *http.Request, got push) {
		pushes <- got
		if got.DeliveryAttempt < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{
		{
			Topic: "work", Name: "push", Endpoint: p.url, DeadLetterTopic: "dead", MinBackoff: time.Second,
			MaxBackoff: 2 * time.Second,
		},
	}})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	next(t, pushes)
	second, third := next(t, pushes), next(t, pushes) // the emulator's first redelivery is immediate
	if waited := third.At.Sub(second.At); waited < time.Second {
		t.Errorf("redelivered after %v, want at least 1s", waited)
	}
}

func TestDispatcher_KnowsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	p := newTestProject(t, func(http.ResponseWriter, *http.Request, push) {
		arrived <- struct{}{}
		<-release
	})
	d := p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{
		{Topic: "ticks", Name: "worker", Endpoint: p.url}, {Topic: "other", Name: "idle", Endpoint: p.url},
	}})
	p.publish("ticks", &pubsubclient.Message{Data: []byte("{}")})
	<-arrived
	if !d.Pushing("worker") || d.Pushing("idle") {
		t.Errorf("pushing to worker %t and to idle %t, want the first only", d.Pushing("worker"), d.Pushing("idle"))
	}
	close(release)
	<-p.deliveries
	for deadline := time.Now().Add(time.Minute); d.Pushing("worker"); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the dispatcher still counts a request that has ended")
		}
	}
}

func TestDispatcher_TimesOutASlowEndpoint(t *testing.T) {
	t.Parallel()
	var pushes atomic.Int32
	p := newTestProject(t, func(_ http.ResponseWriter, r *http.Request, _ push) {
		if pushes.Add(1) == 1 {
			<-r.Context().Done()
		}
	})
	p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{
		{Topic: "work", Name: "push", Endpoint: p.url, AckDeadline: 200 * time.Millisecond},
	}})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	if got := next(t, p.deliveries); got.Acked || !errors.Is(got.Err, context.DeadlineExceeded) ||
		got.Took < 200*time.Millisecond {
		t.Errorf("first delivery = %+v, want DeadlineExceeded after 200ms or more", got)
	}
	for !next(t, p.deliveries).Acked { // on a busy machine, later ones may time out, too
		continue
	}
}

func TestDispatcher_RetriesAnUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	port, err := process.FreePort() // the system gives it to no parallel test that listens on port 0
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p := newTestProject(t, nil)
	p.dispatch(pubsubemu.DispatcherOptions{Subscriptions: []pubsubemu.Subscription{{
		Topic: "work", Name: "push",
		Endpoint: "http://" + address,
	}}})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	if got := next(t, p.deliveries); got.Acked || got.Err == nil || got.Status != 0 {
		t.Errorf("delivery to a closed port = %+v, want an error and no status", got)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{
		Listener: listener,
		Config:   &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
	}
	server.Start()
	defer server.Close()
	for !next(t, p.deliveries).Acked {
		continue
	}
}

func TestDispatcher_DoesNotPushWithoutAToken(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	p := newTestProject(t, func(http.ResponseWriter, *http.Request, push) { called.Add(1) })
	down := errors.New("issuer is down")
	p.dispatch(pubsubemu.DispatcherOptions{
		Subscriptions: []pubsubemu.Subscription{{Topic: "work", Name: "push", Endpoint: p.url}},
		Token:         func(string) (string, error) { return "", down },
	})
	p.publish("work", &pubsubclient.Message{Data: []byte("x")})
	if got := next(t, p.deliveries); got.Acked || !errors.Is(got.Err, down) {
		t.Errorf("delivery = %+v, want error %v", got, down)
	}
	if n := called.Load(); n != 0 {
		t.Errorf("endpoint received %d requests, want 0", n)
	}
}
