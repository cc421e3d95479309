package function

import (
	"context"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Organizations tells which plan a caller's organization is on.
type Organizations interface {
	// Organization reads an organization. Errors: NotFound, Unavailable.
	Organization(ctx context.Context, id string) (organization.Organization, error)
}

// included decides whether the plan of the caller's organization has the feature that a route is part of. It costs a
// read, and is asked before the request is looked at: what is not included need not be valid. The error is Forbidden.
func (g Guard) included(ctx context.Context, r Route, c identity.Caller) error {
	if r.Feature == "" {
		return nil
	}
	o := organization.Organization{Plan: plan.Hobby} // as every organization begins
	if g.Organizations != nil {
		read, err := g.Organizations.Organization(ctx, c.OrganizationID)
		switch {
		case err == nil:
			o = read
		case !fault.Is(err, fault.NotFound):
			return err
		}
	}
	if p, err := plan.Get(o.Plan); err == nil && p.Has(r.Feature) {
		return nil
	}
	meta := map[string]any{"feature": r.Feature, "plan": o.Plan}
	for _, p := range plan.All() {
		if p.Has(r.Feature) {
			meta["upgrade_to"] = p.ID
			break
		}
	}
	return fault.New(fault.Forbidden, "plan_feature_required", "The %s plan does not include this. Upgrade the plan.",
		o.Plan).WithMeta(meta)
}
