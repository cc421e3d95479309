package webhook

import (
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/event"
)

// View is a webhook as a client sees it.
type View struct {
	ID             string       `json:"id"`
	URL            string       `json:"url" jsonschema:"The receiver."`
	Types          []event.Type `json:"types" jsonschema:"The types of the events that are delivered; empty for all."`
	Description    string       `json:"description" jsonschema:"A text for people."`
	Status         Status       `json:"status" jsonschema:"Whether events are delivered."`
	DisabledReason *string      `json:"disabled_reason" jsonschema:"Why the webhook is disabled: requested; failing if nothing could be delivered for three days; gone if the receiver answered 410. Null if it is enabled."`
	FailingSince   *time.Time   `json:"failing_since" jsonschema:"The first failure since the last success, or since three days without an attempt; null if the latest attempt succeeded."`
	CreatedAt      time.Time    `json:"created_at"`
	UpdatedAt      time.Time    `json:"updated_at"`
	CreatedBy      string       `json:"created_by" jsonschema:"The id of the user or API key that created the webhook."`
}

// AmendSchema adds to the schema what the fields' types do not express.
func (View) AmendSchema(s *jsonschema.Schema) {
	s.Properties["id"].Format, s.Properties["created_by"].Format = "uuid", "uuid"
	s.Properties["url"].Format = "uri"
}

// Show renders the webhook for a client.
func (w Webhook) Show() View {
	v := View{
		ID: w.ID, URL: w.URL, Types: w.Types, Description: w.Description, Status: w.Status,
		FailingSince: optionalTime(w.FailingSince), CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
		CreatedBy: w.CreatedBy,
	}
	if v.Types == nil {
		v.Types = []event.Type{}
	}
	if w.DisabledReason != "" {
		v.DisabledReason = &w.DisabledReason
	}
	return v
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func exampleTime() time.Time { return time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC) }

func exampleWebhook() Webhook {
	return Webhook{
		ID: "5d0e4a8e-3c1b-4f5e-9b5a-0c7d2e9f6a41", URL: "https://hooks.example.com/agents",
		Types: []event.Type{event.AgentRunning, event.AgentError}, Description: "Incidents", Status: Enabled,
		CreatedAt: exampleTime(), UpdatedAt: exampleTime(), CreatedBy: "c1f6a9f2-52f8-5a8e-9d5b-6f0a7b3c2d10",
	}
}

// Example implements the contract of package function for outputs with an example.
func (View) Example() any { return exampleWebhook().Show() }

// CreatedView is the answer to a webhook's creation, the only answer that contains the secret.
type CreatedView struct {
	View
	// Secret is the signing secret; nil when the answer is a replay.
	Secret *string `json:"secret" jsonschema:"The signing secret, for the libraries of Standard Webhooks. It is shown only once; null if the response is a replay."`
}

// RotatedView is the answer to a rotation, the only answer that contains the new secret.
type RotatedView struct {
	View
	// Secret is the new signing secret; nil when the answer is a replay.
	Secret *string `json:"secret" jsonschema:"The new signing secret, for the libraries of Standard Webhooks. It is shown only once; null if the response is a replay."`
	// FormerSecretsUntil is until when former secrets sign, too.
	FormerSecretsUntil time.Time `json:"former_secrets_until" jsonschema:"Until then, deliveries are signed with the former secret, too; after several rotations, with up to three former ones, each until its own end."`
}

// Example implements the contract of package function for outputs with an example.
func (RotatedView) Example() any {
	secret := secretPrefix + "(a secret of 44 characters)"
	return RotatedView{
		View: exampleWebhook().Show(), Secret: &secret, FormerSecretsUntil: exampleTime().Add(MaxFormerLifetime),
	}
}

// Example implements the contract of package function for outputs with an example.
func (CreatedView) Example() any {
	secret := secretPrefix + "(a secret of 44 characters)"
	return CreatedView{View: exampleWebhook().Show(), Secret: &secret}
}

// DeliveryView is a delivery as a client sees it.
type DeliveryView struct {
	ID            string         `json:"id"`
	WebhookID     string         `json:"webhook_id" jsonschema:"The webhook's id."`
	EventID       event.ID       `json:"event_id" jsonschema:"The webhook-id header of the delivery."`
	EventType     event.Type     `json:"event_type"`
	AgentID       *string        `json:"agent_id" jsonschema:"The agent that the event is about; null if it is about none."`
	Status        DeliveryStatus `json:"status" jsonschema:"pending if another attempt follows, and failed if none does."`
	Attempts      []AttemptView  `json:"attempts" jsonschema:"The latest attempts, oldest first."`
	NextAttemptAt *time.Time     `json:"next_attempt_at" jsonschema:"When the next attempt is planned; null if none is."`
	CreatedAt     time.Time      `json:"created_at"`
	CompletedAt   *time.Time     `json:"completed_at" jsonschema:"Null while the delivery is pending."`
}

// AttemptView is an attempt as a client sees it.
type AttemptView struct {
	At         time.Time `json:"at" jsonschema:"When the request was sent."`
	HTTPStatus *int      `json:"http_status" jsonschema:"What the receiver answered with; null without an answer."`
	LatencyMS  int64     `json:"latency_ms" jsonschema:"How long the receiver took to answer."`
	Error      *Reason   `json:"error" jsonschema:"Why the attempt failed; null if it succeeded."`
}

// AmendSchema adds to the schema what the fields' types do not express.
func (DeliveryView) AmendSchema(s *jsonschema.Schema) {
	for _, name := range []string{"id", "webhook_id", "agent_id"} {
		s.Properties[name].Format = "uuid"
	}
}

// Show renders the delivery for a client.
func (d Delivery) Show() DeliveryView {
	v := DeliveryView{
		ID: d.ID, WebhookID: d.WebhookID, EventID: d.EventID, EventType: d.EventType, Status: d.Status,
		Attempts: make([]AttemptView, len(d.Attempts)), NextAttemptAt: optionalTime(d.NextAttemptAt),
		CreatedAt: d.CreatedAt.UTC(), CompletedAt: optionalTime(d.CompletedAt),
	}
	if d.AgentID != "" {
		v.AgentID = &d.AgentID
	}
	for i, a := range d.Attempts {
		v.Attempts[i] = AttemptView{At: a.At.UTC(), LatencyMS: a.Latency.Milliseconds()}
		if a.HTTPStatus != 0 {
			v.Attempts[i].HTTPStatus = &a.HTTPStatus
		}
		if a.Reason != "" {
			v.Attempts[i].Error = &a.Reason
		}
	}
	return v
}

// Example implements the contract of package function for outputs with an example.
func (DeliveryView) Example() any {
	at := exampleTime()
	d := Delivery{
		ID: "0f6f5a0e-9f0f-5d3c-8a57-1d5d1c5a7b10", WebhookID: exampleWebhook().ID,
		EventID: event.NewID(at, "0k3v9c2m7q1t", 0), EventType: event.AgentRunning,
		AgentID: "3f0c9a52-8a54-4a8e-b7f6-2f4f6f0b7c11", CreatedAt: at,
	}
	d.add(Result{HTTPStatus: 503, Latency: 84 * time.Millisecond, Reason: ReasonStatus}, at, at.Add(5*time.Second))
	d.add(Result{HTTPStatus: 204, Latency: 61 * time.Millisecond}, at.Add(31*time.Second), time.Time{})
	return d.Show()
}
