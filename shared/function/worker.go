package function

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/parallel"
)

// Worker is a function that Pub/Sub pushes messages to.
type Worker struct {
	// Name is the function's name, such as "ReconcileAgent".
	Name    string
	Summary string
	// Topic is the topic whose messages Pub/Sub pushes to the worker. Package functions names that of a worker with a
	// Schedule.
	Topic Topic
	Needs []Need
	// Schedule is the cron expression by which Cloud Scheduler publishes to the topic; empty for a topic that other
	// functions publish to.
	Schedule string
	// Handle processes one message. Nil acknowledges it. After any error Pub/Sub delivers the message again until it is
	// dead-lettered; no message is dropped.
	//
	// A tick, which is a message of a worker with a Schedule, is acknowledged after an error, too, and the error is
	// logged as an event. The next tick repeats the work. Redeliveries would add to it: while one agent fails, every
	// tick of an hour would run again and again.
	Handle func(ctx context.Context, m Message) error
}

// Topic names a Pub/Sub topic of the control plane.
type Topic string

// The topics.
const (
	// AgentNudges carries the ids of agents with work due.
	AgentNudges Topic = "agent-nudges"
	// AgentNudgesDead carries the nudges that reached the limit of deliveries.
	AgentNudgesDead Topic = "agent-nudges-dead"
	// WebhookNudges carries the ids of webhooks with events to deliver.
	WebhookNudges Topic = "webhook-nudges"
	// EgressReports carries what the gates of cells counted.
	EgressReports Topic = "egress-reports"
)

// Path is the path that receives the worker's pushes.
func (wk Worker) Path() string { return "/workers/" + wk.Name }

// Message is one delivery of a Pub/Sub message.
type Message struct {
	ID          string
	Data        []byte
	Attributes  map[string]string
	PublishedAt time.Time
	// Attempt counts deliveries from 1. It is 0 if the subscription has no dead-letter topic.
	Attempt int
}

// AgentNudge is the body of a message on AgentNudges. It names the agent and carries no state.
type AgentNudge struct {
	AgentID string `json:"agent_id"`
	// Wake says that a request waits for the agent.
	Wake bool `json:"wake,omitempty"`
}

// WebhookNudge is the body of a message on WebhookNudges.
type WebhookNudge struct {
	WebhookID string `json:"webhook_id"`
}

// PushVerifier verifies the token that Pub/Sub sends with a push.
type PushVerifier interface {
	// Verify checks issuer, audience and service account. Errors: Unauthenticated, Unavailable.
	Verify(ctx context.Context, token string) error
}

// pushLimit is Pub/Sub's own limit of 10 MB for a message, with room for its envelope in base64.
const pushLimit = 14 << 20

// Handler returns the HTTP handler for the worker's pushes.
func (wk Worker) Handler(verifier PushVerifier) http.Handler {
	return instrument(wk.Name, nil, func(w http.ResponseWriter, req *http.Request) (context.Context, error) {
		ctx := req.Context()
		token, err := bearerToken(req.Header)
		if err != nil {
			return ctx, err
		}
		if err := verifier.Verify(ctx, token); err != nil {
			return ctx, err
		}
		m, err := decodePush(w, req)
		if err != nil {
			return ctx, err
		}
		ctx, work := startMessageSpan(ctx, wk.Name, m)
		defer work.End()
		if wk.Schedule != "" {
			wk.handleTick(ctx, m)
		} else if err := wk.Handle(ctx, m); err != nil {
			slog.DebugContext(ctx, "message will be redelivered", "message_id", m.ID, "attempt", m.Attempt)
			return ctx, err
		}
		w.WriteHeader(http.StatusNoContent)
		return ctx, nil
	})
}

// handleTick handles a tick, and logs its error or panic.
func (wk Worker) handleTick(ctx context.Context, m Message) {
	err := parallel.Recover(func() error { return wk.Handle(ctx, m) })
	if err == nil {
		return
	}
	level := slog.LevelError
	if fault.Is(err, fault.Unavailable) {
		level = slog.LevelWarn
	}
	slog.Log(ctx, level, "scheduled run failed; the next one repeats the work", logevent.Key,
		logevent.ScheduledRunFailed, "worker", wk.Name, "message_id", m.ID, "error", err)
}

// push is the JSON that Cloud Pub/Sub posts.
type push struct {
	Message *struct {
		Data        []byte            `json:"data"`
		Attributes  map[string]string `json:"attributes"`
		MessageID   string            `json:"messageId"`
		PublishTime time.Time         `json:"publishTime"`
	} `json:"message"`
	DeliveryAttempt int `json:"deliveryAttempt"`
}

func decodePush(w http.ResponseWriter, req *http.Request) (Message, error) {
	body, err := (&Route{BodyLimit: pushLimit}).readBody(w, req)
	if err != nil {
		return Message{}, err
	}
	var p push
	if err := json.Unmarshal(body, &p); err != nil || p.Message == nil {
		return Message{}, fault.New(fault.BadRequest, "push_malformed",
			"The request body is not a Pub/Sub push message.").
			WithCause(errors.Join(err, errors.New("subscriptions must push wrapped messages")))
	}
	return Message{
		ID: p.Message.MessageID, Data: p.Message.Data, Attributes: p.Message.Attributes,
		PublishedAt: p.Message.PublishTime, Attempt: p.DeliveryAttempt,
	}, nil
}
