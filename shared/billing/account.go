package billing

import (
	"time"

	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Account is an organization together with what pays for it.
type Account struct {
	organization.Organization
	Subscription Subscription
	// Suspended is true while the operator withholds the service.
	Suspended bool
	// DueAt is when consequences are to be looked at; zero when there are none to expect.
	DueAt time.Time
	// Version is the store's revision of the record, set when it is read.
	Version string
}

// ApplySubscription takes over the state in which the provider has a subscription. It changes nothing when that is not
// the organization's, or is known.
func (a *Account) ApplySubscription(present Subscription, now time.Time) {
	if !present.replaces(a.Subscription) {
		return
	}
	present.PastDueSince = time.Time{}
	if present.Status == PastDue {
		present.PastDueSince = now
		if a.Subscription.Status == PastDue {
			present.PastDueSince = a.Subscription.PastDueSince
		}
	}
	if present == a.Subscription {
		return
	}
	a.Subscription = present
	a.Plan = plan.Hobby
	if present.Live() {
		a.Plan = present.Plan
	}
	a.deriveStatus(now)
}

// Suspend has the operator withhold the service, or end that.
func (a *Account) Suspend(suspended bool, now time.Time) {
	if a.Suspended != suspended {
		a.Suspended = suspended
		a.deriveStatus(now)
	}
}

// deriveStatus derives the organization's status, and has the consequences looked at.
func (a *Account) deriveStatus(now time.Time) {
	switch {
	case a.Suspended:
		a.Status = organization.Suspended
	case a.Subscription.Status == PastDue:
		a.Status = organization.PastDue
	default:
		a.Status = organization.Active
	}
	a.DueAt = now
}

// Withheld reports whether no agent of the organization may run: it is suspended, or the grace has passed.
func (a Account) Withheld(now time.Time) bool {
	return a.Suspended || a.Subscription.Status == PastDue && !now.Before(a.graceEnd())
}

func (a Account) graceEnd() time.Time { return a.Subscription.PastDueSince.Add(Grace) }
