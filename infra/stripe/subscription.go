package stripe

import (
	"context"
	"fmt"
	"strings"

	api "github.com/stripe/stripe-go/v84"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/plan"
)

// Fetch implements billing.Payments.
func (p *Payments) Fetch(ctx context.Context, subscriptionID string) (billing.State, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	s, err := p.client.V1Subscriptions.Retrieve(ctx, subscriptionID, &api.SubscriptionRetrieveParams{
		Expand: []*string{api.String("schedule.phases.items.price")},
	})
	if err != nil {
		return billing.State{}, faultOf("fetch a subscription", err)
	}
	state := billing.State{OrganizationID: s.Metadata[organizationKey]}
	if state.OrganizationID == "" {
		return state, nil // another product's subscription in the same account
	}
	state.Subscription, err = subscriptionOf(s)
	return state, err
}

// subscriptionOf converts Stripe's subscription to ours.
func subscriptionOf(s *api.Subscription) (billing.Subscription, error) {
	item, err := onlyItemOf(s)
	if err != nil {
		return billing.Subscription{}, err
	}
	ours := billing.Subscription{
		Provider: billing.Stripe, ID: s.ID, Status: statusOf(s.Status), Plan: planOf(item.Price),
		StartedAt:   timeOf(s.Created),
		PeriodStart: timeOf(item.CurrentPeriodStart), PeriodEnd: timeOf(item.CurrentPeriodEnd),
		// With flexible billing, Stripe sets CancelAt instead of CancelAtPeriodEnd.
		CancelAtPeriodEnd: s.CancelAtPeriodEnd || s.CancelAt != 0 && s.CancelAt <= item.CurrentPeriodEnd,
	}
	if s.Customer != nil {
		ours.CustomerID = s.Customer.ID
	}
	if item.Price.Recurring != nil {
		ours.Interval = billing.Interval(item.Price.Recurring.Interval)
	}
	if _, err := plan.Get(ours.Plan); err != nil && ours.Live() {
		return ours, fmt.Errorf("stripe: the price %s of a subscription names no plan; add the metadata plan to the "+
			"price",
			item.Price.ID)
	}
	switch {
	case !ours.Live():
		ours.CancelAtPeriodEnd = false
	case ours.CancelAtPeriodEnd:
		ours.PendingPlan = plan.Hobby
	default:
		ours.PendingPlan = pendingPlanOf(s.Schedule, item.CurrentPeriodEnd, ours.Plan)
	}
	return ours, nil
}

// onlyItemOf returns the subscription's only item. Any other number of items is an error.
func onlyItemOf(s *api.Subscription) (*api.SubscriptionItem, error) {
	if s.Items == nil || len(s.Items.Data) != 1 || s.Items.Data[0].Price == nil {
		return nil, fmt.Errorf("stripe: the subscription %s has not exactly one item with a price", s.ID)
	}
	return s.Items.Data[0], nil
}

// planOf returns the plan that a price sells.
func planOf(p *api.Price) plan.ID {
	if named := p.Metadata["plan"]; named != "" {
		return plan.ID(named)
	}
	sold, _, _ := strings.Cut(p.LookupKey, "_")
	return plan.ID(sold)
}

// pendingPlanOf returns the plan that a schedule changes to at the end of the period. It is empty if the plan stays.
func pendingPlanOf(s *api.SubscriptionSchedule, end int64, present plan.ID) plan.ID {
	if s == nil {
		return ""
	}
	for _, phase := range s.Phases {
		if phase.StartDate < end || len(phase.Items) != 1 || phase.Items[0].Price == nil {
			continue
		}
		if next := planOf(phase.Items[0].Price); next != present {
			return next
		}
		return ""
	}
	return ""
}

// statusOf converts Stripe's status to ours. A customer who stopped paying is past due until the subscription is paid
// or ends. A customer who has not paid yet has no subscription.
func statusOf(s api.SubscriptionStatus) billing.Status {
	switch s {
	case api.SubscriptionStatusTrialing:
		return billing.Trialing
	case api.SubscriptionStatusActive:
		return billing.Active
	case api.SubscriptionStatusPastDue, api.SubscriptionStatusUnpaid, api.SubscriptionStatusPaused:
		return billing.PastDue
	case api.SubscriptionStatusCanceled:
		return billing.Canceled
	default: // incomplete, incomplete_expired
		return billing.None
	}
}
