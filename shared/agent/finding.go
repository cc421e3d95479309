package agent

import (
	"slices"
	"time"
)

// Finding is something that a worker did or saw and that the agent's record does not hold yet.
type Finding interface{ record(a *Agent) }

// Learn records findings in their order.
func (a *Agent) Learn(findings ...Finding) {
	for _, f := range findings {
		f.record(a)
	}
}

// StageBegan says that a worker began a stage. It matters for a stage that is shown as unfinished.
type StageBegan struct {
	Stage StageName
	At    time.Time
}

func (f StageBegan) record(a *Agent) {
	if a.BeingProvisioned() && slices.Contains(a.Unfinished(), f.Stage) {
		a.BeginStage(f.Stage, f.At)
	}
}

// StageTried says that a worker ran a stage, which failed. The failure is recorded apart from it.
type StageTried struct {
	Stage StageName
	Since time.Time
}

func (f StageTried) record(a *Agent) { a.RepeatStage(f.Stage, f.Since) }

// StageEnded says that a worker ran a stage to its end.
type StageEnded struct {
	Stage     StageName
	Status    StageStatus
	Since, At time.Time
}

func (f StageEnded) record(a *Agent) {
	if f.Stage == StageSecrets {
		a.MarkSecretsSynced(f.At)
	}
	a.RepeatStage(f.Stage, f.Since)
	a.EndStage(f.Stage, f.Status, f.At)
}

// ObjectsApplied says that all objects of the present generation are applied.
type ObjectsApplied struct{ At time.Time }

func (f ObjectsApplied) record(a *Agent) { a.Applied(f.At) }

// RotationProved says that the pod accepts the new credentials and refuses the former ones.
type RotationProved struct{ At time.Time }

func (f RotationProved) record(a *Agent) { a.MarkRotated(f.At) }

// APIKeyUsed says that the pod of a version of the credentials has an API key with this hash.
type APIKeyUsed struct {
	Version int64
	Hash    string
}

func (f APIKeyUsed) record(a *Agent) {
	if f.Version == a.CredentialVersion {
		a.APIKeyHash = f.Hash
	}
}

// ClusterDeletionRequested says that the cluster accepted the deletion of the agent's objects.
type ClusterDeletionRequested struct{ At time.Time }

func (f ClusterDeletionRequested) record(a *Agent) { setOnce(&a.Deletion.ClusterRequestedAt, f.At) }

// ClusterDeletionSeen is what a look at the cluster found. What exists again is not gone: a slower worker may have
// applied it in between.
type ClusterDeletionSeen struct {
	NamespaceGone, VolumeGone, SnapshotsGone bool
	At                                       time.Time
}

func (f ClusterDeletionSeen) record(a *Agent) {
	observe(&a.Deletion.NamespaceGoneAt, f.NamespaceGone, f.At)
	observe(&a.Deletion.VolumeGoneAt, f.VolumeGone, f.At)
	observe(&a.Deletion.SnapshotsGoneAt, f.SnapshotsGone, f.At)
}

// SecretsDeletionRequested says that a worker begins to delete the agent's secrets.
type SecretsDeletionRequested struct{ At time.Time }

func (f SecretsDeletionRequested) record(a *Agent) { setOnce(&a.Deletion.SecretsRequestedAt, f.At) }

// SecretsGone says that no secret of the agent exists.
type SecretsGone struct{ At time.Time }

func (f SecretsGone) record(a *Agent) { setOnce(&a.Deletion.SecretsGoneAt, f.At) }

func setOnce(t *time.Time, at time.Time) {
	if t.IsZero() {
		*t = at
	}
}

func observe(t *time.Time, gone bool, at time.Time) {
	if !gone {
		*t = time.Time{}
		return
	}
	setOnce(t, at)
}
