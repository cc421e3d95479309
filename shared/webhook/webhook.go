// Package webhook sends an organization's events to the URLs that it registered, by the Standard Webhooks
// specification: at least once, and in order for each agent. It does not write events (package event) and does not
// make requests itself (package webhooksender).
package webhook

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
)

// Status says whether events are delivered.
type Status string

// The statuses.
const (
	Enabled  Status = "enabled"
	Disabled Status = "disabled"
)

// Values lists the statuses.
func (Status) Values() []string { return []string{string(Enabled), string(Disabled)} }

// Why a webhook is disabled.
const (
	// DisabledByRequest: a client disabled it.
	DisabledByRequest = "requested"
	// DisabledFailing: no delivery succeeded for three days.
	DisabledFailing = "failing"
	// DisabledGone: the receiver answered 410 Gone, by which Standard Webhooks lets it end the deliveries.
	DisabledGone = "gone"
)

// Webhook is the record of a webhook.
type Webhook struct {
	ID             string
	OrganizationID string
	URL            string
	// Types are the types of the events to deliver; empty for all.
	Types       []event.Type
	Description string
	Status      Status
	// DisabledReason is why the webhook is disabled; empty if it is enabled.
	DisabledReason string
	// SecretVersion counts the secrets that the webhook has had.
	SecretVersion int64
	// SecretSince is when the present secret was made. It is zero if that was at CreatedAt, or in a former release.
	SecretSince time.Time
	// FormerSecrets is how many secrets before the present one sign deliveries, too, until FormerSecretsUntil, and
	// FormerSecretEnds has those that end earlier. Former releases know only the first two.
	FormerSecrets      int64
	FormerSecretsUntil time.Time
	FormerSecretEnds   []SecretEnd
	CreatedAt          time.Time
	UpdatedAt          time.Time
	CreatedBy          string
	// EnabledAt is when the webhook was enabled last: at its creation, or later. It tells a run that a client did that
	// in between. Webhooks of former releases have none.
	EnabledAt time.Time

	// Position is the cursor up to which every event was delivered, was given up, or is in a lane.
	Position event.ID
	// Lanes are the agents whose events are not delivered up to Position. So the record is bounded by the number of
	// agents, and by maxLanes, however long the receiver is down.
	Lanes []Lane
	// Requests are the ids of deliveries that clients asked for: tests, and repeats of earlier deliveries.
	Requests []string
	// FailingSince is the first failure since the last success, or since maxFailing without an attempt; zero if the
	// last attempt succeeded.
	FailingSince time.Time
	// FailedAt is the latest failure. Former releases recorded none.
	FailedAt time.Time
	// DueAt is when a worker must look at the webhook, whether or not there is a nudge; zero for never.
	DueAt time.Time
	// LeaseHolder is the run that works on the webhook until LeaseUntil.
	LeaseHolder string
	LeaseUntil  time.Time

	// Version identifies the record's state for the store.
	Version string
	// Rest is what other releases stored in the record.
	Rest *document.Rest
}

// Lane says that the events of an agent that follow After, up to the webhook's Position, are not delivered. An empty
// AgentID stands for the events that are about no agent.
type Lane struct {
	AgentID string
	After   event.ID
	// Head is the event that was attempted Attempts times.
	Head          event.ID
	Attempts      int
	FirstAt       time.Time
	NextAttemptAt time.Time
	// Early says that Head is tried before NextAttemptAt, because the receiver is back.
	Early bool
}

// pass makes the lane go on after an event.
func (l *Lane) pass(id event.ID, now time.Time) {
	*l = Lane{AgentID: l.AgentID, After: id, NextAttemptAt: now}
}

// MaxRequests bounds the deliveries that clients asked for and that were not attempted yet.
const MaxRequests = 20

// Wants reports whether the webhook delivers events of a type.
func (w Webhook) Wants(t event.Type) bool { return len(w.Types) == 0 || slices.Contains(w.Types, t) }

// leased reports whether another run than holder works on the webhook.
func (w Webhook) leased(holder string, now time.Time) bool {
	return w.LeaseHolder != holder && w.LeaseUntil.After(now)
}

// sameSettings reports whether both records say what to send, and where, and were not enabled in between.
func (w Webhook) sameSettings(other Webhook) bool {
	return w.URL == other.URL && slices.Equal(w.Types, other.Types) && w.EnabledAt.Equal(other.EnabledAt)
}

// SetURL makes the webhook send to a receiver. What a former one refused says nothing about another one, which gets
// what waits immediately.
func (w *Webhook) SetURL(url string, now time.Time) {
	if url == w.URL {
		return
	}
	w.URL = url
	if w.beginAgain(now); w.Status == Enabled {
		w.DueAt = now
	}
}

// Enable makes a new webhook deliver, or one deliver again that was disabled. It continues where it stopped, as far as
// events are kept.
func (w *Webhook) Enable(now time.Time) {
	if w.Status == Enabled {
		return
	}
	w.Status, w.DisabledReason, w.DueAt, w.EnabledAt = Enabled, "", now, now
	w.beginAgain(now)
}

// beginAgain forgets the failures so far.
func (w *Webhook) beginAgain(now time.Time) {
	w.FailingSince = time.Time{}
	for i := range w.Lanes {
		w.Lanes[i].Attempts, w.Lanes[i].NextAttemptAt = 0, now
	}
}

// Disable stops the deliveries. Position and Lanes stay, for Enable.
func (w *Webhook) Disable(reason string) {
	if w.Status == Disabled {
		return
	}
	w.Status, w.DisabledReason = Disabled, reason
	if len(w.Requests) == 0 {
		w.DueAt = time.Time{}
	}
}

// Request adds a delivery that a client asked for. Errors: Conflict.
func (w *Webhook) Request(deliveryID string, now time.Time) error {
	if slices.Contains(w.Requests, deliveryID) {
		return nil
	}
	if len(w.Requests) >= MaxRequests {
		return fault.New(fault.Conflict, "too_many_deliveries_requested",
			"%d requested deliveries of the webhook are waiting. Retry when they were attempted.", len(w.Requests))
	}
	w.Requests, w.DueAt = append(slices.Clone(w.Requests), deliveryID), now
	return nil
}

// Redeliver requests one more attempt of a delivery. Errors: Conflict if it will be attempted anyway, or if too many
// requested deliveries wait. What decides is not the delivery's status, but what the webhook will do.
func (w *Webhook) Redeliver(d *Delivery, now time.Time) error {
	waits := func(l Lane) bool { return l.Head == d.EventID }
	if slices.Contains(w.Requests, d.ID) || slices.ContainsFunc(w.Lanes, waits) {
		return fault.New(fault.Conflict, "delivery_pending",
			"The delivery is pending and will be attempted without a request.")
	}
	d.Again(now)
	return w.Request(d.ID, now)
}

// NotFound is the error for a webhook that does not exist or belongs to another organization.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "webhook_not_found", "Webhook not found.")
}

// DeliveryNotFound is the error for a delivery that does not exist, or not any more, or belongs to another webhook.
func DeliveryNotFound() *fault.Error {
	return fault.New(fault.NotFound, "delivery_not_found", "Delivery not found. Deliveries are kept for 30 days.")
}
