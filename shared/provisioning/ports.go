// Package provisioning brings agents to their desired state: it runs the phases in order, records the progress, and
// decides what an error means. It does not talk to clusters, secret stores or agents itself.
package provisioning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/ratelimit"
)

// RuntimeInput holds the secrets from which an agent's objects are built, in addition to its record. It is never
// recorded or logged.
type RuntimeInput struct {
	Credentials credential.Credentials
	// Secrets maps the keys of the agent's secret variables to their values.
	Secrets map[string][]byte
}

// Cluster is the Kubernetes cluster that an agent was placed on.
type Cluster interface {
	// Apply brings the objects of one stage to the agent's desired state, by server-side apply. It is safe to repeat.
	// A volume grows and never shrinks, and that of an agent that keeps its volume is not made if it is missing.
	// Errors: *Stale for an agent whose runtime was applied for a newer generation, a Permanent fault, which no retry
	// repairs, ErrVolumeUnbound, otherwise Unavailable.
	Apply(ctx context.Context, a agent.Agent, stage agent.StageName, in RuntimeInput) error
	// CheckReady looks once at the agent's pod and returns nil if it is the desired one and Ready.
	// Errors: a *PodFailure, Unavailable.
	CheckReady(ctx context.Context, a agent.Agent) error
	// Prune deletes the agent's configuration objects that only former generations used. It keeps those that a newer
	// generation has applied. Errors: Unavailable.
	Prune(ctx context.Context, a agent.Agent) error
	// Delete begins the deletion of all objects of the agent. It succeeds if they are gone.
	Delete(ctx context.Context, a agent.Agent) error
	// CheckGone looks once and reports what is observed gone. Errors: Unavailable.
	CheckGone(ctx context.Context, a agent.Agent) (Gone, error)
}

// Volumes are the volumes of agents on their clusters, and the snapshots of them.
type Volumes interface {
	// Snapshot asks for a snapshot of the agent's, if no worker has, and returns what is known of it. With quiet, it
	// asks only while no pod uses the volume. It may be repeated. Errors: ErrVolumeInUse; a Permanent fault, which no
	// retry repairs; Unavailable.
	Snapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, quiet bool) (agent.SnapshotState, error)
	// DeleteSnapshot begins the deletion of a snapshot, once its data is found if it is adopted, and reports whether it
	// is observed gone, with its data. Errors: Unavailable.
	DeleteSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) (gone bool, err error)
	// DeleteVolume begins the deletion of a volume that the agent no longer uses, and reports whether it is observed
	// gone. Errors: ErrVolumeInUse, Unavailable.
	DeleteVolume(ctx context.Context, a agent.Agent, number int64) (gone bool, err error)
	// AdoptSnapshot makes a snapshot that another cell took one of the agent's cell, unless that has it. The cell
	// leaves its data alone. The agent has a namespace there. Errors: Unavailable.
	AdoptSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) error
	// RetainSnapshot decides whether the data of a snapshot outlives its deletion by the agent's cell. It does nothing
	// if the cell does not have the snapshot. Errors: ErrSnapshotUnbound if the data must go with an adopted snapshot;
	// Unavailable.
	RetainSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, retain bool) error
}

// Quiescer makes the volume of a running agent quiet, by the program of its image.
type Quiescer interface {
	// Quiesce runs the program with an argument, begin or end. Errors: a Permanent fault if the program fails,
	// otherwise Unavailable.
	Quiesce(ctx context.Context, a agent.Agent, argument string) error
}

// The arguments of Quiesce.
const (
	QuiesceBegin = "begin"
	QuiesceEnd   = "end"
)

// ErrSnapshotUnbound means that a cell has not found the data of a snapshot that it adopted a moment ago. It could not
// delete the data.
var ErrSnapshotUnbound = errors.New("the cell has not found the data of the snapshot yet")

// ErrVolumeInUse means that a pod of the agent still uses a volume.
var ErrVolumeInUse = errors.New("a pod still uses the volume")

// ErrVolumeUnbound means that an agent's volume was asked for in another size before and is not made yet. It can grow
// once a pod has a machine, because only then it is made.
var ErrVolumeUnbound = errors.New("the volume is not made yet and cannot grow")

// Gone says what of an agent a cluster no longer has.
type Gone struct {
	// Namespace is true if the namespace is gone, and so are all objects in it, among them the route.
	Namespace bool
	// Volume is true if no volume that was claimed in the namespace is left.
	Volume bool
	// Snapshots is true if no snapshot that was taken in the namespace is left, with its data.
	Snapshots bool
}

// All reports whether the cluster has nothing of the agent.
func (g Gone) All() bool { return g.Namespace && g.Volume && g.Snapshots }

// AgentProber asks a running agent through its hostname.
type AgentProber interface {
	// Probe checks that the agent serves. Errors: Unavailable, with the answer in its metadata.
	Probe(ctx context.Context, a agent.Agent) error
	// Accepts checks whether the agent accepts credentials, in the way its users present them. Errors: Unavailable,
	// with the answer in its metadata.
	Accepts(ctx context.Context, a agent.Agent, c credential.Credentials) (Verdict, error)
	// Door asks the agent's front for its door. Errors: Unavailable.
	Door(ctx context.Context, a agent.Agent) (Door, error)
}

// CleanupBudget limits what workers spend of the secret store's quota to destroy versions. Bringing agents up has no
// limit, so cleanup must leave it enough.
type CleanupBudget interface {
	// TakeCleanup takes a number of calls from the budget of all workers. Errors: Unavailable (secret_quota_exceeded)
	// if they must wait.
	TakeCleanup(ctx context.Context, calls int64) error
}

// CleanupLimit is the limit of all workers together for a secret store that allows a number of writes a minute. It
// refills as fast as that of requests, so that workers destroy as many versions as requests add, and in every minute it
// allows at most a quarter of the writes. With what requests get, a quarter is left to bring agents up.
func CleanupLimit(writesPerMinute int) ratelimit.Limit {
	return ratelimit.Limit{Quota: writesPerMinute / 12, Window: 30 * time.Second}
}

// Verdict is whether an agent accepts credentials.
type Verdict string

// The verdicts.
const (
	// Accepted: the dashboard accepts the password, and the API accepts the key.
	Accepted Verdict = "accepted"
	// Refused: neither accepts its part.
	Refused Verdict = "refused"
	// Divided: only one of the two accepts its part.
	Divided Verdict = "divided"
)

// NamespaceLister lists, marks and deletes the namespaces of agents on all clusters. It knows only namespaces that are
// labeled with the identity of the control plane's own database.
type NamespaceLister interface {
	// Namespaces lists every namespace of an agent that is not being deleted. A list that may be incomplete is an
	// error.
	Namespaces(ctx context.Context) ([]Placement, error)
	// MarkNamespace records on a namespace since when its agent has had no record, and stops the agent's pod. A zero
	// time clears the mark and starts no pod. It has no effect if the namespace is no longer the one that was listed.
	MarkNamespace(ctx context.Context, p Placement, orphanedSince time.Time) error
	// DeleteNamespace begins the deletion of a namespace, if it is still the one that was listed.
	DeleteNamespace(ctx context.Context, p Placement) error
	// DeleteSources deletes what is left of the snapshots from which volumes of agents were made whose namespaces are
	// gone. It deletes no data: it leaves the snapshots to the agents that they are of.
	DeleteSources(ctx context.Context) error
}

// Placement is one namespace of an agent on a cluster.
type Placement struct {
	Cell      string
	AgentID   string
	UID       string
	CreatedAt time.Time
	// OrphanedSince is the mark that MarkNamespace recorded; zero if there is none.
	OrphanedSince time.Time
}

// SecretLister lists, marks and deletes the secrets of agents by their owners. It knows only secrets that are labeled
// with the identity of the control plane's own database, and never reads values. Its lists may be hours old.
type SecretLister interface {
	// SecretOwners lists every agent that owns secrets.
	SecretOwners(ctx context.Context) ([]SecretOwner, error)
	// MarkSecrets records on the listed secrets since when their agent has had no record. A zero time clears the mark.
	// A secret that was deleted or written since it was listed is left as it is.
	MarkSecrets(ctx context.Context, o SecretOwner, orphanedSince time.Time) error
	// DeleteSecrets deletes the listed secrets. A secret that was written since it was listed stays.
	DeleteSecrets(ctx context.Context, o SecretOwner) error
}

// SecretOwner is an agent that owns secrets.
type SecretOwner struct {
	AgentID string
	// CreatedAt is when the youngest of the secrets was created.
	CreatedAt time.Time
	// OrphanedSince is the latest mark of the secrets; zero if one of them has none.
	OrphanedSince time.Time
	Secrets       []ListedSecret
}

// ListedSecret is one secret as it was listed.
type ListedSecret struct {
	Name string
	// Version is the store's revision of the secret's labels, not of its values.
	Version string
	// OrphanedSince is the secret's own mark.
	OrphanedSince time.Time
}

// PodLister reads the pods of agents on all clusters.
type PodLister interface {
	// Cells names the clusters.
	Cells() []string
	// Pods reads the pods of all agents of a cell with one list call. A list that may be incomplete is an error.
	// Errors: Unavailable.
	Pods(ctx context.Context, cell string) ([]Pod, error)
	// Current reports whether a pod was started with the agent's present configuration.
	Current(a agent.Agent, p Pod) bool
	// Existence reads which objects of one agent exist. Errors: Unavailable.
	Existence(ctx context.Context, a agent.Agent) (Existence, error)
}

// Pod is the observed state of an agent's pod.
type Pod struct {
	AgentID string
	// Config identifies the configuration that the pod was started with. Only the PodLister interprets it.
	Config string
	// Since is when the pod became Ready or stopped being Ready. For a pod that was never Ready, it is the time of its
	// creation.
	Since time.Time
	// Failure is why the pod is not Ready, and Permanent if it won't become Ready; nil for a Ready pod.
	Failure *PodFailure
	// UID names the pod among those that the agent had, and Restarts counts how often its container was started again.
	UID      string
	Restarts int64
	// LastRun is how long the most recently ended container ran; 0 if none has ended.
	LastRun time.Duration
	// Lost is when the agent ceased to serve before Since if it had served then, as far as the pod tells: its container
	// ended, or the pod was created in the place of another. Zero if the pod is told to stop.
	Lost time.Time
	// Ended are the runs of the agent's container that have ended and whose logs the cluster still has.
	Ended []EndedContainer
}

// Existence says which objects of an agent a cluster has.
type Existence struct {
	// Namespace is false if there is none, or if it is being deleted.
	Namespace bool
	Pod       bool
}

// PodFailure is why the agent's pod does not become Ready.
type PodFailure struct {
	// Code is "image_pull_failed", "pod_crash_loop", "out_of_memory", "pod_unschedulable" or "readiness_timeout".
	Code string
	// Message says what happened and what the client can do.
	Message string
	// Since is when the pod became not Ready, or was created; zero if there is none.
	Since time.Time
	// Observed is what the cluster reported, without the time.
	Observed agent.Observation
	// Permanent is true if waiting does not help.
	Permanent bool
	// Repairable is true if applying the agent's objects again may help: the desired pod does not exist, or it lacks
	// objects that its container needs.
	Repairable bool
	// Ended are the runs of the agent's container that have ended and whose logs the cluster still has.
	Ended []EndedContainer
}

// observation is what the record keeps of the pod.
func (f *PodFailure) observation() agent.Observation {
	o := f.Observed
	o.Since = f.Since
	return o
}

// Error implements error.
func (f *PodFailure) Error() string { return f.Code + ": " + f.Message }

// Stale is the error of a write that the cluster refuses because it has a newer generation of the agent.
type Stale struct {
	// Generation is the cluster's.
	Generation int64
	Cause      error
}

// Error implements error.
func (s *Stale) Error() string {
	return fmt.Sprintf("the cluster has generation %d of the agent, which is newer: %v", s.Generation, s.Cause)
}

// Unwrap returns the cause.
func (s *Stale) Unwrap() error { return s.Cause }

// Permanent is an error of a cluster that no retry repairs, such as an object that the API server rejects as invalid.
type Permanent struct {
	Code    string
	Message string
	Cause   error
}

// Error implements error.
func (p *Permanent) Error() string {
	if p.Cause == nil {
		return p.Code + ": " + p.Message
	}
	return p.Code + ": " + p.Message + ": " + p.Cause.Error()
}

// Unwrap returns the cause.
func (p *Permanent) Unwrap() error { return p.Cause }
