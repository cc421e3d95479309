package simulationtest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/webhook"
)

// Queue is the simulated message queue with the settings of the real one: it delivers a message again until it is
// acknowledged, with a growing wait, and then gives it up.
type Queue struct {
	messages []*message
	dead     []*message
	// Published and Delivered count.
	Published, Delivered int
	// Twice makes two messages of each.
	Twice  bool
	number int
}

// message is a nudge.
type message struct {
	agentID   string
	number    int
	attempts  int
	notBefore time.Duration
	delivered bool
	since     time.Duration
	// swept and observed: the sweep or the notifier published it.
	swept, observed bool
	// wake: a request waits for the agent, since asked at the latest.
	wake  bool
	asked time.Time
}

// The settings of the subscription.
const (
	minBackOff    = 10 * time.Second
	maxBackOff    = 600 * time.Second
	maxDeliveries = 20
	// pushTime is how long a delivery may take.
	pushTime = 600 * time.Second
)

// publish adds a message, or two of them.
func (q *Queue) publish(id string, at time.Duration) []*message {
	q.Published++
	copies := 1
	if q.Twice {
		copies = 2
	}
	for range copies {
		q.number++
		q.messages = append(q.messages, &message{agentID: id, number: q.number, notBefore: at})
	}
	return q.messages[len(q.messages)-copies:]
}

// end records the answer to a delivery.
func (q *Queue) end(m *message, err error, now time.Duration) {
	m.delivered = false
	switch {
	case err == nil:
		q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == m })
	case m.attempts >= maxDeliveries:
		q.messages = slices.DeleteFunc(q.messages, func(other *message) bool { return other == m })
		q.dead = append(q.dead, m)
	default:
		m.notBefore = now + min(maxBackOff, minBackOff<<min(m.attempts-1, 10))
	}
}

// label names a message in traces.
func (m *message) label() string { return "message " + strconv.Itoa(m.number) }

// Publisher is one process's client of the queue. It implements agent.Nudger and webhook.Nudger.
type Publisher struct {
	Queue     *Queue
	Process   Stepper
	Scheduler *Scheduler
	// Swept marks the messages as those of the sweep.
	Swept bool
}

var (
	_ agent.Nudger   = Publisher{}
	_ webhook.Nudger = Publisher{}
)

// Nudge implements agent.Nudger.
func (p Publisher) Nudge(ctx context.Context, id string) error {
	return portError(p.Process.About(id).Step(ctx, QueueService, "nudge", func() error {
		for _, m := range p.Queue.publish(id, p.Scheduler.Elapsed()) {
			m.swept = p.Swept
		}
		return nil
	}), func() error { return fault.New(fault.Unavailable, "queue_unavailable", "The queue is unavailable.") })
}

// NudgeWebhook implements webhook.Nudger.
func (p Publisher) NudgeWebhook(ctx context.Context, id string) error { return p.Nudge(ctx, id) }
