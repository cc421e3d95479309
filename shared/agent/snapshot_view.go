package agent

import (
	"net/http"
	"slices"
	"time"
)

// SnapshotView is the snapshot that clients receive.
type SnapshotView struct {
	ID          string         `json:"id" jsonschema:"Names the snapshot in all agents of the organization, as from_snapshot does."`
	Name        string         `json:"name"`
	AgentID     string         `json:"agent_id" jsonschema:"The id of the agent that the snapshot is of."`
	Status      SnapshotStatus `json:"status" jsonschema:"Only a snapshot that is ready can be restored, cloned and exported."`
	Cause       SnapshotCause  `json:"cause" jsonschema:"Why it was taken: a user asked for it, it is a daily one, it precedes another version of the image, it has the volume that a restore replaced, or the agent moved to another cluster."`
	Consistency Consistency    `json:"consistency" jsonschema:"How the volume was made quiet: by a program of the image, because no container used it, or not at all, so that it has what a machine would find that lost its power."`
	SizeBytes   *int64         `json:"size_bytes" jsonschema:"The size of a volume that is made from it; null until it is ready."`
	Image       *string        `json:"image" jsonschema:"What the agent ran; null if that is not known."`
	CreatedAt   time.Time      `json:"created_at" jsonschema:"When it was requested."`
	TakenAt     *time.Time     `json:"taken_at" jsonschema:"The time whose data it has; null before that."`
	ReadyAt     *time.Time     `json:"ready_at" jsonschema:"When it could first be restored; null before that."`
	ExpiresAt   *time.Time     `json:"expires_at" jsonschema:"When it is deleted; null for never."`
	CreatedBy   *string        `json:"created_by" jsonschema:"The id of the user or API key that asked for it; null for one that the control plane took."`
	Problem     *string        `json:"problem" jsonschema:"Why it failed, or why it is not taken yet; null otherwise."`
}

// Show renders the snapshot for clients.
func (s Snapshot) Show() SnapshotView {
	owner, _, _ := SnapshotOwner(s.ID)
	return SnapshotView{
		ID: s.ID, Name: s.Name, AgentID: owner, Status: s.Status, Cause: s.Cause, Consistency: s.Consistency,
		SizeBytes: optional(s.SizeBytes), Image: optional(s.Image), CreatedAt: s.CreatedAt.UTC(),
		TakenAt: optional(s.CutAt.UTC()), ReadyAt: optional(s.ReadyAt.UTC()), ExpiresAt: optional(s.ExpiresAt.UTC()),
		CreatedBy: optional(s.CreatedBy), Problem: optional(s.Problem),
	}
}

// ShowSnapshots renders the agent's snapshots, the newest first.
func (a Agent) ShowSnapshots() []SnapshotView {
	views := make([]SnapshotView, 0, len(a.Snapshots))
	for _, s := range slices.Backward(a.Snapshots) {
		if !s.Gone() {
			views = append(views, s.Show())
		}
	}
	return views
}

// SnapshotCreated is the answer to the request for a snapshot. Its Location header is the snapshot's path.
type SnapshotCreated struct{ SnapshotView }

// Reply implements function.Reply.
func (c SnapshotCreated) Reply(h http.Header) any {
	h.Set("Location", "/api/v1/agents/"+c.AgentID+"/snapshots/"+c.ID)
	return c.SnapshotView
}

// Example implements function.Exampler.
func (SnapshotView) Example() any {
	at := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	return Snapshot{
		ID: "bn6cuvdpdvgq5ha3f5wtvds3sa-k3v7x2ab", Name: "Before the clean-up", Cause: SnapshotByUser,
		Status: SnapshotReady, Consistency: ConsistentByStop, Image: "assistant@2.1.0", CreatedBy: "user_2a",
		CreatedAt: at,
		CutAt:     at.Add(4 * time.Second), ReadyAt: at.Add(40 * time.Second), SizeBytes: 20 << 30,
	}.Show()
}

// Example implements function.Exampler.
func (SnapshotCreated) Example() any {
	v, _ := SnapshotView{}.Example().(SnapshotView)
	v.Status, v.SizeBytes, v.TakenAt, v.ReadyAt = SnapshotPending, nil, nil, nil
	return SnapshotCreated{v}
}
