package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"agents.example/controlplane/shared/function"
)

// reconcilePath receives the pushes of nudges.
const reconcilePath = "/workers/ReconcileAgent"

// push is a delivery of a nudge.
type push struct {
	agentID, messageID string
}

// readPush reads a push. Its request can be read again.
func readPush(r *http.Request) (push, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return push{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var envelope struct {
		Message struct {
			MessageID string
			Data      []byte
		}
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return push{}, err
	}
	var nudge function.AgentNudge
	err = json.Unmarshal(envelope.Message.Data, &nudge)
	return push{nudge.AgentID, envelope.Message.MessageID}, err
}

// routeNudges passes the pushes of nudges to handle, and all other requests to the functions.
func routeNudges(functions http.Handler, handle func(http.ResponseWriter, *http.Request, push)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != reconcilePath {
			functions.ServeHTTP(w, r)
			return
		}
		p, err := readPush(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		handle(w, r, p)
	})
}

// deliveries counts the deliveries of nudges. It leaves out those to a worker that a service did not answer in time, as
// happens on a busy machine.
type deliveries struct {
	mu sync.Mutex
	// open are the messages that were delivered and not acknowledged, with the number of their deliveries.
	open map[string]int
	// most is the largest number of deliveries of a message since countDeliveries.
	most int
	// acked is closed and replaced with every acknowledged message.
	acked chan struct{}
}

func newDeliveries() *deliveries {
	return &deliveries{open: map[string]int{}, acked: make(chan struct{})}
}

// countDeliveries counts from now on.
func (d *deliveries) countDeliveries() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = 0
}

// track passes a push to a worker and records whether the worker acknowledges it.
func (d *deliveries) track(w http.ResponseWriter, r *http.Request, p push, worker http.HandlerFunc) {
	d.mu.Lock()
	d.open[p.messageID]++
	d.most = max(d.most, d.open[p.messageID])
	d.mu.Unlock()
	answer := &statusWriter{ResponseWriter: w}
	worker(answer, r)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case answer.status == http.StatusNoContent:
		delete(d.open, p.messageID)
		close(d.acked)
		d.acked = make(chan struct{})
	case answer.status == http.StatusServiceUnavailable || r.Context().Err() != nil:
		d.open[p.messageID]--
	}
}

// retryBy returns a function that sweeps if nothing but a sweep would repeat the runs for an agent.
func (d *deliveries) retryBy(r records, sweep func(*testing.T)) func(t *testing.T, id string) {
	return func(t *testing.T, id string) {
		t.Helper()
		if d.idle() && r.retries(t, id) {
			sweep(t)
		}
	}
}

// idle reports whether every message that was delivered is acknowledged.
func (d *deliveries) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) == 0
}

// settle waits until every message that was delivered is acknowledged. It returns the largest number of deliveries of a
// message since countDeliveries.
func (d *deliveries) settle(t *testing.T) (most int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		d.mu.Lock()
		open, acked, most := len(d.open), d.acked, d.most
		d.mu.Unlock()
		if open == 0 {
			return most
		}
		select {
		case <-acked:
		case <-ctx.Done():
			t.Fatalf("timed out after %s waiting for the acknowledgment of %d messages", patience, open)
		}
	}
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	w.status = code
	w.ResponseWriter.WriteHeader(code)
}

// tick publishes the tick of a scheduled worker and waits until the worker has run.
func (d deployment) tick(t *testing.T, worker string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, err := d.Tick(ctx, worker)
	if err != nil {
		t.Fatal(err)
	}
	if status != http.StatusNoContent {
		t.Errorf("%s answered %d, want 204", worker, status)
	}
}
