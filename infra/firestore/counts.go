package firestore

import (
	"context"
	"fmt"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/organization"
)

// Counts implements organization.Counts.
type Counts struct {
	client *Client
	// page is how many documents are read in one call.
	page int
}

var _ organization.Counts = (*Counts)(nil)

// countPage bounds the memory of a recount. Few organizations have more agents or keys.
const countPage = 300

// Counts counts the agents and keys of organizations.
func (c *Client) Counts() *Counts { return &Counts{client: c, page: countPage} }

// Organizations implements organization.Counts.
func (s *Counts) Organizations(ctx context.Context, after string, limit int) ([]string, error) {
	q := query{
		collection: organizationCollection, only: []string{}, order: []order{{gcp.DocumentID, gcp.Asc}},
		limit: limit,
	}
	if after != "" {
		q.after = []any{after}
	}
	snaps, err := s.client.runQuery(ctx, q)
	if err != nil {
		return nil, err
	}
	return documentIDs(snaps), nil
}

// Recount implements organization.Counts.
//
// It reads the organization, counts, and writes on the condition that the organization was not written since. That
// makes the count safe without a lock or a snapshot: every commit that changes a usage also writes the organization. So
// if the repair's commit succeeds, all counted pages belong to one state, which is still the current one. If another
// change comes first, the count begins again. A count that agrees with the record writes nothing: it may have missed a
// change and agree by chance, which the next recount finds.
//
// A count whose commit failed may belong to no state. So the repair writes its id into the record, and a drift is only
// reported when the id shows that the commit was carried out.
func (s *Counts) Recount(ctx context.Context, id string) (drift organization.Drift, found bool, err error) {
	ref, ok := s.client.ref(organizationCollection, id)
	if !ok {
		return organization.Drift{}, false, nil
	}
	repair := uuid.NewString()
	err = s.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		snap, err := s.client.readOne(ctx, ref)
		if err != nil || !snap.Exists() {
			return err
		}
		if by, _ := snap.Data()["repaired_by"].(string); again && by == repair {
			found = true
			return nil
		}
		o, err := organizationOf(snap)
		if err != nil {
			return err
		}
		counted, err := s.countUsage(ctx, id)
		if err != nil || counted == o.Usage {
			return err
		}
		drift = organization.Drift{OrganizationID: id, Counted: counted, Recorded: o.Usage}
		list := append(setUsage(counted), gcp.Update{Path: "repaired_by", Value: repair})
		_, err = s.client.commit(ctx, s.client.batch().Update(ref, list, gcp.LastUpdateTime(snap.UpdateTime)))
		found = err == nil
		return err
	})
	if err != nil || !found {
		return organization.Drift{}, false, err
	}
	return drift, true, nil
}

// countUsage adds up an organization's agents and keys. It fails if an agent can't be decoded, or is on a plan of
// another release and has no amounts: a count without it would free what the agent holds. Expired keys count until they
// are deleted, because their deletion reduces the usage.
func (s *Counts) countUsage(ctx context.Context, id string) (organization.Usage, error) {
	var sum organization.Usage
	// what HeldUsage reads
	only := []string{"plan", "status", "held", "operations", "secret_versions", "created_at"}
	err := s.eachDocument(ctx, agentCollection, id, only, func(snap *gcp.DocumentSnapshot) error {
		a, err := agentOf(snap)
		if err != nil {
			reportUnreadable(ctx, snap.Ref.Parent.ID, snap.Ref.ID, err)
			return err
		}
		if a.HoldsUnknown() {
			return fmt.Errorf("count the agent %s: the plan %q does not exist, and the record has no amounts", a.ID,
				a.Plan)
		}
		sum = sum.Plus(a.HeldUsage())
		return nil
	})
	if err != nil {
		return sum, err
	}
	return sum, s.eachDocument(ctx, keyCollection, id, []string{}, func(*gcp.DocumentSnapshot) error {
		sum.APIKeys++
		return nil
	})
}

// eachDocument visits an organization's documents in a collection. Only the named fields are read.
func (s *Counts) eachDocument(
	ctx context.Context, collection, organizationID string, only []string, visit func(*gcp.DocumentSnapshot) error,
) error {
	return s.client.eachDocument(ctx, query{
		collection: collection, equal: []equality{{"organization_id", organizationID}}, only: only, limit: s.page,
	}, visit)
}
