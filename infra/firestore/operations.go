package firestore

import (
	"context"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
)

// Operations implements secret.Operations. It only reads: the history is written with the agents whose operations it
// tells of.
type Operations struct {
	client *Client
}

var _ secret.Operations = (*Operations)(nil)

// Get implements secret.Operations.
func (s *Operations) Get(ctx context.Context, agentID, id string) (secret.Operation, error) {
	ref, ok := s.client.ref(operationCollection, id)
	if !ok {
		return secret.Operation{}, secret.NotFound()
	}
	snaps, err := s.client.read(ctx, ref)
	if err != nil {
		return secret.Operation{}, err
	}
	if !snaps[0].Exists() {
		return secret.Operation{}, secret.NotFound()
	}
	o, err := operationOf(snaps[0])
	if err != nil {
		return secret.Operation{}, err
	}
	if own := identity.From(ctx).OrganizationID; o.AgentID != agentID || o.OrganizationID != own || own == "" {
		return secret.Operation{}, secret.NotFound()
	}
	return o, nil
}

// List implements secret.Operations.
func (s *Operations) List(ctx context.Context, agentID string, p page.Request) (page.Page[secret.Operation], error) {
	now := s.client.now()
	return list(ctx, s.client, listing[secret.Operation]{
		query: query{collection: operationCollection, equal: []equality{
			{"organization_id", identity.From(ctx).OrganizationID}, {"agent_id", agentID},
		}},
		tie:    gcp.DocumentID,
		decode: operationOf,
		place:  func(o secret.Operation) place { return place{o.CreatedAt, o.ID} },
		// Firestore deletes an operation some days after its end.
		keep: func(o secret.Operation) bool { return o.Open() || now.Before(o.UpdatedAt.Add(historyRetention)) },
	}, p)
}

// operationOf makes the record of a document that exists.
func operationOf(snap *gcp.DocumentSnapshot) (secret.Operation, error) {
	d, err := decode[historyDocument](snap)
	o := d.Operation.operation(d.AgentID, d.OrganizationID)
	o.CreatedAt = d.CreatedAt.In(time.UTC)
	return o, err
}
