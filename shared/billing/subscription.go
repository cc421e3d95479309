// Package billing knows who pays for an organization: its subscription, which plan follows from it, what happens when
// payment stops, and what a smaller plan would leave over. It does not know how a payment provider is spoken to
// (infra/stripe), nor how anything is stored.
//
// The provider is the truth. What it reports is never added up: its present state is fetched and taken over whole, so
// that reports which come twice, late or in another order change nothing.
package billing

import (
	"time"

	"agents.example/controlplane/shared/plan"
)

// Status is where a subscription is in its life.
type Status string

// The statuses.
const (
	// None: nothing was ever subscribed to, or the first payment has not been made.
	None     Status = "none"
	Trialing Status = "trialing"
	Active   Status = "active"
	// PastDue: a payment failed. The plan stays, and agents run on until Grace has passed.
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

// Provider is who takes the payments.
type Provider string

// The providers.
const (
	Stripe Provider = "stripe"
	// Manual: nobody does; the operator sets plans.
	Manual Provider = "manual"
)

// Values lists the providers.
func (Provider) Values() []string { return []string{string(Stripe), string(Manual)} }

// Grace is how long agents run on after a payment failed.
const Grace = 7 * 24 * time.Hour

// Subscription is what pays for an organization, as the provider last reported it.
type Subscription struct {
	Provider Provider
	// ID and CustomerID are the provider's; empty for Manual.
	ID         string
	CustomerID string
	Status     Status
	// Plan is what is paid for. It is the organization's plan while the subscription is live.
	Plan plan.ID
	// Interval is empty where nothing is paid at intervals.
	Interval    Interval
	PeriodStart time.Time
	PeriodEnd   time.Time
	// CancelAtPeriodEnd says that the subscription ends with the period that is paid.
	CancelAtPeriodEnd bool
	// PendingPlan is the plan from the end of the period on; empty when it stays.
	PendingPlan plan.ID
	// StartedAt is when the provider made the subscription.
	StartedAt time.Time
	// PastDueSince is when it was learnt that a payment failed; zero while none is open.
	PastDueSince time.Time
}

// Live reports whether the subscription holds a plan.
func (s Subscription) Live() bool {
	return s.Status == Trialing || s.Status == Active || s.Status == PastDue
}

// replaces reports whether the subscription is the organization's from now on. Normally it is the one that it was
// before. Of two, a live one counts, and of two live ones that which was made later: it is what the organization
// decided last.
func (s Subscription) replaces(old Subscription) bool {
	switch {
	case s.ID == old.ID:
		return true
	case s.Live() != old.Live():
		return s.Live()
	default:
		return s.StartedAt.After(old.StartedAt)
	}
}
