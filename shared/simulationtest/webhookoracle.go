package simulationtest

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// promptness is how soon a healthy receiver has an event.
const promptness = 90 * time.Second

// checkDeliveries checks that the receiver gets events soon, once nothing fails any more, and each agent's in order.
func (w *World) checkDeliveries() {
	if !w.setup.webhooks() {
		return
	}
	for _, id := range w.Database.webhookIDs() {
		hook := w.Database.webhooks[id].webhook
		w.checkOrder(hook)
		w.checkPromptness(hook)
	}
}

// checkOrder checks that the receiver took the events of each agent in their order, apart from repeats.
func (w *World) checkOrder(hook webhook.Webhook) {
	first := w.receiver.first[hook.ID]
	if len(first) == w.ordered[hook.ID] {
		return
	}
	w.ordered[hook.ID] = len(first)
	last := map[string]event.ID{}
	for _, id := range first {
		i, known := slices.BinarySearchFunc(w.Database.log, id, func(e event.Event, id event.ID) int {
			if e.ID < id {
				return -1
			}
			if e.ID > id {
				return 1
			}
			return 0
		})
		if !known {
			continue // a test event
		}
		e := w.Database.log[i]
		given := w.Database.deliveries[webhook.DeliveryID(hook.ID, e.ID)]
		if e.ID < last[e.AgentID] && len(given.Attempts) < 2 {
			w.violate("order", "the receiver took the event %s of agent %s after a later one", e.Type, short(e.AgentID))
		}
		last[e.AgentID] = max(last[e.AgentID], e.ID)
	}
}

// calm reports since when nothing can delay the events of a webhook; false if something can.
func (w *World) calm(hook webhook.Webhook) (since time.Duration, ok bool) {
	since = max(w.quietSince, w.receiver.upSince)
	ok = w.quiet && w.receiver.refuses == 0 && !w.clocksJumped && hook.Status == webhook.Enabled
	return since, ok
}

// checkPromptness checks that no event waits. The events before the calm, and those behind them, wait for the next
// attempt of their agent.
func (w *World) checkPromptness(hook webhook.Webhook) {
	since, calm := w.calm(hook)
	if !calm || len(hook.Lanes) > 0 {
		delete(w.promptFrom, hook.ID)
		return
	}
	from, known := w.promptFrom[hook.ID]
	if !known {
		w.promptFrom[hook.ID] = len(w.Database.log)
		return
	}
	for _, e := range w.Database.log[from:] {
		age := w.Elapsed() - e.CreatedAt.Sub(epoch) + w.jumped
		if age <= promptness+2*w.setup.Skew || w.Elapsed()-since < 3*time.Minute {
			continue
		}
		if w.lacks(hook, e) {
			w.violate("prompt", "the event %s is %v old, and its receiver has not got it: webhook %+v", e.Type, age,
				hook)
			return
		}
	}
}

// checkWebhooksAtRest checks what must hold once nothing is left to do.
func (w *World) checkWebhooksAtRest() {
	for _, id := range w.Database.webhookIDs() {
		hook := w.Database.webhooks[id].webhook
		switch {
		case hook.LeaseUntil.After(w.Now()) || len(hook.Requests) > 0:
			w.violate("webhooks", "the webhook is at rest with the lease %q and the requests %v", hook.LeaseHolder,
				hook.Requests)
		case hook.Status == webhook.Enabled && len(hook.Lanes) > 0:
			w.violate("webhooks", "the webhook is at rest with the lanes %+v", hook.Lanes)
		case hook.Status == webhook.Disabled && hook.DisabledReason != webhook.DisabledByRequest &&
			!slices.ContainsFunc(w.Database.log, func(e event.Event) bool { return e.Type == event.WebhookDisabled }):
			w.violate("webhooks", "the webhook was disabled (%s) without an event", hook.DisabledReason)
		}
		for _, e := range w.Database.log {
			if hook.Status == webhook.Enabled && w.lacks(hook, e) {
				w.violate("taken", "the receiver never got %+v; webhook %+v", e, hook)
			}
		}
		for _, d := range w.Database.deliveries {
			if d.WebhookID == id && d.Status == webhook.Pending && (hook.Status == webhook.Enabled ||
				!slices.ContainsFunc(hook.Lanes, func(l webhook.Lane) bool { return l.Head == d.EventID })) {
				w.violate("pending", "a delivery of %s stays pending: %+v", d.EventType, d)
			}
		}
	}
}
