package webhook_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// world is what a Deliverer works with, in memory.
type world struct {
	t  *testing.T
	mu sync.Mutex
	// now is the clock. Each event and each request of a receiver may move it.
	now        time.Time
	records    map[string]webhook.Webhook
	version    int
	deliveries map[string]webhook.Delivery
	events     []event.Event
	written    []event.Draft
	nudged     []string
	waits      int
	// received are the messages that a receiver took, and attempted all that it got.
	received, attempted []string
	// answer decides what the receiver does; nil accepts everything.
	answer func(e event.View) webhook.Result
	// beforeUpdate is called before a record is written; an error is that of the write.
	beforeUpdate func(w webhook.Webhook, done webhook.Done) error
}

const (
	hookID = "9b2f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9"
	org    = "org"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), records: map[string]webhook.Webhook{},
		deliveries: map[string]webhook.Delivery{},
	}
	w.records[hookID] = webhook.Webhook{
		ID: hookID, OrganizationID: org, URL: "https://hooks.example.com/", Status: webhook.Enabled, SecretVersion: 1,
		Position: event.After(w.now), Version: "0",
	}
	return w
}

func (w *world) deliverer() *webhook.Deliverer {
	return &webhook.Deliverer{
		Store: w, Events: w, Sender: w, Secrets: secretsOf(w.t, "k"), Nudger: w, Now: w.clock,
		Random: func() float64 { return 0.5 },
		Wait: func(_ context.Context, long time.Duration) error {
			if w.waits++; w.waits > 1000 {
				return errors.New("the run never ends")
			}
			w.wait(long)
			return nil
		},
	}
}

// deliver runs the webhook as a nudge does, and as often as it nudges itself.
func (w *world) deliver() {
	w.t.Helper()
	for range 1000 {
		w.nudge()
		if !w.takeNudge() {
			return
		}
	}
	w.t.Fatal("the webhook nudges itself again and again")
}

func (w *world) nudge() {
	w.t.Helper()
	if err := w.deliverer().Deliver(w.t.Context(), hookID); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) takeNudge() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.nudged)
	w.nudged = nil
	return n > 0
}

// happen commits an event of an agent, and returns its id.
func (w *world) happen(agent string) event.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Millisecond)
	e := event.Event{
		ID: event.NewID(w.now, event.RecordID(uint64(len(w.events))), 0), Type: event.AgentRunning, CreatedAt: w.now,
		OrganizationID: org, AgentID: agent, Data: json.RawMessage(`{}`),
	}
	w.events = append(w.events, e)
	return e.ID
}

// happenTo commits n events of agents in turn.
func (w *world) happenTo(n int, agents ...string) {
	for i := range n {
		w.happen(agents[i%len(agents)])
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// request asks for a delivery, as a client does.
func (w *world) request(d webhook.Delivery) {
	w.t.Helper()
	r := w.record()
	w.deliveries[d.ID] = d
	if err := r.Request(d.ID, w.clock()); err != nil {
		w.t.Fatal(err)
	}
	w.records[hookID] = r
}

func (w *world) record() webhook.Webhook {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records[hookID]
}

// takenFrom returns what the receiver took of an agent, without repeats.
func (w *world) takenFrom(agent string) []event.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []event.ID
	for _, taken := range w.received {
		if id, of, _ := strings.Cut(taken, " "); of == agent && !slices.Contains(ids, event.ID(id)) {
			ids = append(ids, event.ID(id))
		}
	}
	return ids
}

// committedBy returns the ids of an agent's events.
func (w *world) committedBy(agent string) []event.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []event.ID
	for _, e := range w.events {
		if e.AgentID == agent {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (w *world) wantAllInOrder(agents ...string) {
	w.t.Helper()
	for _, a := range agents {
		w.wantTaken(a, w.committedBy(a)...)
	}
}

// wantTaken checks that the receiver took these events of an agent only.
func (w *world) wantTaken(agent string, ids ...event.ID) {
	w.t.Helper()
	if got := w.takenFrom(agent); !slices.Equal(got, ids) {
		w.t.Errorf("agent %q: the receiver took %v, want %v", agent, got, ids)
	}
}

// Send implements webhook.Sender.
func (w *world) Send(_ context.Context, m webhook.Message) webhook.Result {
	var e event.View
	if err := json.Unmarshal(m.Body, &e); err != nil || string(e.ID) != m.ID {
		w.t.Errorf("message %s has the body %s (%v)", m.ID, m.Body, err)
	}
	agent := ""
	if e.AgentID != nil {
		agent = *e.AgentID
	}
	w.mu.Lock()
	answer := w.answer
	w.attempted = append(w.attempted, m.ID+" "+agent)
	w.mu.Unlock()
	result := webhook.Result{HTTPStatus: 200}
	if answer != nil {
		result = answer(e)
	}
	if result.OK() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.received = append(w.received, m.ID+" "+agent)
	}
	return result
}

// List implements webhook.Events.
func (w *world) List(_ context.Context, organizationID string, f event.Filter, after event.ID, limit int) (
	event.Batch, error,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := event.Batch{Next: after}
	if after.Time().Before(w.now.Add(-event.Retention)) {
		return b, event.CursorExpired()
	}
	for _, e := range w.events {
		if e.ID <= after || e.OrganizationID != organizationID {
			continue
		}
		if len(b.Events) == limit {
			b.More = true
			break
		}
		if b.Next = e.ID; f.Matches(e) {
			b.Events = append(b.Events, e)
		}
	}
	return b, nil
}

// Get implements webhook.Events.
func (w *world) Get(_ context.Context, _ string, id event.ID) (event.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.ID == id {
			return e, nil
		}
	}
	return event.Event{}, event.NotFound()
}

// NudgeWebhook implements webhook.Nudger.
func (w *world) NudgeWebhook(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nudged = append(w.nudged, id)
	return nil
}

// Load implements webhook.WorkerStore.
func (w *world) Load(_ context.Context, id string) (webhook.Webhook, error) {
	found, ok := w.get(id)
	if !ok {
		return found, webhook.NotFound()
	}
	return found, nil
}

// Update implements webhook.WorkerStore. It reads the record again only if the one of the caller is not the newest.
func (w *world) Update(ctx context.Context, found webhook.Webhook, done webhook.Done,
	change func(*webhook.Webhook) error,
) (webhook.Webhook, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Webhook{}, err
	}
	if w.beforeUpdate != nil {
		if err := w.beforeUpdate(found, done); err != nil {
			return webhook.Webhook{}, err
		}
	}
	if len(done.Deliveries) > webhook.MaxDone {
		w.t.Errorf("a commit of %d deliveries, want at most %d", len(done.Deliveries), webhook.MaxDone)
	}
	for {
		changed := found
		if err := change(&changed); err != nil || w.save(found.Version, &changed, done) {
			return changed, err
		}
		var ok bool
		if found, ok = w.get(found.ID); !ok {
			return found, webhook.NotFound()
		}
	}
}

func (w *world) get(id string) (webhook.Webhook, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.records[id]
	return found, ok
}

// save writes a record if it still has the version that was read.
func (w *world) save(read string, changed *webhook.Webhook, done webhook.Done) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[changed.ID].Version != read {
		return false
	}
	w.version++
	changed.Version = fmt.Sprint(w.version)
	w.records[changed.ID] = *changed
	for _, d := range done.Deliveries {
		w.deliveries[d.ID] = d
	}
	w.written = append(w.written, done.Events...)
	return true
}

// LoadDeliveries implements webhook.WorkerStore.
func (w *world) LoadDeliveries(_ context.Context, ids ...string) (map[string]webhook.Delivery, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]webhook.Delivery{}
	for _, id := range ids {
		if d, ok := w.deliveries[id]; ok {
			found[id] = d
		}
	}
	return found, nil
}

// ListDue implements webhook.WorkerStore.
func (w *world) ListDue(_ context.Context, now time.Time, limit int) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []webhook.Webhook
	for _, found := range w.records {
		if !found.DueAt.IsZero() && !found.DueAt.After(now) {
			due = append(due, found)
		}
	}
	slices.SortFunc(due, func(a, b webhook.Webhook) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.ID, b.ID))
	})
	var ids []string
	for _, found := range due[:min(len(due), limit)] {
		ids = append(ids, found.ID)
	}
	return ids, nil
}

// ListEnabled implements webhook.WorkerStore.
func (w *world) ListEnabled(_ context.Context, organizationID string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id, found := range w.records {
		if found.OrganizationID == organizationID && found.Status == webhook.Enabled {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
