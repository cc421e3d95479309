package simulationtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/webhook"
)

// Receiver is the customers' server that takes the messages of all webhooks.
type Receiver struct {
	// refuses is the status of its answers while it is down; 0 while it takes messages.
	refuses int
	// first lists the events that it took, by webhook, in the order in which it took them first.
	first map[string][]event.ID
	took  map[string]map[event.ID]bool
	// upSince is when it began to take messages again.
	upSince time.Duration
}

func newReceiver() Receiver {
	return Receiver{first: map[string][]event.ID{}, took: map[string]map[event.ID]bool{}}
}

// take takes a message, or refuses it.
func (r *Receiver) take(webhookID string, id event.ID) (status int) {
	if r.refuses != 0 {
		return r.refuses
	}
	if r.took[webhookID] == nil {
		r.took[webhookID] = map[event.ID]bool{}
	}
	if !r.took[webhookID][id] {
		r.first[webhookID] = append(r.first[webhookID], id)
	}
	r.took[webhookID][id] = true
	return http.StatusNoContent
}

// sender sends messages to the receiver. It implements webhook.Sender.
type sender struct {
	world   *World
	process *Process
}

var _ webhook.Sender = sender{}

// attemptTime is how long an attempt waits for the receiver, as in the adapter.
const attemptTime = 15 * time.Second

// Send implements webhook.Sender.
func (s sender) Send(ctx context.Context, m webhook.Message) webhook.Result {
	var e event.View
	if err := json.Unmarshal(m.Body, &e); err != nil {
		return webhook.Result{Reason: webhook.ReasonURL}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	status := 0
	webhookID, _, _ := strings.Cut(m.URL, "?") // each URL of a webhook leads to the same receiver
	err := s.process.Step(ctx, ReceiverService, "send "+m.ID, func() error {
		status = s.world.receiver.take(webhookID, event.ID(m.ID))
		return nil
	})
	switch {
	case err != nil:
		return webhook.Result{Reason: webhook.ReasonTimeout}
	case status >= http.StatusMultipleChoices:
		return webhook.Result{HTTPStatus: status, Reason: webhook.ReasonStatus}
	default:
		return webhook.Result{HTTPStatus: status}
	}
}

// unsigned is the source of secrets for a receiver that verifies no signatures.
type unsigned struct{}

var _ webhook.SecretSource = unsigned{}

// Of implements webhook.SecretSource.
func (unsigned) Of(webhook.Webhook) (webhook.Secret, error) { return nil, nil }

// Signing implements webhook.SecretSource.
func (unsigned) Signing(webhook.Webhook, time.Time) ([]webhook.Secret, error) { return nil, nil }
