package cloud_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/event"
)

// receiver receives the deliveries of a webhook. While it is down, it answers 503.
type receiver struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	verifier *standardwebhooks.Webhook
	down     bool
	refused  int
	// ids are the events that it accepted, in the order of their arrival.
	ids []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, down: true}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		r.t.Errorf("read a delivery: %v", err)
	}
	var event struct{ ID, Type string }
	if err := json.Unmarshal(body, &event); err != nil {
		r.t.Errorf("the delivery %s is no event: %v", body, err)
	}
	if err := r.verifier.Verify(body, req.Header); err != nil {
		r.t.Errorf("the signature of %s is refused: %v", event.ID, err)
	}
	if got := req.Header.Get("Webhook-Id"); got != event.ID {
		r.t.Errorf("webhook-id = %q, want the event's id %q", got, event.ID)
	}
	if r.down {
		r.refused++
		r.t.Logf("%s down: refuses %s", time.Now().Format("15:04:05.000"), event.Type)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.t.Logf("%s up: accepts %s", time.Now().Format("15:04:05.000"), event.Type)
	if event.Type != "webhook.test" { // which is in no log
		r.ids = append(r.ids, event.ID)
	}
}

// state returns how many deliveries were refused, and the accepted events.
func (r *receiver) state() (refused int, ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused, slices.Clone(r.ids)
}

func (r *receiver) set(verifier *standardwebhooks.Webhook, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifier, r.down = verifier, down
}

// testWebhook creates an agent while the receiver of a webhook is down. When it is up again, its owner sends a test,
// and the receiver gets every event of the agent in the order of the event log.
func testWebhook(t *testing.T, d deployment) {
	c, r := d.customer(t), newReceiver(t)
	c.call(http.MethodGet, "/api/v1/me", "", http.StatusOK, "")
	hook := c.call(http.MethodPost, "/api/v1/webhooks", `{"url": "`+r.URL+`/hook"}`, http.StatusCreated, "")
	secret, _ := hook.body["secret"].(string)
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatalf("the secret is not one of Standard Webhooks: %v", err)
	}
	r.set(verifier, true)
	id, _ := c.create("hobby", http.StatusCreated, "").body["id"].(string)
	c.await(id, "running", "")
	r.wait("a refused delivery", func(refused int, _ []string) bool { return refused > 0 })
	r.set(verifier, false)
	webhookID, _ := hook.body["id"].(string)
	c.call(http.MethodPost, "/api/v1/webhooks/"+webhookID+"/test", "", http.StatusAccepted, "")

	want := c.eventIDs("?agent_id=" + id + "&limit=100")
	r.wait("all events of the agent", func(_ int, ids []string) bool { return len(ids) >= len(want) })
	if _, got := r.state(); !slices.Equal(got, want) {
		t.Errorf("the receiver accepted %d events %v, want those of the log, in its order: %v", len(got), got, want)
	}
	if got := c.followEvents(id, len(want)); !slices.Equal(got, want) {
		t.Errorf("the stream has %v, want the events of the log, %v", got, want)
	}
	deliveries := c.endedDeliveries(webhookID)
	failed, tests := 0, 0
	for _, one := range deliveries {
		if one.EventType == "webhook.test" {
			tests++
		}
		if one.Status != "succeeded" {
			t.Errorf("the delivery of %s is %s, want succeeded", one.EventID, one.Status)
		}
		for _, attempt := range one.Attempts {
			if attempt.HTTPStatus != nil && *attempt.HTTPStatus == http.StatusServiceUnavailable {
				failed++
			}
		}
	}
	if refused, _ := r.state(); len(deliveries) != len(want)+1 || tests != 1 || failed != refused {
		t.Errorf("the log has %d deliveries (%d tests) with %d refused attempts, want %d (1) with %d", len(deliveries),
			tests, failed, len(want)+1, refused)
	}
}

// delivery is an entry of a webhook's log.
type delivery struct {
	EventID   string `json:"event_id"`
	EventType string `json:"event_type"`
	Status    string `json:"status"`
	Attempts  []struct {
		HTTPStatus *int `json:"http_status"`
	} `json:"attempts"`
}

// endedDeliveries reads a webhook's log until no delivery is pending: the receiver has an event before the worker
// records its answer.
func (c customer) endedDeliveries(webhookID string) (all []delivery) {
	c.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(pollInterval) {
		log := c.call(http.MethodGet, "/api/v1/webhooks/"+webhookID+"/deliveries?limit=100", "", http.StatusOK, "")
		all = nil
		if err := json.Unmarshal([]byte(log.text), &all); err != nil {
			c.t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(d delivery) bool { return d.Status == "pending" }) {
			break
		}
	}
	return all
}

// wait waits for a state of the receiver.
func (r *receiver) wait(what string, holds func(refused int, ids []string) bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(pollInterval) {
		if holds(r.state()) {
			return
		}
	}
	refused, ids := r.state()
	r.t.Fatalf("after %d refused and %d accepted deliveries there is still not %s", refused, len(ids), what)
}

// followEvents reads the stream from the beginning until it had n events of an agent.
func (c customer) followEvents(agentID string, n int) (ids []string) {
	c.t.Helper()
	api, err := client.New(c.cloud.Ready.BaseURL, client.StaticToken(c.token))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for e, err := range api.FollowEvents(ctx, client.StreamEventsParams{
		AgentID: agentID, Cursor: string(event.Start),
	}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if ids = append(ids, e.ID); len(ids) == n {
			break
		}
	}
	return ids
}

// eventIDs reads the ids of events.
func (c customer) eventIDs(query string) []string {
	c.t.Helper()
	var events []struct{ ID string }
	if err := json.Unmarshal([]byte(c.call(http.MethodGet, "/api/v1/events"+query, "", http.StatusOK, "").text),
		&events); err != nil {
		c.t.Fatal(err)
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.ID
	}
	return ids
}
