package simulationtest

import (
	"context"
	"net/http"
	"slices"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// instances is how many instances of the services run. Each has a notifier, which its processes share.
const instances = 3

// newNotifier is that of an instance that has just started, and knows nothing.
func (w *World) newNotifier() *webhook.Notifier {
	return &webhook.Notifier{Store: sharedClient{world: w}, Nudger: sharedClient{world: w}, Now: w.Now}
}

// sharedClient is the client that a notifier has of the database and the queue. Its calls are those of the process in
// the context.
type sharedClient struct {
	webhook.WorkerStore
	world *World
}

// inProcess is the key of the process in a context.
type inProcess struct{}

func processIn(ctx context.Context) *Process {
	p, _ := ctx.Value(inProcess{}).(*Process)
	return p
}

// ListEnabled implements webhook.WorkerStore.
func (c sharedClient) ListEnabled(ctx context.Context, organizationID string) ([]string, error) {
	return c.world.webhookStore("notifier", processIn(ctx)).ListEnabled(ctx, organizationID)
}

// NudgeWebhook implements webhook.Nudger.
func (c sharedClient) NudgeWebhook(ctx context.Context, id string) error {
	return c.world.webhookPublisher(processIn(ctx)).NudgeWebhook(ctx, id)
}

// report makes the process nudge the webhooks after its commit, before it answers.
func (w *World) report(kind string, p *Process) func(context.Context) {
	if !w.setup.webhooks() {
		return func(context.Context) {}
	}
	return func(ctx context.Context) {
		notifier := w.notifiers[w.Choose(instances)]
		nudge := func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
			defer cancel()
			notifier.EventCommitted(context.WithValue(ctx, inProcess{}, p), organizationID)
		}
		if w.Plant.Report != nil {
			w.Plant.Report(w, kind, nudge)
		} else {
			nudge()
		}
	}
}

// reportTime is how long a change waits for the nudges of its webhooks.
const reportTime = time.Second

// webhookPublisher publishes nudges of webhooks.
func (w *World) webhookPublisher(p Stepper) Publisher {
	return Publisher{Queue: w.webhookQueue, Process: p, Scheduler: w.Scheduler}
}

// webhookStore is a process's store of webhooks.
func (w *World) webhookStore(kind string, p *Process) webhook.WorkerStore {
	return Webhooks{Database: w.Database, Process: p, Report: w.report(kind, p)}
}

// deliverWebhook starts a worker with a nudge of a webhook.
func (w *World) deliverWebhook(m *message) {
	m.delivered, m.since = true, w.Elapsed()
	m.attempts++
	w.webhookWorkers++
	attempt := m.attempts
	w.start("webhook worker", func(ctx context.Context, p *Process) error {
		ctx, cancel := context.WithTimeout(ctx, webhookPushTime)
		defer cancel()
		err := (&webhook.Deliverer{
			Store: w.webhookStore("webhook worker", p), Events: EventLog{Database: w.Database, Process: p},
			Sender: sender{world: w, process: p}, Secrets: unsigned{}, Nudger: w.webhookPublisher(p), Now: p.Now,
			Random: func() float64 { return 0.5 },
		}).Deliver(ctx, m.agentID)
		if p.crashed {
			err = &Error{Verdict: CrashesAfter, Step: "delivery"}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.webhookWorkers--
		if m.attempts == attempt || err == nil {
			w.webhookQueue.end(m, err, w.Elapsed())
		}
		return err
	})
}

// webhookPushTime is how long a delivery of a webhook's nudge may take.
const webhookPushTime = 30 * time.Second

// webhookDeliveries lists what the queue of webhooks can do.
func (w *World) webhookDeliveries(actions []Action) []Action {
	if !w.setup.webhooks() {
		return actions
	}
	now := w.Elapsed()
	// The nudges of webhooks have no dead letters: the sweep repeats them.
	w.webhookQueue.dead = nil
	for _, m := range w.webhookQueue.messages {
		expired := m.delivered && now-m.since >= webhookPushTime
		if (!m.delivered && m.notBefore <= now || expired) && w.webhookWorkers < w.setup.Workers {
			actions = append(actions, Action{"delivers", "webhook " + m.label(), func() { w.deliverWebhook(m) }})
		}
	}
	if u := &w.setup; u.ReceiverDown > 0 && !w.quiet && w.Chance(0.1) {
		actions = append(actions, Action{"receiver", "goes down", func() {
			w.receiver.refuses = u.ReceiverStatus
			until := now + u.ReceiverDown
			u.ReceiverDown = 0
			w.later("receiver is back", until, func() { w.receiver.refuses, w.receiver.upSince = 0, w.Elapsed() })
		}})
	}
	if !w.quiet && w.Chance(0.02) {
		actions = append(actions, Action{"instance", "is replaced", func() {
			w.notifiers[w.Choose(instances)] = w.newNotifier()
		}})
	}
	return actions
}

// sweepWebhooks starts the sweep of webhooks.
func (w *World) sweepWebhooks() {
	w.start("webhook sweep", func(ctx context.Context, p *Process) error {
		return (&webhook.Sweeper{
			Store: w.webhookStore("webhook sweep", p), Nudger: w.webhookPublisher(p), Now: p.Now,
		}).Sweep(ctx)
	})
}

// webhookID is the id of the webhook with a number.
func webhookID(n int) string { return agentID(0x1000 + n) }

// handleWebhook does what the routes of webhooks do. handled is false for another call.
func (w *World) handleWebhook(ctx context.Context, p *Process, action string) (handled bool, err error) {
	s := Webhooks{Database: w.Database, Process: p, Report: w.report("api", p)}
	now := p.Now().UTC()
	change := func(apply func(*webhook.Webhook) (*webhook.Delivery, error)) error {
		ids := w.Database.webhookIDs()
		if len(ids) == 0 {
			return webhook.NotFound()
		}
		if err := s.Change(ctx, ids[0], apply); err != nil {
			return err
		}
		_ = w.webhookPublisher(p).NudgeWebhook(ctx, ids[0]) // the sweep makes up for it
		return nil
	}
	switch action {
	case "add webhook":
		w.mu.Lock()
		id := webhookID(w.webhooksMade)
		w.webhooksMade++
		w.mu.Unlock()
		return true, s.Create(ctx, newWebhook(id, now))
	case "enable webhook", "disable webhook":
		return true, change(func(hook *webhook.Webhook) (*webhook.Delivery, error) {
			if action == "enable webhook" {
				hook.Enable(now)
			} else {
				hook.Disable(webhook.DisabledByRequest)
			}
			return nil, nil
		})
	case "only changes of status", "all types":
		return true, change(func(hook *webhook.Webhook) (*webhook.Delivery, error) {
			hook.Types = nil
			if action != "all types" {
				w.narrowed = true
				hook.Types = statusTypes()
			}
			hook.UpdatedAt = now
			return nil, nil
		})
	case "another receiver":
		return true, change(func(hook *webhook.Webhook) (*webhook.Delivery, error) {
			hook.SetURL(hook.ID+"?"+now.String(), now)
			return nil, nil
		})
	case "delete webhook":
		return true, s.Delete(ctx, webhookID(0))
	case "test webhook":
		return true, change(func(hook *webhook.Webhook) (*webhook.Delivery, error) {
			d := webhook.NewTest(*hook, uint64(now.UnixNano()), now) //nolint:gosec // names a delivery
			d.Again(now)
			return &d, hook.Request(d.ID, now)
		})
	case "redeliver":
		return true, w.redeliver(ctx, change, p)
	default:
		return false, nil
	}
}

// redeliver asks for one more attempt of the latest delivery of the first webhook.
func (w *World) redeliver(
	ctx context.Context, change func(func(*webhook.Webhook) (*webhook.Delivery, error)) error, p *Process,
) error {
	return change(func(hook *webhook.Webhook) (*webhook.Delivery, error) {
		var last webhook.Delivery
		err := p.Look(ctx, DatabaseService, "get delivery", func() error {
			for _, d := range w.Database.deliveries {
				if d.EventType != event.WebhookTest && d.WebhookID == hook.ID && d.EventID > last.EventID {
					last = d
				}
			}
			return nil
		})
		if err != nil || last.ID == "" {
			return nil, read(err)
		}
		last.Attempts = slices.Clone(last.Attempts)
		return &last, hook.Redeliver(&last, w.stamp(p))
	})
}

// newWebhook is the record of a new webhook.
func newWebhook(id string, now time.Time) webhook.Webhook {
	hook := webhook.Webhook{
		ID: id, OrganizationID: organizationID, URL: id, SecretVersion: 1, CreatedAt: now, UpdatedAt: now,
		Position: event.After(now),
	}
	hook.Enable(now)
	return hook
}

// statusTypes are the types that a narrowed webhook wants.
func statusTypes() []event.Type {
	return []event.Type{event.AgentRunning, event.AgentStopped, event.AgentPaused}
}

// webhookScripts are the calls of a client of webhooks.
func webhookScripts() [][]string {
	return [][]string{
		{"patch", "patch"},
		{"test webhook", "patch"},
		{"disable webhook", "patch", "enable webhook"},
		{"patch", "redeliver"},
		{"add webhook", "patch"},
		{"only changes of status", "patch", "all types"},
		{"patch", "another receiver", "patch"},
		{"add webhook", "patch", "delete webhook", "patch"},
		{"enable webhook", "patch"},
		{"redeliver", "redeliver"},
		{"restart", "test webhook", "enable webhook"},
	}
}

// webhookAgain makes a client change an agent once everything is at rest, so that nothing but its own calls can delay
// the events. It reports whether it sent anything.
func (w *World) webhookAgain() bool {
	if !w.setup.webhooks() || w.calmCalls {
		return false
	}
	w.calmCalls = true
	scripts := [][]string{
		{"patch"},
		{"add webhook", "patch"},
		{"disable webhook", "patch", "enable webhook", "patch"},
		{"enable webhook", "patch", "redeliver"},
		{"test webhook", "patch"},
		{"another receiver", "patch"},
	}
	w.clients = append(w.clients, &client{name: "client in the calm", script: scripts[w.Choose(len(scripts))]})
	return true
}

// arrangeWebhooks gives the organization a webhook.
func arrangeWebhooks(s *Scheduler, u *Setup) {
	u.Webhooks = 1
	u.Start = agent.Running
	scripts := webhookScripts()
	u.Scripts = [][]string{scripts[s.Choose(len(scripts))], scripts[s.Choose(len(scripts))]}
	if s.Choose(2) == 0 {
		u.ReceiverDown = []time.Duration{
			time.Minute, 20 * time.Minute, 3 * time.Hour, 40 * time.Hour, 80 * time.Hour,
		}[s.Choose(5)]
		u.ReceiverStatus = http.StatusServiceUnavailable
		if s.Choose(5) == 0 {
			u.ReceiverStatus = http.StatusGone
		}
	}
	u.ClockJumps = s.Choose(2) * s.Choose(2)
}

func (u Setup) webhooks() bool { return u.Webhooks > 0 }

// addWebhooks makes the webhooks with which the schedule begins.
func (w *World) addWebhooks() {
	w.Database.now = w.Now
	for range w.setup.Webhooks {
		id := webhookID(w.webhooksMade)
		w.webhooksMade++
		w.Database.Commits++
		w.Database.webhooks[id] = webhookDocument{version: w.Database.Commits, webhook: newWebhook(id, w.Now())}
	}
	for range instances {
		w.notifiers = append(w.notifiers, w.newNotifier())
	}
}

// lacks reports whether a webhook must still deliver an event.
func (w *World) lacks(hook webhook.Webhook, e event.Event) bool {
	return !w.receiver.took[hook.ID][e.ID] && e.CreatedAt.After(hook.CreatedAt) &&
		(!w.narrowed || slices.Contains(statusTypes(), e.Type)) &&
		w.Database.deliveries[webhook.DeliveryID(hook.ID, e.ID)].Status != webhook.Failed
}

// webhookBusy reports whether a webhook has work that does not wait for another event.
func (w *World) webhookBusy(hook webhook.Webhook) bool {
	switch {
	case len(hook.Requests) > 0 || hook.LeaseUntil.After(w.Now()):
		return true
	case hook.Status != webhook.Enabled:
		return false
	}
	return len(hook.Lanes) > 0 ||
		slices.ContainsFunc(w.Database.log, func(e event.Event) bool { return w.lacks(hook, e) })
}

// webhooksDue is when a webhook with work is due; zero for never.
func (w *World) webhooksDue() (due time.Time) {
	for _, id := range w.Database.webhookIDs() {
		hook := w.Database.webhooks[id].webhook
		if at := hook.DueAt; !at.IsZero() && (due.IsZero() || at.Before(due)) && w.webhookBusy(hook) {
			due = at
		}
	}
	return due
}
