package firestore

import (
	"context"
	"slices"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
)

// Deletions implements agent.Deletions. While an agent is being deleted, its own record has what is known of the
// deletion. The commit that removes the record stores the deletion's, so it costs one write and is never ahead of or
// behind the removal.
type Deletions struct {
	client *Client
}

var _ agent.Deletions = (*Deletions)(nil)

// Deletions is the store of deletions.
func (c *Client) Deletions() *Deletions { return &Deletions{client: c} }

func deletionFields(d *agent.Deletion) fields {
	return fields{
		{"requested_at", timestamp(&d.RequestedAt)},
		{"requested_by", text(&d.RequestedBy)},
		{"cluster_requested_at", timestamp(&d.ClusterRequestedAt)},
		{"namespace_gone_at", timestamp(&d.NamespaceGoneAt)},
		{"volume_gone_at", timestamp(&d.VolumeGoneAt)},
		{"snapshots_gone_at", timestamp(&d.SnapshotsGoneAt)},
		{"secrets_requested_at", timestamp(&d.SecretsRequestedAt)},
		{"secrets_gone_at", timestamp(&d.SecretsGoneAt)},
	}
}

// deletionRecordFields lists what is stored of a deletion. Firestore deletes it some time after expires_at. The time of
// the document's write is that of the removal.
func deletionRecordFields(r *agent.DeletionRecord) fields {
	return slices.Concat(fields{
		{"organization_id", text(&r.OrganizationID)},
		{"name", text(&r.Name)},
		{"expires_at", timestamp(&r.ExpiresAt)},
	}, deletionFields(&r.Deletion))
}

func (c *Client) deletion(agentID string) (*gcp.DocumentRef, bool) {
	return c.ref(deletionCollection, agent.Document(agentID).ID)
}

// saveDeletion stores the record of a deletion with the removal of the agent's.
func (c *Client) saveDeletion(b *batch, r agent.DeletionRecord) {
	if ref, ok := c.deletion(r.AgentID); ok {
		b.Set(ref, deletionRecordFields(&r).encode())
	}
}

// Get implements agent.Deletions. It reads both records in one call, the agent's first: when it is gone, the deletion's
// exists.
func (s *Deletions) Get(ctx context.Context, agentID string) (agent.DeletionRecord, error) {
	agentRef, ok := s.client.agent(agentID)
	if !ok {
		return agent.DeletionRecord{}, agent.DeletionNotFound()
	}
	ref, _ := s.client.deletion(agentID)
	snaps, err := s.client.read(ctx, agentRef, ref)
	if err != nil {
		return agent.DeletionRecord{}, err
	}
	r := agent.DeletionRecord{AgentID: agentRef.ID}
	switch {
	case snaps[0].Exists():
		a, err := agentOf(snaps[0])
		if err != nil {
			return agent.DeletionRecord{}, err
		}
		if a.Status != agent.Deleting {
			return agent.DeletionRecord{}, agent.DeletionNotFound()
		}
		r.OrganizationID, r.Name, r.Deletion = a.OrganizationID, a.Name, a.Deletion
	case snaps[1].Exists():
		if err := decode(snaps[1], deletionRecordFields(&r)); err != nil {
			return agent.DeletionRecord{}, err
		}
		r.Complete(snaps[1].UpdateTime)
		if !s.client.now().Before(r.ExpiresAt) {
			return agent.DeletionRecord{}, agent.DeletionNotFound()
		}
	}
	if caller := call.From(ctx).Caller; caller.OrganizationID == "" || r.OrganizationID != caller.OrganizationID {
		return agent.DeletionRecord{}, agent.DeletionNotFound()
	}
	return r, nil
}
