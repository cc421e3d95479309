package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/plan"
)

// SetPlan puts an organization on a plan. What it holds beyond the plan stays, and nothing is added until it fits.
// Errors: NotFound, Unavailable.
func (d *Directory) SetPlan(ctx context.Context, organizationID string, id plan.ID) error {
	if _, err := plan.Get(id); err != nil {
		return err
	}
	ref, ok := d.client.ref(organizationCollection, organizationID)
	if !ok {
		return errNoOrganization()
	}
	return d.client.retryUntilDecided(ctx, func(ctx context.Context, _ bool) error {
		snaps, err := d.client.read(ctx, ref)
		if err != nil {
			return err
		}
		if !snaps[0].Exists() {
			return errNoOrganization()
		}
		b := d.client.batch().Update(ref, []gcp.Update{{Path: "plan", Value: id}},
			gcp.LastUpdateTime(snaps[0].UpdateTime))
		_, err = d.client.commit(ctx, b)
		return err
	})
}
