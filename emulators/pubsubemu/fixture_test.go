//go:build unix

package pubsubemu_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	pubsubclient "cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/pubsubemu"
)

// patience bounds every wait. Only a failing test reaches it.
const patience = 3 * time.Minute

// push is a request that the endpoint received.
type push struct {
	Header http.Header `json:"-"`
	Raw    string      `json:"-"`
	At     time.Time   `json:"-"`

	DeliveryAttempt int    `json:"deliveryAttempt"`
	Subscription    string `json:"subscription"`
	Message         struct {
		Attributes  map[string]string `json:"attributes"`
		Data        []byte            `json:"data"`
		MessageID   string            `json:"messageId"`
		PublishTime time.Time         `json:"publishTime"`
	} `json:"message"`
}

// testProject is a separate project in the shared emulator, with an endpoint that the test defines.
type testProject struct {
	t          testing.TB
	project    string
	url        string
	deliveries chan pubsubemu.Delivery
}

func newTestProject(tb testing.TB, endpoint func(http.ResponseWriter, *http.Request, push)) *testProject {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			tb.Errorf("read the push: %v", err)
		}
		got := push{Header: r.Header, Raw: string(body), At: time.Now()}
		if err := json.Unmarshal(body, &got); err != nil {
			tb.Errorf("the push is not JSON: %v: %s", err, body)
		}
		endpoint(w, r, got)
	}))
	tb.Cleanup(server.Close)
	return &testProject{
		t: tb, project: "p-" + uuid.NewString(), url: server.URL,
		deliveries: make(chan pubsubemu.Delivery, 10_000),
	}
}

// dispatch starts a dispatcher and closes it when the test ends.
func (p *testProject) dispatch(options pubsubemu.DispatcherOptions) *pubsubemu.Dispatcher {
	p.t.Helper()
	options.Host, options.Project = host, p.project
	options.Observe = func(d pubsubemu.Delivery) { p.deliveries <- d }
	dispatcher, err := pubsubemu.StartDispatcher(p.t.Context(), options)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := dispatcher.Close(); err != nil {
			p.t.Errorf("Close: %v", err)
		}
	})
	return dispatcher
}

// client returns a client of the emulator and closes it when the test ends.
func (p *testProject) client() *pubsubclient.Client {
	p.t.Helper()
	client, err := pubsubemu.Client(p.t.Context(), host, p.project)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = client.Close() })
	return client
}

// name returns the full name of a subscription.
func (p *testProject) name(subscription string) string {
	return "projects/" + p.project + "/subscriptions/" + subscription
}

// publish publishes messages to a topic and returns their ids.
func (p *testProject) publish(topic string, messages ...*pubsubclient.Message) []string {
	p.t.Helper()
	publisher := p.client().Publisher(topic)
	publisher.EnableMessageOrdering = true
	defer publisher.Stop()
	results := make([]*pubsubclient.PublishResult, len(messages))
	for i, message := range messages {
		results[i] = publisher.Publish(p.t.Context(), message)
	}
	ids := make([]string, len(messages))
	for i, result := range results {
		id, err := result.Get(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		ids[i] = id
	}
	return ids
}

func numbered(n int) []*pubsubclient.Message {
	messages := make([]*pubsubclient.Message, n)
	for i := range messages {
		messages[i] = &pubsubclient.Message{Data: fmt.Append(nil, i)}
	}
	return messages
}

// next returns the next value of a channel, or fails the test.
func next[T any](tb testing.TB, values <-chan T) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	select {
	case value := <-values:
		return value
	case <-ctx.Done():
		tb.Fatalf("timed out after %v waiting for a value", patience)
		panic("unreachable")
	}
}
