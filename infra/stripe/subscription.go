package stripe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// subscription, item, schedule and price are what this package reads of Stripe's objects.
type subscription struct {
	ID                string            `json:"id"`
	Status            string            `json:"status"`
	Customer          string            `json:"customer"`
	Metadata          map[string]string `json:"metadata"`
	Created           int64             `json:"created"`
	CancelAt          int64             `json:"cancel_at"`
	CancelAtPeriodEnd bool              `json:"cancel_at_period_end"`
	Items             struct {
		Data []item `json:"data"`
	} `json:"items"`
	Schedule *schedule `json:"schedule"`
}

type item struct {
	ID                 string `json:"id"`
	Price              *price `json:"price"`
	CurrentPeriodStart int64  `json:"current_period_start"`
	CurrentPeriodEnd   int64  `json:"current_period_end"`
}

type schedule struct {
	Phases []struct {
		StartDate int64  `json:"start_date"`
		Items     []item `json:"items"`
	} `json:"phases"`
}

type price struct {
	ID        string            `json:"id"`
	LookupKey string            `json:"lookup_key"`
	Metadata  map[string]string `json:"metadata"`
	Recurring struct {
		Interval string `json:"interval"`
	} `json:"recurring"`
}

// Fetch implements billing.Subscriptions.
func (p *Payments) Fetch(ctx context.Context, subscriptionID string) (billing.State, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	s, err := p.retrieve(ctx, subscriptionID)
	if err != nil {
		return billing.State{}, err
	}
	state := billing.State{OrganizationID: s.Metadata[organizationKey]}
	if state.OrganizationID == "" {
		return state, nil // another product's subscription in the same account
	}
	state.Subscription, err = subscriptionOf(s)
	return state, err
}

// ListLive implements billing.Subscriptions. It reports what it does not understand.
func (p *Payments) ListLive(ctx context.Context, organizationID, customerID string) ([]billing.Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var listed struct {
		Data []subscription `json:"data"`
	}
	_, err := p.client.do(ctx, call{ // those that have ended are not listed
		method: http.MethodGet, path: "/v1/subscriptions", form: url.Values{"customer": {customerID}, "limit": {"100"}},
	}, &listed)
	if isMissing(err) {
		return nil, nil // Stripe cancels the subscriptions of a customer that is deleted
	}
	if err != nil {
		return nil, faultOf("list subscriptions", err)
	}
	var live []billing.Subscription
	var incomplete error
	for _, l := range listed.Data {
		if l.Metadata[organizationKey] != organizationID || !(billing.Subscription{Status: statusOf(l.Status)}).Live() {
			continue
		}
		s, err := p.retrieve(ctx, l.ID) // with its schedule, which lists cannot expand
		if fault.Is(err, fault.NotFound) {
			continue // it was deleted with its customer since it was listed
		}
		if err != nil {
			return nil, err
		}
		ours, err := subscriptionOf(s)
		if err != nil {
			slog.ErrorContext(ctx, "live subscription left out", "organization_id", organizationID, "error", err)
			incomplete = billing.ErrIncomplete
			continue
		}
		live = append(live, ours)
	}
	return live, incomplete
}

// retrieve returns Stripe's subscription. Without the expansion, it would have the ids of the schedule and its prices.
func (p *Payments) retrieve(ctx context.Context, id string) (*subscription, error) {
	var s subscription
	_, err := p.client.do(ctx, call{
		method: http.MethodGet, path: "/v1/subscriptions/" + url.PathEscape(id),
		form: url.Values{"expand[0]": {"schedule.phases.items.price"}},
	}, &s)
	if err != nil {
		return nil, faultOf("fetch a subscription", err)
	}
	return &s, nil
}

// subscriptionOf converts Stripe's subscription to ours. One that has ended entitles to nothing, whatever it has.
func subscriptionOf(s *subscription) (billing.Subscription, error) {
	ours := billing.Subscription{
		Provider: billing.Stripe, ID: s.ID, CustomerID: s.Customer, Status: statusOf(s.Status),
		StartedAt: timeOf(s.Created),
	}
	item, err := onlyItemOf(s)
	switch {
	case err != nil && ours.Live():
		return billing.Subscription{}, err
	case err != nil:
		return ours, nil //nolint:nilerr // see above
	}
	ours.Plan, ours.Interval = planOf(item.Price), billing.Interval(item.Price.Recurring.Interval)
	ours.PeriodStart, ours.PeriodEnd = timeOf(item.CurrentPeriodStart), timeOf(item.CurrentPeriodEnd)
	// With flexible billing, Stripe sets CancelAt instead of CancelAtPeriodEnd.
	ours.CancelAtPeriodEnd = s.CancelAtPeriodEnd || s.CancelAt != 0 && s.CancelAt <= item.CurrentPeriodEnd
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
func onlyItemOf(s *subscription) (*item, error) {
	if len(s.Items.Data) != 1 || s.Items.Data[0].Price == nil {
		return nil, fmt.Errorf("stripe: the subscription %s has not exactly one item with a price", s.ID)
	}
	return &s.Items.Data[0], nil
}

// planOf returns the plan that a price sells.
func planOf(p *price) plan.ID {
	if named := p.Metadata["plan"]; named != "" {
		return plan.ID(named)
	}
	sold, _, _ := strings.Cut(p.LookupKey, "_")
	return plan.ID(sold)
}

// pendingPlanOf returns the plan that a schedule changes to at the end of the period. It is empty if the plan stays.
func pendingPlanOf(s *schedule, end int64, present plan.ID) plan.ID {
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
func statusOf(s string) billing.Status {
	switch s {
	case "trialing":
		return billing.Trialing
	case "active":
		return billing.Active
	case "past_due", "unpaid", "paused":
		return billing.PastDue
	case "canceled":
		return billing.Canceled
	default: // incomplete, incomplete_expired
		return billing.None
	}
}
