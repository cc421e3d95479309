package billing

import (
	"context"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Store stores accounts.
type Store interface {
	// Account reads an organization's account. Errors: NotFound, Unavailable.
	Account(ctx context.Context, organizationID string) (Account, error)
	// Save writes an account's plan, status, subscription and dates. The same commit writes the audit entry of the
	// caller in ctx and, unless eventID is "", the record of the event that caused the change. Save does not write the
	// usage. It writes nothing and succeeds if the event has been applied. Errors: ErrChanged when the organization was
	// written since the account was read, NotFound, Unavailable.
	Save(ctx context.Context, a Account, eventID string) error
	// Postpone writes only the time of the account's next enforcement check, when its subscription was fetched, and its
	// customer at the provider. Errors: as Save.
	Postpone(ctx context.Context, a Account, next time.Time) error
	// Applied reports whether an event has been applied. Errors: Unavailable.
	Applied(ctx context.Context, eventID string) (bool, error)
	// Due lists at most limit organizations that are due for enforcement, the longest due first. It reports records
	// that can't be decoded and leaves them out. Errors: Unavailable.
	Due(ctx context.Context, now time.Time, limit int) ([]string, error)
}

// ErrChanged reports that an organization was written since its account was read. Read the account again and retry.
const ErrChanged = constantError("the organization was written since its account was read")

// ErrIncomplete reports that a live subscription could not be understood, such as one of a plan of a later release.
const ErrIncomplete = constantError("a live subscription of the organization cannot be understood")

type constantError string

// Error implements error.
func (e constantError) Error() string { return string(e) }

// Payments is the payment provider.
type Payments interface {
	Subscriptions
	// Provider is the provider's name.
	Provider() Provider
	// Checkout makes a page on which an organization subscribes to a plan, or changes its subscription's plan. Errors:
	// Forbidden when that plan can't be bought, Conflict when the order would end a subscription that is already set to
	// end, Invalid when the call's idempotency key was used with another order, Unavailable.
	Checkout(ctx context.Context, o Order) (Session, error)
	// Portal makes a page on which a customer sees and changes its payment method. Errors: Forbidden, Conflict if the
	// provider does not know the customer any more, Unavailable.
	Portal(ctx context.Context, customerID string) (Session, error)
	// Event parses a provider event after it verified the signature over the raw body. Errors: BadRequest for a wrong
	// signature (the error never quotes the body); NotFound when the provider sends no events.
	Event(body []byte, signature string) (Event, error)
}

// Subscriptions are what customers bought from the payment provider.
type Subscriptions interface {
	// Fetch reads the current state of a subscription. Errors: NotFound, Unavailable.
	Fetch(ctx context.Context, subscriptionID string) (State, error)
	// ListLive reads the current state of the live subscriptions that a customer has for an organization. Errors:
	// ErrIncomplete, with those that it understands; Unavailable.
	ListLive(ctx context.Context, organizationID, customerID string) ([]Subscription, error)
	// EndCheckouts closes the customer's checkout pages that are not paid yet. Errors: Unavailable.
	EndCheckouts(ctx context.Context, customerID string) error
}

// Order is the plan that an organization wants to buy.
type Order struct {
	OrganizationID string
	// Present is the organization's current subscription.
	Present  Subscription
	Plan     plan.ID
	Interval Interval
}

// Session is a page at the provider, such as a checkout.
type Session struct {
	URL       string
	ExpiresAt time.Time
	// CustomerID is who pays on a page that sells a subscription.
	CustomerID string
}

// Event is a notification from the provider. It carries no state: the subscription is fetched instead.
type Event struct {
	ID string
	// SubscriptionID is the subscription that the event is about; empty for events that this package ignores.
	SubscriptionID string
}

// State is a subscription as the provider has it now.
type State struct {
	// OrganizationID owns the subscription; empty for a subscription of another product.
	OrganizationID string
	Subscription   Subscription
}

// NoProvider implements Payments for a deployment without a payment provider. The operator sets plans there.
type NoProvider struct{}

var _ Payments = NoProvider{}

// Provider implements Payments.
func (NoProvider) Provider() Provider { return Manual }

func errNoProvider() error {
	return fault.New(fault.Forbidden, "plan_feature_required",
		"Plans cannot be bought from this service. Contact support to change the plan.")
}

// Checkout implements Payments.
func (NoProvider) Checkout(context.Context, Order) (Session, error) {
	return Session{}, errNoProvider()
}

// Portal implements Payments.
func (NoProvider) Portal(context.Context, string) (Session, error) { return Session{}, errNoProvider() }

// Event implements Payments.
func (NoProvider) Event([]byte, string) (Event, error) {
	return Event{}, fault.New(fault.NotFound, "not_found",
		"This service has no payment provider and accepts no payment events.")
}

// Fetch implements Subscriptions.
func (NoProvider) Fetch(context.Context, string) (State, error) {
	return State{}, fault.New(fault.NotFound, "not_found", "This service has no payment provider.")
}

// ListLive implements Subscriptions.
func (NoProvider) ListLive(context.Context, string, string) ([]Subscription, error) { return nil, nil }

// EndCheckouts implements Subscriptions.
func (NoProvider) EndCheckouts(context.Context, string) error { return nil }
