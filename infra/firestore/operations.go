package firestore

import (
	"context"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
)

// Operations implements secret.Operations. It only reads: the commit that changes an agent writes the history of the
// agent's operations.
type Operations struct {
	client *Client
}

var _ secret.Operations = (*Operations)(nil)

// Operations is the history of secret operations.
func (c *Client) Operations() *Operations { return &Operations{client: c} }

// operationFields lists what is stored of an operation, in the history and, while the operation is open, in its agent's
// document. The document that it is in has the ids of the agent and the organization.
func operationFields(o *secret.Operation) fields {
	return fields{
		{"id", text(&o.ID)},
		{"key", text(&o.Key)},
		{"action", text(&o.Action)},
		{"stage", text(&o.Stage)},
		{"status", text(&o.Status)},
		{"error_code", text(&o.ErrorCode)},
		{"attempts", number(&o.Attempts)},
		{"seen", number(&o.LatestBefore)},
		{"version", number(&o.Version)},
		{"bytes", number(&o.Bytes)},
		{"target", text(&o.Target)},
		{"batch", text(&o.Batch)},
		{"storing_until", timestamp(&o.StoringUntil)},
		{"required_to_start", flag(&o.RequiredToStart)},
		{"created_at", timestamp(&o.CreatedAt)},
		{"updated_at", timestamp(&o.UpdatedAt)},
	}
}

// historyRetention is how long the history stores an operation that has ended.
const historyRetention = 90 * 24 * time.Hour

// historyFields lists what a document of the history stores. Firestore deletes it some time after expires_at, which is
// null while the operation is open.
func historyFields(o *secret.Operation) fields {
	var expiresAt time.Time
	if !o.Open() {
		expiresAt = o.UpdatedAt.Add(historyRetention)
	}
	return fields{
		{"agent_id", text(&o.AgentID)},
		{"organization_id", text(&o.OrganizationID)},
		{"created_at", timestamp(&o.CreatedAt)},
		{"expires_at", timestamp(&expiresAt)},
		{"operation", compactGroup(operationFields(o))},
	}
}

// historyEntryOf makes the operation of a document that exists.
func historyEntryOf(snap *gcp.DocumentSnapshot) (secret.Operation, error) {
	var o secret.Operation
	err := decode(snap, historyFields(&o))
	return o, err
}

// saveOperations writes the history of the operations that differ between two states of an agent.
func (c *Client) saveOperations(b *batch, before, after agent.Agent) {
	for _, o := range after.ChangedOperations(before) {
		if ref, ok := c.ref(operationCollection, o.ID); ok { // ids are made by the control plane
			doc := historyFields(&o).encode()
			doc["operation"] = operationFields(&o).encodeMerge()
			b.Set(ref, doc, gcp.MergeAll)
		}
	}
}

// Get implements secret.Operations.
func (s *Operations) Get(ctx context.Context, agentID, id string) (secret.Operation, error) {
	ref, ok := s.client.ref(operationCollection, id)
	if !ok {
		return secret.Operation{}, secret.NotFound()
	}
	snap, err := s.client.readOne(ctx, ref)
	if err != nil {
		return secret.Operation{}, err
	}
	if !snap.Exists() {
		return secret.Operation{}, secret.NotFound()
	}
	o, err := historyEntryOf(snap)
	if err != nil {
		return secret.Operation{}, err
	}
	if own := call.From(ctx).Caller.OrganizationID; o.AgentID != agentID || o.OrganizationID != own || own == "" {
		return secret.Operation{}, secret.NotFound()
	}
	return o, nil
}

// List implements secret.Operations.
func (s *Operations) List(ctx context.Context, agentID string, p page.Request) (page.Page[secret.Operation], error) {
	now := s.client.now()
	return listPage(ctx, s.client, listing[secret.Operation]{
		query: query{collection: operationCollection, equal: []equality{
			{"organization_id", call.From(ctx).Caller.OrganizationID}, {"agent_id", agentID},
		}},
		tieBreaker: gcp.DocumentID,
		decode:     historyEntryOf,
		position:   func(o secret.Operation) position { return position{o.CreatedAt, o.ID} },
		// Firestore deletes an operation some days after its end.
		include: func(o secret.Operation) bool { return o.Open() || now.Before(o.UpdatedAt.Add(historyRetention)) },
	}, p)
}
