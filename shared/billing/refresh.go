package billing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// errForeign reports that the provider does not know an account's subscription, or knows it as another organization's.
var errForeign = errors.New("the payment provider has no such subscription of this organization")

// refresh applies the provider's present state of an organization's subscriptions to its account: of the account's, of
// the one that an event names, if any, and of all live ones of their customers. So a subscription that was bought in
// addition to the account's takes its place when that ends. It closes checkout pages that must sell no more. Errors:
// errForeign, after all that is known was applied; ErrIncomplete, Unavailable.
func refresh(ctx context.Context, from Subscriptions, a *Account, named string, now time.Time) error {
	before, known, fetched := *a, a.Subscription, a.FetchedAt
	current, err := fetchCurrent(ctx, from, *a, named)
	if err != nil {
		return err
	}
	for _, s := range current.subscriptions {
		a.ApplySubscription(s, now)
	}
	if current.incomplete != nil && known.Live() && !a.Subscription.Live() {
		*a = before // the organization pays for what this release cannot read, and keeps the plan that it has
		return current.incomplete
	}
	a.FetchedAt = now
	reportSeveral(ctx, a.ID, current.subscriptions)
	if !a.closesPages(known, fetched) {
		return current.foreign
	}
	if err := from.EndCheckouts(ctx, a.Subscription.CustomerID); err != nil {
		// The customer does not wait for it. The next fetch tries it again: in an hour, or sooner after a command of
		// the operator.
		slog.WarnContext(ctx, "checkout pages could not be closed", "organization_id", a.ID, "error", err)
		a.FetchedAt = now.Add(urgentFetchInterval - fetchInterval)
		if fetched.IsZero() {
			a.FetchedAt = fetched
		}
	}
	return current.foreign
}

// currentState is what the provider says about an organization.
type currentState struct {
	subscriptions []Subscription
	// foreign is errForeign if the provider lacks one of them, and incomplete is ErrIncomplete if it has others.
	foreign, incomplete error
}

func (c *currentState) add(s Subscription) {
	if !slices.ContainsFunc(c.subscriptions, func(other Subscription) bool { return other.ID == s.ID }) {
		c.subscriptions = append(c.subscriptions, s)
	}
}

// fetchCurrent fetches the subscriptions that refresh applies. Errors: Unavailable.
func fetchCurrent(ctx context.Context, from Subscriptions, a Account, named string) (c currentState, err error) {
	known := a.Subscription
	for _, id := range slices.Compact([]string{known.ID, named}) {
		if id == "" {
			continue
		}
		switch state, err := fetchOwn(ctx, from, a.ID, id); {
		case errors.Is(err, errForeign):
			c.foreign = err // its state stays as it is known
		case err != nil:
			return c, err
		default:
			c.add(state)
		}
	}
	customers := []string{known.CustomerID}
	for _, s := range c.subscriptions {
		if s.CustomerID != known.CustomerID {
			customers = append(customers, s.CustomerID)
		}
	}
	for _, id := range customers {
		if id == "" {
			continue
		}
		live, err := from.ListLive(ctx, a.ID, id)
		switch {
		case errors.Is(err, ErrIncomplete):
			c.incomplete = err
		case err != nil:
			return c, err
		}
		for _, s := range live {
			c.add(s)
		}
	}
	return c, nil
}

// closesPages reports whether the organization must not pay on the pages that it opened: it has bought a subscription
// since they were last closed, was granted a plan since, or is suspended. known was its subscription before, fetched at
// a time, which is zero after a grant.
func (a Account) closesPages(known Subscription, fetched time.Time) bool {
	s := a.Subscription
	bought := s.Live() && s.ID != "" && (s.ID != known.ID || !known.Live() || fetched.Before(s.StartedAt))
	granted := s.Live() && s.Provider == Manual && fetched.IsZero()
	return s.CustomerID != "" && (bought || granted || a.Suspended)
}

func fetchOwn(ctx context.Context, from Subscriptions, organizationID, id string) (Subscription, error) {
	state, err := from.Fetch(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && state.OrganizationID != organizationID {
		return Subscription{}, errForeign
	}
	return state.Subscription, err
}

// reportSeveral reports an organization that pays for more than one subscription. An operator must cancel and refund
// all but one.
func reportSeveral(ctx context.Context, organizationID string, current []Subscription) {
	var live []string
	for _, s := range current {
		if s.Live() {
			live = append(live, s.ID)
		}
	}
	if len(live) > 1 {
		slog.ErrorContext(ctx, "an organization pays for several subscriptions; cancel and refund all but one",
			logevent.Key, logevent.SeveralSubscriptions, "organization_id", organizationID, "subscriptions", live)
	}
}

// RememberCustomer records who pays on a checkout page, before a client can open the page. If no event tells of the
// payment, the Enforcer finds it in an hour, or when the page has expired. Errors: NotFound, Unavailable.
func RememberCustomer(ctx context.Context, store Store, organizationID, customerID string, now time.Time) error {
	for range maxTries {
		a, err := store.Account(ctx, organizationID)
		if err != nil {
			return err
		}
		next := now.Add(urgentFetchInterval)
		a.Subscription.CustomerID, a.FetchedAt = customerID, next.Add(-fetchInterval)
		if !a.DueAt.IsZero() && a.DueAt.Before(next) {
			next = a.DueAt
		}
		if err := store.Postpone(ctx, a, next); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return errBusy()
}
