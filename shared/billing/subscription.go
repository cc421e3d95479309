// Package billing keeps each organization's account in step with its subscription: it derives the plan, pauses agents
// when payment stops, and checks whether a smaller plan fits. It does not talk to a payment provider (infra/stripe
// does) and does not store accounts.
//
// The provider is the source of truth. Events are never added up: each event makes the service fetch the organization's
// current subscriptions and replace its copy. So events that arrive twice, late or out of order do no harm.
package billing

import (
	"cmp"
	"time"

	"agents.example/controlplane/shared/plan"
)

// Status is the state of a subscription.
type Status string

// The statuses.
const (
	// None: there never was a subscription, or its first payment has not been made.
	None     Status = "none"
	Trialing Status = "trialing"
	Active   Status = "active"
	// PastDue: a payment failed. The organization keeps its plan, and its agents run until Grace has passed.
	PastDue  Status = "past_due"
	Canceled Status = "canceled"
)

// Values lists the statuses.
func (Status) Values() []string {
	return []string{string(None), string(Trialing), string(Active), string(PastDue), string(Canceled)}
}

// Interval is how often a subscription is paid.
type Interval string

// The intervals.
const (
	Month Interval = "month"
	Year  Interval = "year"
)

// Values lists the intervals.
func (Interval) Values() []string { return []string{string(Month), string(Year)} }

// Provider names the payment provider of a subscription.
type Provider string

// The providers.
const (
	Stripe Provider = "stripe"
	// Manual: no payment provider; the operator sets plans.
	Manual Provider = "manual"
)

// Values lists the providers.
func (Provider) Values() []string { return []string{string(Stripe), string(Manual)} }

// Grace is how long agents may run after a payment failed.
const Grace = 7 * 24 * time.Hour

// Subscription is an organization's subscription, as the provider last reported it.
type Subscription struct {
	Provider Provider
	// ID and CustomerID are the provider's; empty for Manual.
	ID         string
	CustomerID string
	Status     Status
	// Plan is the plan that is paid for. It is the organization's plan while the subscription is live.
	Plan plan.ID
	// Interval is empty for Manual.
	Interval    Interval
	PeriodStart time.Time
	PeriodEnd   time.Time
	// CancelAtPeriodEnd is set when the subscription ends with the paid period.
	CancelAtPeriodEnd bool
	// PendingPlan is the plan after the paid period; empty when it stays the same.
	PendingPlan plan.ID
	// StartedAt is when the provider created the subscription.
	StartedAt time.Time
	// PastDueSince is when the service learned of the failed payment; zero while no payment is open.
	PastDueSince time.Time
}

// Live reports whether the subscription entitles the organization to its plan.
func (s Subscription) Live() bool {
	return s.Status == Trialing || s.Status == Active || s.Status == PastDue
}

// replaces reports whether s becomes the organization's subscription instead of old. Normally both are the same one. Of
// two, a paid one wins over one with an open payment, and that over one that is not live; otherwise the one started
// later wins, because it is the organization's latest decision. The order in which they are compared does not matter.
func (s Subscription) replaces(old Subscription) bool {
	return s.ID == old.ID || cmp.Or(cmp.Compare(s.standing(), old.standing()), s.StartedAt.Compare(old.StartedAt),
		cmp.Compare(s.ID, old.ID)) > 0
}

// standing ranks statuses by what they entitle to.
func (s Subscription) standing() int {
	switch s.Status {
	case Trialing, Active:
		return 2
	case PastDue:
		return 1
	default:
		return 0
	}
}
