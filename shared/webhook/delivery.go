package webhook

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/event"
)

// DeliveryStatus says how far a delivery is.
type DeliveryStatus string

// The statuses of a delivery.
const (
	// Pending: it will be attempted, for the first time or again.
	Pending DeliveryStatus = "pending"
	// Succeeded: the receiver took the event.
	Succeeded DeliveryStatus = "succeeded"
	// Failed: it was given up.
	Failed DeliveryStatus = "failed"
)

// Values lists the statuses.
func (DeliveryStatus) Values() []string {
	return []string{string(Pending), string(Succeeded), string(Failed)}
}

// Delivery is the record of the delivery of one event to one webhook.
type Delivery struct {
	ID             string
	WebhookID      string
	OrganizationID string
	EventID        event.ID
	EventType      event.Type
	AgentID        string
	Status         DeliveryStatus
	// Attempts are the latest attempts, oldest first.
	Attempts []Attempt
	// NextAttemptAt is the planned time of the next attempt; zero if none is planned.
	NextAttemptAt time.Time
	CreatedAt     time.Time
	CompletedAt   time.Time // zero while it is pending
	// Rest is what other releases stored in the record.
	Rest *document.Rest
}

// Attempt is one request to the receiver.
type Attempt struct {
	At         time.Time
	HTTPStatus int // 0 without an answer
	Latency    time.Duration
	Reason     Reason // "" for a success
}

const (
	// DeliveryRetention is how long deliveries are kept.
	DeliveryRetention = event.Retention
	// maxAttempts bounds the recorded attempts: the eight of the schedule, and requested ones.
	maxAttempts = 16
)

// DeliveryID is the id of the delivery of an event to a webhook, so that a repeated delivery has the same record.
func DeliveryID(webhookID string, eventID event.ID) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("webhook:"+webhookID+":"+string(eventID))).String()
}

// newDelivery returns the record of an event's delivery before its first attempt.
func newDelivery(w Webhook, e event.Event, now time.Time) Delivery {
	return Delivery{
		ID: DeliveryID(w.ID, e.ID), WebhookID: w.ID, OrganizationID: w.OrganizationID,
		EventID: e.ID, EventType: e.Type, AgentID: e.AgentID, Status: Pending, CreatedAt: now,
	}
}

// NewTest returns the delivery of a test event. Its event is in no log: the delivery has all that it consists of.
func NewTest(w Webhook, random uint64, now time.Time) Delivery {
	return newDelivery(w, event.Event{ID: event.NewID(now, event.RecordID(random), 0), Type: event.WebhookTest}, now)
}

// Again makes a delivery wait for an attempt that a client asked for.
func (d *Delivery) Again(now time.Time) {
	d.Status, d.NextAttemptAt, d.CompletedAt = Pending, now, time.Time{}
}

// giveUp ends a delivery without another attempt.
func (d *Delivery) giveUp(now time.Time) {
	d.Status, d.NextAttemptAt, d.CompletedAt = Failed, time.Time{}, now
}

// add records an attempt. A failed one with a next attempt leaves the delivery pending.
func (d *Delivery) add(r Result, at, next time.Time) {
	d.Attempts = append(slices.Clone(d.Attempts), Attempt{
		At: at, HTTPStatus: r.HTTPStatus, Latency: r.Latency, Reason: r.Reason,
	})
	if extra := len(d.Attempts) - maxAttempts; extra > 0 {
		d.Attempts = d.Attempts[extra:]
	}
	d.NextAttemptAt, d.CompletedAt = next, time.Time{}
	switch {
	case r.OK():
		d.Status, d.CompletedAt, d.NextAttemptAt = Succeeded, at, time.Time{}
	case next.IsZero():
		d.Status, d.CompletedAt = Failed, at
	default:
		d.Status = Pending
	}
}
