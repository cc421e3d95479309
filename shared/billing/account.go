package billing

import (
	"time"

	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Account is an organization together with its subscription.
type Account struct {
	organization.Organization
	Subscription Subscription
	// Suspended is set while the operator withholds the service.
	Suspended bool
	// DueAt is when the Enforcer must check the account; zero if no check is needed.
	DueAt time.Time
	// FetchedAt is when the subscription was last fetched from the provider.
	FetchedAt time.Time
	// Version is the store's revision of the record, set when it is read.
	Version string
}

// ApplySubscription applies the provider's current state of a subscription to the account. It changes nothing if the
// state is already known, or the subscription does not replace the organization's.
func (a *Account) ApplySubscription(current Subscription, now time.Time) {
	if !current.replaces(a.Subscription) {
		return
	}
	current.PastDueSince = time.Time{}
	if current.Status == PastDue {
		current.PastDueSince = now
		if a.Subscription.Status == PastDue {
			current.PastDueSince = a.Subscription.PastDueSince
		}
	}
	if current == a.Subscription {
		return
	}
	a.Subscription = current
	a.Plan = plan.Hobby
	if current.Live() {
		a.Plan = current.Plan
	}
	a.deriveStatus(now)
}

// Suspend sets whether the operator withholds the service. The next fetch, which is due then, closes the pages on which
// the organization could pay for it.
func (a *Account) Suspend(suspended bool, now time.Time) {
	if a.Suspended != suspended {
		a.Suspended, a.FetchedAt = suspended, time.Time{}
		a.deriveStatus(now)
	}
}

// deriveStatus derives the organization's status and makes the account due for enforcement.
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

// Withheld reports whether the organization may run no agents: it is suspended, or its grace period has passed.
func (a Account) Withheld(now time.Time) bool {
	return a.Suspended || a.Subscription.Status == PastDue && !now.Before(a.graceEnd())
}

func (a Account) graceEnd() time.Time { return a.Subscription.PastDueSince.Add(Grace) }

// GraceEndsAt returns when running agents are, or were, paused because a payment is overdue; zero if none is, or if
// the organization is suspended, so that no agent runs anyway.
func (a Account) GraceEndsAt() time.Time {
	if a.Suspended || a.Subscription.Status != PastDue {
		return time.Time{}
	}
	return a.graceEnd()
}

const (
	// fetchInterval is how often a subscription is fetched even if no event reports a change.
	fetchInterval = 24 * time.Hour
	// urgentFetchInterval applies while an event is overdue or a payment is open.
	urgentFetchInterval = time.Hour
)

// fetchDueAt returns when the organization's subscriptions must be fetched again, because an event about them may be
// lost: once a day, and every hour while a payment is open or after the paid period ended. A zero time means never: the
// organization never went to a checkout. One whose plan the operator set may have.
func (a Account) fetchDueAt() time.Time {
	s := a.Subscription
	if s.ID == "" && s.CustomerID == "" {
		return time.Time{}
	}
	urgent, daily := a.FetchedAt.Add(urgentFetchInterval), a.FetchedAt.Add(fetchInterval)
	switch {
	case !s.Live():
		return daily
	case s.Status == PastDue, !s.PeriodEnd.IsZero() && s.PeriodEnd.Before(urgent):
		return urgent
	case !s.PeriodEnd.IsZero() && s.PeriodEnd.Before(daily):
		return s.PeriodEnd
	default:
		return daily
	}
}

// nextCheck returns the earlier of the next check that enforcement demands, if any, and the next fetch. A fetch that is
// due now was not possible and is tried again.
func (a Account) nextCheck(next, now time.Time) time.Time {
	fetch := a.fetchDueAt()
	if !fetch.IsZero() && !fetch.After(now) {
		fetch = now.Add(recheckInterval)
	}
	if next.IsZero() || !fetch.IsZero() && fetch.Before(next) {
		return fetch
	}
	return next
}
