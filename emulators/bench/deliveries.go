package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/pubsubemu"
	"agents.example/controlplane/functions/workers"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/infra/webhooksender"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/webhook"
)

const (
	// backlog is how many events a receiver gets at most that was away, and backlogAgents are the agents that they are
	// about.
	backlog, backlogAgents = 10_000, 40
	// deliveryRounds is how many changes are delivered one after the other.
	deliveryRounds = 200
	// deliveryTime and backlogTime are the targets of a delivery and of a backlog, compared with the least that can be
	// done: a message that makes a worker send one request, and as many requests without a record of any.
	deliveryTime, backlogTime = 3, 3
	// leastSenders is how many requests of the comparison are sent concurrently, as many as a webhook sends.
	leastSenders = 8
)

// deliveries measures the way of an event from its commit to a receiver: through Pub/Sub, the worker and HTTP.
type deliveries struct {
	*deployment
	of      context.Context // of the webhook's organization
	sender  *webhooksender.Sender
	url     string
	secrets webhook.Secrets
	nudger  *pubsub.Publisher
	least   *pubsub.Publisher // its messages make a worker send one request
	// arrived receives the time when a request reaches the receiver.
	arrived chan time.Time
}

// measureDeliveries measures P21: how long an event takes from its commit to the receiver of a webhook, and how long a
// backlog takes.
func measureDeliveries(ctx context.Context, l *environment, d *deployment) (Report, error) {
	m, err := newDeliveries(ctx, l, d)
	if err != nil {
		return Report{}, err
	}
	latency, err := m.measureLatency(ctx, min(deliveryRounds, l.provisions))
	if err != nil {
		return Report{}, err
	}
	pace, err := m.measureBacklog(ctx, min(backlog, 50*l.provisions))
	return Report{Rows: append(latency, pace)}, err
}

func newDeliveries(ctx context.Context, l *environment, d *deployment) (*deliveries, error) {
	m := &deliveries{
		deployment: d, arrived: make(chan time.Time, backlog),
		sender: webhooksender.New(webhooksender.Options{Policy: webhook.URLPolicy{AllowLoopback: true}}),
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		m.arrived <- time.Now()
	}))
	m.url = receiver.URL
	d.closers = append(d.closers, func() error { receiver.Close(); return nil })
	var err error
	if m.secrets, err = webhook.NewSecrets([]byte(strings.Repeat("k", webhook.MinKeyBytes))); err != nil {
		return nil, err
	}
	if m.of, _, err = d.createOrganization(ctx); err != nil {
		return nil, err
	}
	if err := m.startPubSub(ctx, l); err != nil {
		return nil, err
	}
	notifier := &webhook.Notifier{Store: d.records.WebhookWorkerStore(), Nudger: m.nudger, Now: time.Now}
	d.records.OnEvents(notifier.EventCommitted)
	return m, nil
}

// startPubSub pushes the nudges of webhooks to the worker, and those of m.least to one that sends one request.
func (m *deliveries) startPubSub(ctx context.Context, l *environment) error {
	emulator, err := pubsubemu.Start(ctx, pubsubemu.Options{Choice: gcloud.Embedded, Dir: l.dir})
	if err != nil {
		return err
	}
	m.closers = append(m.closers, emulator.Close)
	const topic, leastTopic = "webhook-nudges", "least"
	open := func(topic string) (*pubsub.Publisher, error) {
		p, err := pubsub.Open(ctx, pubsub.Options{
			ProjectID: m.project, Topic: topic, WebhookTopic: topic, EmulatorHost: emulator.Host,
		})
		if err == nil {
			m.closers = append(m.closers, p.Close)
		}
		return p, err
	}
	if m.nudger, err = open(topic); err != nil {
		return err
	}
	if m.least, err = open(leastTopic); err != nil {
		return err
	}
	worker := workers.Deliver(&webhook.Deliverer{
		Store: m.records.WebhookWorkerStore(), Events: m.records.EventLog(), Sender: m.sender, Secrets: m.secrets,
		Nudger: m.nudger, Now: time.Now, Random: rand.Float64,
	})
	least := function.Worker{Name: "Least", Handle: func(ctx context.Context, _ function.Message) error {
		return m.send(ctx)
	}}
	dispatcher, err := pubsubemu.StartDispatcher(ctx, pubsubemu.DispatcherOptions{
		Host: emulator.Host, Project: m.project, Token: func(string) (string, error) { return "token", nil },
		Subscriptions: []pubsubemu.Subscription{
			m.pushTo(worker, topic), m.pushTo(least, leastTopic),
		},
	})
	if err != nil {
		return err
	}
	m.closers = append(m.closers, dispatcher.Close)
	return nil
}

func (m *deliveries) pushTo(worker function.Worker, topic string) pubsubemu.Subscription {
	server := httptest.NewServer(worker.Handler(anyone{}))
	m.closers = append(m.closers, func() error { server.Close(); return nil })
	return pubsubemu.Subscription{
		Topic: topic, Name: topic, Endpoint: server.URL, AckDeadline: 30 * time.Second, MinBackoff: 10 * time.Second,
		MaxBackoff: 10 * time.Minute,
	}
}

// anyone implements function.PushVerifier.
type anyone struct{}

func (anyone) Verify(context.Context, string) error { return nil }

// send sends one signed message.
func (m *deliveries) send(ctx context.Context) error {
	w := webhook.Webhook{ID: newID(), SecretVersion: 1}
	secret, err := m.secrets.Of(w)
	if err != nil {
		return err
	}
	e := event.Event{ID: event.NewID(time.Now(), event.RecordID(1), 0), Type: event.AgentUpdated, Data: json.RawMessage(`{}`)}
	body, err := json.Marshal(e.Show())
	if err != nil {
		return err
	}
	result := m.sender.Send(ctx, webhook.Message{
		URL: m.url, ID: string(e.ID), At: time.Now(), Body: body, Secrets: []webhook.Secret{secret},
	})
	if !result.OK() {
		return fmt.Errorf("the receiver answered %+v", result)
	}
	return nil
}

// createWebhook creates a webhook of the organization, for changed agents.
func (m *deliveries) createWebhook(of context.Context) (webhook.Webhook, error) {
	return m.deps.Webhooks.Create(of, webhook.Webhook{
		ID: uuid.NewString(), URL: m.url, Status: webhook.Enabled, SecretVersion: 1, CreatedAt: time.Now(),
		DueAt: time.Now(), Types: []event.Type{event.AgentUpdated},
	})
}

// rename changes an agent, which is an event.
func (m *deliveries) rename(of context.Context, id string, to int) error {
	_, err := m.deps.Agents.Change(of, id, func(a *agent.Agent) error { a.Name = fmt.Sprint("agent ", to); return nil })
	return err
}

// measureLatency changes an agent with a webhook, and one without after which a message makes a worker send a request.
func (m *deliveries) measureLatency(ctx context.Context, n int) ([]Row, error) {
	other, _, err := m.createOrganization(ctx)
	if err != nil {
		return nil, err
	}
	idle, err := m.createRecord(other)
	if err != nil {
		return nil, err
	}
	hook, err := m.createWebhook(m.of)
	if err != nil {
		return nil, err
	}
	a, err := m.createRecord(m.of)
	if err != nil {
		return nil, err
	}
	var ours, least []float64
	for i := range n {
		took, err := m.arrival(ctx, func() error { return m.rename(m.of, a.ID, i) })
		if err != nil {
			return nil, err
		}
		ours = append(ours, took)
		took, err = m.arrival(ctx, func() error {
			return errors.Join(m.rename(other, idle.ID, i), m.least.NudgeWebhook(ctx, newID()))
		})
		if err != nil {
			return nil, err
		}
		least = append(least, took)
	}
	row := func(what string, percent int) Row {
		return Row{
			ID: "P21", What: "change to delivery, " + what, Ours: percentile(ours, percent),
			Limit: percentile(least, percent), Unit: "ms", Most: deliveryTime, Timed: true,
			Note: "limit: a message after the change makes a worker send a request",
		}
	}
	return []Row{row("p50", 50), row("p99", 99)}, m.deps.Webhooks.Delete(m.of, hook.ID)
}

func percentile(v []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[(len(sorted)-1)*percent/100]
}

// arrival returns how many milliseconds after the beginning of a change the receiver got its request.
func (m *deliveries) arrival(ctx context.Context, change func() error) (float64, error) {
	begun := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	at, err := m.await(ctx, 1)
	return milliseconds(at.Sub(begun)), err
}

// await returns when the receiver got the last of n requests.
func (m *deliveries) await(ctx context.Context, n int) (last time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i := range n {
		select {
		case last = <-m.arrived:
		case <-ctx.Done():
			return last, fmt.Errorf("%d of %d requests arrived: %w", i, n, ctx.Err())
		}
	}
	return last, nil
}

// measureBacklog lets events gather for a webhook that is disabled, and enables it.
func (m *deliveries) measureBacklog(ctx context.Context, n int) (Row, error) {
	of, hook, err := m.gather(n)
	if err != nil {
		return Row{}, err
	}
	begun := time.Now()
	_, err = m.deps.Webhooks.Change(of, hook.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
		w.Enable(time.Now())
		return nil, nil
	})
	if err := errors.Join(err, m.nudger.NudgeWebhook(ctx, hook.ID)); err != nil {
		return Row{}, err
	}
	last, err := m.await(ctx, n)
	if err != nil {
		return Row{}, err
	}
	ours := last.Sub(begun)
	begun = time.Now()
	all, sending := errgroup.WithContext(ctx)
	all.SetLimit(leastSenders)
	for range n {
		all.Go(func() error { return m.send(sending) })
	}
	if err := all.Wait(); err != nil {
		return Row{}, err
	}
	if last, err = m.await(ctx, n); err != nil {
		return Row{}, err
	}
	return Row{
		ID: "P21", What: fmt.Sprintf("%s events to a receiver that was away", withThousands(int64(n))),
		Ours: milliseconds(ours), Limit: milliseconds(last.Sub(begun)), Unit: "ms", Most: backlogTime, Timed: true,
		Note: fmt.Sprintf("%.0f events/s; limit: as many signed requests, %d concurrently", float64(n)/ours.Seconds(),
			leastSenders),
	}, nil
}

// gather creates a disabled webhook and events for it.
func (m *deliveries) gather(n int) (context.Context, webhook.Webhook, error) {
	of := m.of
	var agents []string
	for range backlogAgents {
		a, err := m.createRecord(of)
		if err != nil {
			return of, webhook.Webhook{}, err
		}
		agents = append(agents, a.ID)
	}
	hook, err := m.createWebhook(of)
	if err != nil {
		return of, hook, err
	}
	disable := func(w *webhook.Webhook) (*webhook.Delivery, error) {
		w.Disable(webhook.DisabledByRequest)
		return nil, nil
	}
	if hook, err = m.deps.Webhooks.Change(of, hook.ID, disable); err != nil {
		return of, hook, err
	}
	for i := range n {
		if err := m.rename(of, agents[i%len(agents)], i); err != nil {
			return of, hook, err
		}
	}
	return of, hook, nil
}
