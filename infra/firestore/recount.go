package firestore

import (
	"context"

	gcp "cloud.google.com/go/firestore"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/organization"
)

// Counts implements organization.Counts.
type Counts struct {
	client *Client
	// page is how many documents are read at once.
	page int
}

var _ organization.Counts = (*Counts)(nil)

// countPage bounds the memory of a recount; few organizations hold more.
const countPage = 300

// Counts counts what organizations hold.
func (c *Client) Counts() *Counts { return &Counts{client: c, page: countPage} }

// Organizations implements organization.Counts.
func (s *Counts) Organizations(ctx context.Context, after string, limit int) ([]string, error) {
	q := query{collection: organizationCollection, only: []string{}, order: []order{{gcp.DocumentID, gcp.Asc}},
		limit: limit}
	if after != "" {
		q.after = []any{after}
	}
	snaps, err := s.client.find(ctx, q)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(snaps))
	for i, snap := range snaps {
		ids[i] = snap.Ref.ID
	}
	return ids, nil
}

// Recount implements organization.Counts.
//
// It reads the organization, counts, and writes under the precondition that the organization was not written since.
// That is enough for a safe count without a lock or a snapshot: whatever moves a usage (an agent, a key) writes the
// organization in the same commit, so a commit that succeeds proves that all counted pages were of one state, which is
// still the present one. A change that comes first has the count begin again; one that comes later computes from what
// was repaired, or adds to it. A count that agrees with the record may have missed a change and agree by chance: then
// nothing is written, and the next recount sees what is left.
//
// A count that was never committed may have been of two states, and tells nothing. So the repair names itself in the
// record: where the answer to its commit is lost, it is recognised.
func (s *Counts) Recount(ctx context.Context, id string) (drift organization.Drift, found bool, err error) {
	ref, ok := s.client.ref(organizationCollection, id)
	if !ok {
		return organization.Drift{}, false, nil
	}
	repair := uuid.NewString()
	err = s.client.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		snaps, err := s.client.read(ctx, ref)
		if err != nil || !snaps[0].Exists() {
			return err
		}
		if by, _ := snaps[0].Data()["repaired_by"].(string); again && by == repair {
			found = true
			return nil
		}
		o, err := organizationOf(snaps[0])
		if err != nil {
			return err
		}
		counted, err := s.held(ctx, id)
		if err != nil || counted == o.Usage {
			return err
		}
		drift = organization.Drift{OrganizationID: id, Counted: counted, Recorded: o.Usage}
		updates := append(setUsage(counted), gcp.Update{Path: "repaired_by", Value: repair})
		_, err = s.client.commit(ctx, s.client.batch().Update(ref, updates, gcp.LastUpdateTime(snaps[0].UpdateTime)))
		found = err == nil
		return err
	})
	if err != nil || !found {
		return organization.Drift{}, false, err
	}
	return drift, true, nil
}

// held adds up what an organization's agents and keys are now. Expired keys count as long as they exist, because their
// deletion gives them back.
func (s *Counts) held(ctx context.Context, id string) (organization.Usage, error) {
	var sum organization.Usage
	err := s.each(ctx, agentCollection, id, []string{"plan", "status"}, func(snap *gcp.DocumentSnapshot) error {
		a, err := agentOf(snap)
		sum = sum.Plus(holding(a))
		return err
	})
	if err != nil {
		return sum, err
	}
	return sum, s.each(ctx, keyCollection, id, []string{}, func(*gcp.DocumentSnapshot) error {
		sum.APIKeys++
		return nil
	})
}

// each visits an organization's documents of a collection with some of their fields, a page at a time.
func (s *Counts) each(
	ctx context.Context, collection, organizationID string, only []string, visit func(*gcp.DocumentSnapshot) error,
) error {
	q := query{
		collection: collection, equal: []equality{{"organization_id", organizationID}}, only: only,
		order: []order{{gcp.DocumentID, gcp.Asc}}, limit: s.page,
	}
	for {
		snaps, err := s.client.find(ctx, q)
		if err != nil {
			return err
		}
		for _, snap := range snaps {
			if err := visit(snap); err != nil {
				return err
			}
			q.after = []any{snap.Ref.ID}
		}
		if len(snaps) < q.limit {
			return nil
		}
	}
}
