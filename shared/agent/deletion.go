package agent

import (
	"context"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Deletion is what is known of an agent's deletion. A time is zero until it is known. Times of workers are those at
// which an answer had arrived, so a resource was requested, or gone, at that time at the latest. A worker that dies
// before it records an observation costs the observation: the next worker makes it again, later.
type Deletion struct {
	// RequestedAt and RequestedBy are the client's. They are zero if a release that did not record them took the
	// request.
	RequestedAt time.Time
	RequestedBy string
	// ClusterRequestedAt is when the cluster accepted the deletion of the namespace, and with it that of the volume and
	// the route.
	ClusterRequestedAt time.Time
	// NamespaceGoneAt is when the namespace was first observed gone. The route is an object in it, and a namespace ends
	// after its objects.
	NamespaceGoneAt time.Time
	// VolumeGoneAt is when no volume of the namespace was left. A volume ends after its disk was deleted.
	VolumeGoneAt time.Time
	// SnapshotsGoneAt is when no snapshot of the namespace's volumes was left, with its data. It is zero in the record
	// of a former release, whose agents had none.
	SnapshotsGoneAt time.Time
	// SecretsRequestedAt is when a worker first began to delete the secrets.
	SecretsRequestedAt time.Time
	// SecretsGoneAt is when the secret store answered for every secret that it does not exist.
	SecretsGoneAt time.Time
}

// RequestDeletion applies a client's request to delete the agent. A repeat changes nothing.
func (a *Agent) RequestDeletion(by string, now time.Time) error {
	repeated := a.Status == Deleting
	err := a.Act(Delete, "", now)
	if err == nil && !repeated {
		a.Deletion.RequestedBy = by
	}
	return err
}

// DeletionRetention is how long the record of a deletion is kept after the agent is gone.
const DeletionRetention = 30 * 24 * time.Hour

// DeletionRecord is the deletion of one agent, as clients see it during the deletion and for DeletionRetention after
// it.
type DeletionRecord struct {
	AgentID        string
	OrganizationID string
	Name           string
	Deletion
	// CompletedAt is when the agent's record was removed; zero before that.
	CompletedAt time.Time
	ExpiresAt   time.Time
}

// NewDeletionRecord makes the record of the deletion of an agent that is being removed.
func NewDeletionRecord(a Agent, d Deletion, now time.Time) DeletionRecord {
	return DeletionRecord{
		AgentID: a.ID, OrganizationID: a.OrganizationID, Name: a.Name, Deletion: d,
		ExpiresAt: now.Add(DeletionRetention),
	}
}

// Complete records when the agent's record was removed. The clocks of the store and of the worker may differ: the
// removal is not shown before the observations that it followed.
func (r *DeletionRecord) Complete(at time.Time) {
	r.CompletedAt = at
	for _, before := range []time.Time{r.NamespaceGoneAt, r.VolumeGoneAt, r.SnapshotsGoneAt, r.SecretsGoneAt} {
		if before.After(r.CompletedAt) {
			r.CompletedAt = before
		}
	}
}

// Deletions is the port through which routes read deletions. It is scoped to the organization of the caller in ctx, as
// Store is.
type Deletions interface {
	// Get reads the deletion of an agent that is being deleted, or was removed at most DeletionRetention ago. Errors:
	// NotFound, Unavailable.
	Get(ctx context.Context, agentID string) (DeletionRecord, error)
}

// DeletionNotFound is the error for a deletion that does not exist, is too old, or belongs to another organization.
func DeletionNotFound() *fault.Error {
	return fault.New(fault.NotFound, "deletion_not_found", "Deletion not found.")
}
