package billing

import (
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// NewOrder makes an order for a plan. It calls agents only if the organization may exceed the new plan. Errors:
// Forbidden for a plan that is not for sale, PaymentRequired while a payment is open or the organization is suspended,
// Conflict for the present plan and for one that is too small.
func (a Account) NewOrder(to plan.ID, interval Interval, agents func() ([]agent.Agent, error)) (Order, error) {
	ordered, err := plan.Get(to)
	if err != nil {
		return Order{}, err
	}
	present, err := plan.Get(a.Plan)
	if err != nil {
		return Order{}, err
	}
	s := a.Subscription
	switch {
	case ordered.PriceUSDMonth == nil:
		return Order{}, fault.New(fault.Forbidden, "plan_feature_required",
			"The %s plan is available by contract only. Contact support.", to)
	case a.Suspended && to != plan.Hobby: // it may still cancel
		return Order{}, fault.New(fault.PaymentRequired, "billing_required",
			"The organization is suspended, and no payment changes that. Contact support.")
	case s.Status == PastDue:
		return Order{}, fault.New(fault.PaymentRequired, "subscription_past_due",
			"A payment for the subscription failed. Pay it in the billing portal first.")
	case to == a.Plan && (to == plan.Hobby || s.Live() && s.Interval == interval) && s.PendingPlan == "":
		return Order{}, fault.New(fault.Conflict, "plan_unchanged",
			"The organization is already on the %s plan. Choose another plan or interval.", to)
	}
	if present.ID != to && ordered.Fits(present) {
		held, err := agents()
		if err != nil {
			return Order{}, err
		}
		if err := a.CheckPlanFits(ordered, held); err != nil {
			return Order{}, err
		}
	}
	return Order{OrganizationID: a.ID, Present: s, Plan: to, Interval: interval}, nil
}
