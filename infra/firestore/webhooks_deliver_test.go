package firestore

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/webhook"
)

// receiver notes what it takes, by agent.
type receiver struct {
	mu    sync.Mutex
	taken map[string][]string
	down  bool
}

// Send implements webhook.Sender.
func (r *receiver) Send(_ context.Context, m webhook.Message) webhook.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return webhook.Result{Reason: webhook.ReasonConnect}
	}
	var e event.View
	if err := json.Unmarshal(m.Body, &e); err != nil || e.AgentID == nil {
		return webhook.Result{HTTPStatus: 400, Reason: webhook.ReasonStatus}
	}
	r.taken[*e.AgentID] = append(r.taken[*e.AgentID], string(e.Data))
	return webhook.Result{HTTPStatus: 200}
}

// NudgeWebhook implements webhook.Nudger. The test runs the webhook again anyway.
func (r *receiver) NudgeWebhook(context.Context, string) error { return nil }

// TestWebhooks_DeliverTheEventLog delivers events of the real log from the real store: in the order of each agent, and
// after the receiver was down for a while.
func TestWebhooks_DeliverTheEventLog(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(org.Ctx, func() webhook.Webhook {
		w := newWebhook()
		w.Types = nil
		return w
	}())
	must(t, err)
	secrets, err := webhook.NewSecrets(bytes.Repeat([]byte("k"), webhook.MinKeyBytes))
	must(t, err)
	to, now := &receiver{taken: map[string][]string{}}, time.Now()
	d := &webhook.Deliverer{
		Store: c.WebhookWorkerStore(), Events: c.EventLog(), Sender: to, Secrets: secrets, Nudger: to,
		Now: func() time.Time { return now }, Random: func() float64 { return 0 },
		Wait: func(_ context.Context, long time.Duration) error { now = now.Add(long); return nil },
	}
	want := map[string][]string{}
	happen := func(agent, data string) {
		b := c.batch()
		c.writeEvents(b, org.ID, agent, []event.Draft{event.New(event.AgentUpdated, data)})
		_, err := c.commit(t.Context(), b)
		must(t, err)
		want[agent] = append(want[agent], `"`+data+`"`)
	}
	one, two := agenttest.ID(), agenttest.ID()
	for i, down := range []bool{false, true, true, false} {
		to.down = down
		for j := range 30 {
			happen([]string{one, two}[j%2], string(rune('a'+i))+string(rune('a'+j)))
		}
		now = now.Add(time.Hour)
		must(t, d.Deliver(t.Context(), created.ID))
	}
	for _, agent := range []string{one, two} {
		if !slices.Equal(to.taken[agent], want[agent]) {
			t.Errorf("agent %s: the receiver took %v, want %v", agent, to.taken[agent], want[agent])
		}
	}

	// Three days of failures disable the webhook, which is an event.
	to.down = true
	for range 80 {
		happen(one, "x")
		now = now.Add(time.Hour)
		must(t, d.Deliver(t.Context(), created.ID))
	}
	w, err := c.Webhooks().Get(org.Ctx, created.ID)
	must(t, err)
	if w.Status != webhook.Disabled || w.DisabledReason != webhook.DisabledFailing {
		t.Errorf("after 80 hours of failures the webhook is %s (%s)", w.Status, w.DisabledReason)
	}
	b, err := c.EventLog().List(t.Context(), org.ID, event.Filter{Type: event.WebhookDisabled}, "", 10)
	must(t, err)
	if len(b.Events) != 1 || b.Events[0].AgentID != "" {
		t.Errorf("the log has %v, want one webhook.disabled", b.Events)
	}
}
