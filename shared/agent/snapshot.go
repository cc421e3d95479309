package agent

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/fault"
)

// Snapshot is what an agent's volume held at one time. It is part of the agent's record: whatever changes a snapshot
// and its agent is one commit, and a snapshot never outlives its agent.
type Snapshot struct {
	// ID names the agent, too: see SnapshotOwner.
	ID   string
	Name string
	// Cause is why it is taken.
	Cause  SnapshotCause
	Status SnapshotStatus
	// Consistency is how the volume is made quiet.
	Consistency Consistency
	// Volume is the number of the volume.
	Volume int64
	// Image is what the agent ran, as image.Choice.String names it.
	Image     string
	CreatedBy string
	CreatedAt time.Time
	// RequestedAt is when a worker first found the volume quiet and asked the cluster for the snapshot.
	RequestedAt time.Time
	// CutAt is the time whose data it has. From then on the agent may write again, although storage is still copying.
	CutAt time.Time
	// Handle is what the storage of the cells calls it. It is empty until the snapshot is cut.
	Handle string
	// ReadyAt is when it could first be restored.
	ReadyAt time.Time
	// SizeBytes is the size of a volume that is made from it.
	SizeBytes int64
	// ExpiresAt is when it is deleted; zero for never.
	ExpiresAt time.Time
	// LookAt is when a worker looks at it again, while it is pending or being deleted.
	LookAt time.Time
	// GoneAt is when it was first observed gone, while it is being deleted; see lateness.
	GoneAt time.Time
	// Problem is why it failed, or why it is not taken yet.
	Problem string
}

// SnapshotStatus is how far a snapshot is.
type SnapshotStatus string

// The statuses of snapshots.
const (
	SnapshotPending  SnapshotStatus = "pending"
	SnapshotReady    SnapshotStatus = "ready"
	SnapshotFailed   SnapshotStatus = "failed"
	SnapshotDeleting SnapshotStatus = "deleting"
)

// Values lists the statuses.
func (SnapshotStatus) Values() []string {
	return []string{
		string(SnapshotPending), string(SnapshotReady), string(SnapshotFailed), string(SnapshotDeleting),
	}
}

// SnapshotCause is why a snapshot is taken.
type SnapshotCause string

// The causes.
const (
	SnapshotByUser SnapshotCause = "user"
	// SnapshotBySchedule is a daily one.
	SnapshotBySchedule SnapshotCause = "schedule"
	// SnapshotByRelease precedes another version of the agent's image, whoever chose it.
	SnapshotByRelease SnapshotCause = "release"
	// SnapshotByRestore has the volume that a restore replaced.
	SnapshotByRestore SnapshotCause = "restore"
	// SnapshotByMove takes the agent to another cell.
	SnapshotByMove SnapshotCause = "move"
)

// Values lists the causes.
func (SnapshotCause) Values() []string {
	return []string{
		string(SnapshotByUser), string(SnapshotBySchedule), string(SnapshotByRelease), string(SnapshotByRestore),
		string(SnapshotByMove),
	}
}

// Consistency is how a volume is made quiet for a snapshot. A volume that no pod uses is quiet.
type Consistency string

// The ways.
const (
	// ConsistentByHook: a program of the image says when the volume is quiet.
	ConsistentByHook Consistency = "hook"
	// ConsistentByStop: no pod uses the volume until the snapshot is cut.
	ConsistentByStop Consistency = "stop"
	// ConsistentAfterCrash: the snapshot has what a machine would find that lost its power.
	ConsistentAfterCrash Consistency = "crash"
)

// Values lists the ways.
func (Consistency) Values() []string {
	return []string{string(ConsistentByHook), string(ConsistentByStop), string(ConsistentAfterCrash)}
}

// SnapshotState is what a cluster reports of a snapshot.
type SnapshotState struct {
	// CutAt is zero, and Handle empty, until the snapshot is cut.
	CutAt  time.Time
	Handle string
	// Ready is true once it can be restored. SizeBytes is known by then.
	Ready     bool
	SizeBytes int64
	// Problem is why storage has not taken it; it tries again.
	Problem string
}

const (
	// HoldTime is how long the agent's pod stays away for a snapshot that is not cut. Then the snapshot has failed.
	HoldTime = 2 * time.Minute
	// snapshotTimeout is how long storage may take for any other one.
	snapshotTimeout = 6 * time.Hour
	// releaseRetention, restoreRetention and failureRetention are how long the control plane's own snapshots, and
	// those that have failed, are kept.
	releaseRetention = 7 * day
	restoreRetention = 7 * day
	failureRetention = 7 * day
	// maxReleaseSnapshots bounds the snapshots before updates.
	maxReleaseSnapshots = 3
	// lateness is more than the time after which a call of a cluster has its effect or never has it. What was observed
	// gone is deleted again after it: a worker may have asked for it in between.
	lateness = 15 * time.Minute
	// maxSnapshotLook is the longest time between two looks at a snapshot.
	maxSnapshotLook = 10 * time.Minute
)

// suffixLength is the length of the part of an id that tells the snapshots of an agent apart.
const suffixLength = 8

// SnapshotOwner returns the id of the agent that a snapshot is of, and what tells it apart from the agent's others. It
// is false for what cannot be the id of a snapshot.
func SnapshotOwner(id string) (agentID, suffix string, ok bool) {
	owner, suffix, ok := strings.Cut(id, "-")
	if !ok || len(suffix) != suffixLength || strings.Trim(suffix, hostnameAlphabet) != "" {
		return "", "", false
	}
	if agentID, ok = decodeID(owner); !ok {
		return "", "", false
	}
	return agentID, suffix, true
}

// newSnapshotID makes the id of a snapshot that a commit adds. It depends on nothing but the commit, so that a commit
// that is repeated adds the same one.
func (a Agent) newSnapshotID(cause SnapshotCause, now time.Time) string {
	id, err := uuid.Parse(a.ID)
	if err != nil {
		return ""
	}
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(a.ID + "\n" + string(cause) + "\n" + strconv.FormatInt(now.UnixNano(), 10) + "\n" +
			strconv.Itoa(n)))
		suffix := hostnameEncoding().EncodeToString(sum[:])[:suffixLength]
		if made := hostnameEncoding().EncodeToString(id[:]) + "-" + suffix; a.snapshot(made) == nil {
			return made
		}
	}
}

// snapshot returns one of the agent's snapshots, or nil.
func (a *Agent) snapshot(id string) *Snapshot {
	for i := range a.Snapshots {
		if a.Snapshots[i].ID == id {
			return &a.Snapshots[i]
		}
	}
	return nil
}

// Gone reports whether the snapshot is deleted as far as its agent's users see.
func (s Snapshot) Gone() bool { return !s.GoneAt.IsZero() }

// Snapshot returns one of the agent's snapshots that are not gone. Errors: NotFound.
func (a Agent) Snapshot(id string) (Snapshot, error) {
	if s := a.snapshot(id); s != nil && !s.Gone() {
		return *s, nil
	}
	return Snapshot{}, SnapshotNotFound()
}

// SnapshotNotFound is the error for a snapshot that does not exist, or whose agent does not.
func SnapshotNotFound() *fault.Error {
	return fault.New(fault.NotFound, "snapshot_not_found", "Snapshot not found.")
}

// SnapshotBytes is the size of the agent's snapshots that are ready.
func (a Agent) SnapshotBytes() (total int64) {
	for _, s := range a.Snapshots {
		if s.Status == SnapshotReady {
			total += s.SizeBytes
		}
	}
	return total
}
