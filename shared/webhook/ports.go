package webhook

import (
	"context"
	"errors"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/page"
)

// Store is what routes do with the webhooks of the caller's organization. Changes are audited and respect the
// Idempotency-Key of the request.
type Store interface {
	// Create writes a webhook, the organization's count and the audit entry in one commit. Its Position is after all
	// events so far, whatever the clock of the process is. For a repeated request it returns the first request's
	// record, whose id differs from w's. Errors: Conflict if the organization has as many webhooks as its plan allows,
	// Unavailable.
	Create(ctx context.Context, w Webhook) (Webhook, error)
	// Get reads a webhook. Errors: NotFound, Unavailable.
	Get(ctx context.Context, id string) (Webhook, error)
	// List reads a page of webhooks, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, p page.Request) (page.Page[Webhook], error)
	// Change applies a change to a webhook, and writes a delivery if the change returns one. The change may run again.
	// Errors: NotFound, those of the change, Unavailable.
	Change(ctx context.Context, id string, change func(*Webhook) (*Delivery, error)) (Webhook, error)
	// Delete removes a webhook. Its deliveries stay until they expire. Errors: NotFound, Unavailable.
	Delete(ctx context.Context, id string) error
	// Delivery reads a delivery of a webhook. Errors: NotFound, Unavailable.
	Delivery(ctx context.Context, webhookID, deliveryID string) (Delivery, error)
	// Deliveries reads a page of a webhook's deliveries, newest first. Errors: NotFound for the webhook, BadRequest for
	// a bad cursor, Unavailable.
	Deliveries(ctx context.Context, webhookID string, p page.Request) (page.Page[Delivery], error)
}

// WorkerStore is what workers do with webhooks.
type WorkerStore interface {
	// Load reads a webhook of any organization. Errors: NotFound, Unavailable.
	Load(ctx context.Context, id string) (Webhook, error)
	// Update applies a change to a webhook that this store returned, and writes what a run did, in one commit. The
	// change may run again, on a newer record. Errors: those of the change, NotFound, Unavailable.
	Update(ctx context.Context, w Webhook, done Done, change func(*Webhook) error) (Webhook, error)
	// LoadDeliveries reads deliveries; those that do not exist, or can't be decoded, are left out. Errors: Unavailable.
	LoadDeliveries(ctx context.Context, ids ...string) (map[string]Delivery, error)
	// ListDue reads the ids of webhooks whose DueAt is at or before now, longest overdue first. It reports records that
	// can't be decoded and leaves them out. Errors: Unavailable.
	ListDue(ctx context.Context, now time.Time, limit int) ([]string, error)
	// ListEnabled reads the ids of an organization's enabled webhooks. Errors: Unavailable.
	ListEnabled(ctx context.Context, organizationID string) ([]string, error)
}

// Done is what a run has done since its last commit. A store takes at most MaxDone deliveries in one commit.
type Done struct {
	Deliveries []Delivery
	// Events are written with the commit.
	Events []event.Draft
}

// MaxDone bounds the deliveries of one commit.
const MaxDone = maxConcurrent * pageSize

// Events reads the events of organizations.
type Events interface {
	// List reads events after a cursor, as event.Log does.
	List(ctx context.Context, organizationID string, f event.Filter, after event.ID, limit int) (event.Batch, error)
	// Get reads one event. Errors: NotFound, Unavailable.
	Get(ctx context.Context, organizationID string, id event.ID) (event.Event, error)
}

// SecretSource knows the signing secrets of webhooks.
type SecretSource interface {
	// Of returns the secret of a webhook, as it is shown.
	Of(w Webhook) (Secret, error)
	// Signing returns the secrets that sign a webhook's deliveries at a time.
	Signing(w Webhook, now time.Time) ([]Secret, error)
}

// Nudger asks for a run of a webhook.
type Nudger interface {
	// NudgeWebhook publishes a nudge. Errors: Unavailable.
	NudgeWebhook(ctx context.Context, id string) error
}

// ErrLeaseLost is the error of a run whose lease another run has taken over.
var ErrLeaseLost = errors.New("another run works on the webhook")
