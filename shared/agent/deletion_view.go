package agent

import (
	"net/http"
	"time"
)

// DeletionStatus says how far a deletion is.
type DeletionStatus string

// The statuses of deletions.
const (
	DeletionRuns DeletionStatus = "deleting"
	DeletionDone DeletionStatus = "deleted"
)

// Values lists the statuses.
func (DeletionStatus) Values() []string { return []string{string(DeletionRuns), string(DeletionDone)} }

// ResourceName names a resource of an agent.
type ResourceName string

// The resources of an agent, as a deletion lists them.
const (
	ResourceNamespace ResourceName = "namespace"
	ResourceVolume    ResourceName = "volume"
	ResourceSnapshots ResourceName = "snapshots"
	ResourceSecrets   ResourceName = "secrets"
	ResourceRoute     ResourceName = "route"
	ResourceRecord    ResourceName = "record"
)

// Values lists the resources.
func (ResourceName) Values() []string {
	return []string{
		string(ResourceNamespace), string(ResourceVolume), string(ResourceSnapshots), string(ResourceSecrets),
		string(ResourceRoute), string(ResourceRecord),
	}
}

// DeletionView is the deletion that clients receive.
type DeletionView struct {
	DeletionFacts
	Receipt *string `json:"receipt" jsonschema:"A JSON Web Signature of these facts, signed with a key of /.well-known/jwks.json. Null until everything is observed gone, and if the service has no signing key."`
}

// DeletionFacts is what is known of a deletion.
type DeletionFacts struct {
	AgentID     string            `json:"agent_id" jsonschema:"The agent's id."`
	Name        string            `json:"name" jsonschema:"The agent's name."`
	Status      DeletionStatus    `json:"status"`
	RequestedAt *time.Time        `json:"requested_at" jsonschema:"When a client requested the deletion; null if an older release took the request."`
	RequestedBy *string           `json:"requested_by" jsonschema:"The id of the user or API key that requested it; null if an older release took the request."`
	CompletedAt *time.Time        `json:"completed_at" jsonschema:"When the agent's record was removed, after everything else; null before that."`
	Resources   []DeletedResource `json:"resources" jsonschema:"What the agent consisted of."`
}

// DeletedResource is what is known of the deletion of one resource.
type DeletedResource struct {
	Name           ResourceName `json:"name"`
	RequestedAt    *time.Time   `json:"requested_at" jsonschema:"When the service had requested the deletion; null before that."`
	ObservedGoneAt *time.Time   `json:"observed_gone_at" jsonschema:"When the service observed that the resource was gone; null before that."`
}

// Show renders the deletion, without a receipt.
func (r DeletionRecord) Show() DeletionView {
	resource := func(name ResourceName, requested, gone time.Time) DeletedResource {
		return DeletedResource{Name: name, RequestedAt: optional(requested.UTC()), ObservedGoneAt: optional(gone.UTC())}
	}
	f := DeletionFacts{
		AgentID: r.AgentID, Name: r.Name, Status: DeletionRuns, RequestedAt: optional(r.RequestedAt.UTC()),
		RequestedBy: optional(r.RequestedBy), CompletedAt: optional(r.CompletedAt.UTC()),
		Resources: []DeletedResource{
			resource(ResourceNamespace, r.ClusterRequestedAt, r.NamespaceGoneAt),
			resource(ResourceVolume, r.ClusterRequestedAt, r.VolumeGoneAt),
			resource(ResourceSnapshots, r.ClusterRequestedAt, r.snapshotsGone()),
			resource(ResourceSecrets, r.SecretsRequestedAt, r.SecretsGoneAt),
			resource(ResourceRoute, r.ClusterRequestedAt, r.NamespaceGoneAt),
			resource(ResourceRecord, r.RequestedAt, r.CompletedAt),
		},
	}
	if !r.CompletedAt.IsZero() {
		f.Status = DeletionDone
	}
	return DeletionView{DeletionFacts: f}
}

// snapshotsGone is when no snapshot was left. A deletion that a former release ended had none.
func (r DeletionRecord) snapshotsGone() time.Time {
	if r.SnapshotsGoneAt.IsZero() && !r.CompletedAt.IsZero() {
		return r.VolumeGoneAt
	}
	return r.SnapshotsGoneAt
}

// AllGone reports whether every resource was observed gone.
func (f DeletionFacts) AllGone() bool {
	for _, r := range f.Resources {
		if r.ObservedGoneAt == nil {
			return false
		}
	}
	return len(f.Resources) > 0
}

// DeletionAccepted is the answer to the deletion of an agent. Its Location header is the path of the deletion.
type DeletionAccepted struct{ View }

// Reply implements function.Reply.
func (d DeletionAccepted) Reply(h http.Header) any {
	h.Set("Location", "/api/v1/deletions/"+d.ID)
	return d.View.Reply(h)
}

// Example implements function.Exampler.
func (DeletionAccepted) Example() any {
	v, _ := View{}.Example().(View)
	return DeletionAccepted{View: v}
}

// Example implements function.Exampler.
func (DeletionView) Example() any {
	at := func(seconds int) time.Time { return time.Date(2026, 1, 15, 9, 30, seconds, 0, time.UTC) }
	r := DeletionRecord{
		AgentID: "3fa85f64-5717-4562-b3fc-2c963f66afa6", Name: "support-bot",
		Deletion: Deletion{
			RequestedAt: at(0), RequestedBy: "user_2a", ClusterRequestedAt: at(1), NamespaceGoneAt: at(31),
			VolumeGoneAt: at(31), SnapshotsGoneAt: at(31), SecretsRequestedAt: at(31), SecretsGoneAt: at(32),
		},
		CompletedAt: at(33),
	}
	return r.Show()
}
