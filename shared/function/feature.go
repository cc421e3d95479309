package function

import (
	"context"
	"strings"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Organizations reads the caller's organization, for its plan.
type Organizations interface {
	// Organization reads an organization. Errors: NotFound, Unavailable.
	Organization(ctx context.Context, id string) (organization.Organization, error)
}

// checkFeature returns Forbidden unless the plan of the caller's organization includes the route's feature. For such
// routes it costs a read of the organization. It runs before validation, so a caller without the feature learns that
// first.
func (g Guard) checkFeature(ctx context.Context, r *Route, c identity.Caller) error {
	if r.Feature == "" {
		return nil
	}
	o := organization.Organization{Plan: plan.Hobby} // the plan of an organization without a record
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
	if smallest := plan.With(r.Feature); smallest != "" {
		meta["upgrade_to"] = smallest
	}
	return fault.New(fault.Forbidden, "plan_feature_required",
		"The %s plan does not include the %s feature. Upgrade the plan.",
		o.Plan, strings.ReplaceAll(r.Feature, "_", " ")).WithMeta(meta)
}
