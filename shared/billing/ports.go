package billing

import (
	"context"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// Store keeps accounts.
type Store interface {
	// Account reads an organization's account. Errors: NotFound, Unavailable.
	Account(ctx context.Context, organizationID string) (Account, error)
	// Save writes plan, status, subscription and dates of an account, in one commit with the audit entry of the caller
	// in ctx and with the record of the event that caused it, if that is not "". The account's usage is not written.
	// Errors: ErrChanged when the organization was written since the account was read, NotFound, Unavailable.
	Save(ctx context.Context, a Account, eventID string) error
	// Postpone writes when an account is to be looked at again, and nothing else. Errors: as Save.
	Postpone(ctx context.Context, a Account, next time.Time) error
	// Applied reports whether an event has been applied. Errors: Unavailable.
	Applied(ctx context.Context, eventID string) (bool, error)
	// Due lists the organizations whose consequences are due, the longest first, at most limit. Errors: Unavailable.
	Due(ctx context.Context, now time.Time, limit int) ([]string, error)
}

// ErrChanged says that an organization was written since its account was read: read it again and decide anew.
const ErrChanged = changed("the organization was written since its account was read")

type changed string

// Error implements error.
func (e changed) Error() string { return string(e) }

// Payments is the payment provider.
type Payments interface {
	// Provider names it.
	Provider() Provider
	// Checkout makes a page on which an organization subscribes to a plan, or moves its subscription to another.
	// Errors: Forbidden when that plan can't be bought, Invalid when the call's idempotency key was used with another
	// order, Unavailable.
	Checkout(ctx context.Context, o Order) (Session, error)
	// Portal makes a page on which a customer sees and changes what it pays with. Errors: Forbidden, Unavailable.
	Portal(ctx context.Context, customerID string) (Session, error)
	// Event verifies what was sent as an event of the provider, by its signature over the raw body. Errors: BadRequest
	// when it is not the provider's, which never repeats any of the body; NotFound when the provider sends none.
	Event(body []byte, signature string) (Event, error)
	// Fetch asks for the present state of a subscription. Errors: NotFound, Unavailable.
	Fetch(ctx context.Context, subscriptionID string) (State, error)
}

// Order is what an organization wants to buy.
type Order struct {
	OrganizationID string
	// Present is the subscription that it has.
	Present  Subscription
	Plan     plan.ID
	Interval Interval
}

// Session is a page of the provider's.
type Session struct {
	URL       string
	ExpiresAt time.Time
}

// Event is what a provider tells. It carries no state: what it is about is fetched.
type Event struct {
	ID string
	// SubscriptionID is what the event is about; empty when it is about something that doesn't matter here.
	SubscriptionID string
}

// State is a subscription as the provider has it now.
type State struct {
	// OrganizationID is whose it is; empty for one that is not ours.
	OrganizationID string
	Subscription   Subscription
}

// asSystem returns a context in which the control plane acts by itself on an organization.
func asSystem(ctx context.Context, actor, organizationID string) context.Context {
	return identity.With(ctx,
		identity.Caller{Type: identity.System, ID: actor, OrganizationID: organizationID, Role: identity.RoleAdmin})
}

// NoProvider is the payment provider of a deployment without one: the operator sets plans.
type NoProvider struct{}

var _ Payments = NoProvider{}

// Provider implements Payments.
func (NoProvider) Provider() Provider { return Manual }

func errManual() error {
	return fault.New(fault.Forbidden, "plan_feature_required",
		"Plans can't be bought here. Ask the operator of the service to set the plan.")
}

// Checkout implements Payments.
func (NoProvider) Checkout(context.Context, Order) (Session, error) { return Session{}, errManual() }

// Portal implements Payments.
func (NoProvider) Portal(context.Context, string) (Session, error) { return Session{}, errManual() }

// Event implements Payments.
func (NoProvider) Event([]byte, string) (Event, error) {
	return Event{}, fault.New(fault.NotFound, "not_found",
		"This service takes no payments, and so no events about them.")
}

// Fetch implements Payments.
func (NoProvider) Fetch(context.Context, string) (State, error) {
	return State{}, fault.New(fault.NotFound, "not_found", "This service takes no payments.")
}
