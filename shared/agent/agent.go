// Package agent defines the agent: its record, its statuses and the transitions between them, its provisioning stages,
// the rules for its name, environment and hostname, and the view that clients receive. It does not store agents or run
// them on a cluster.
package agent

import (
	"encoding/json"
	"time"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// Agent is the record of an agent: the desired state, which routes write, and the observed state, which workers write.
// New fields must have a usable zero value, because functions are deployed in any order.
type Agent struct {
	ID             string
	OrganizationID string
	Name           string
	// Slug is the hostname's readable part, fixed at creation so that a rename never moves an agent.
	Slug   string
	Plan   plan.ID
	Cloud  string
	Region string
	// Cell is the cluster that the agent is on. It was placed there at creation, or an operator moved it there.
	Cell string
	// Move is the agent's move to another cell; zero if there is none.
	Move Move
	// Config holds the client's own keys as a JSON object. Show adds the control plane's keys.
	Config json.RawMessage
	// Env is sorted by key. It does not hold the values of secrets.
	Env []EnvVar
	// Files is sorted by path. It does not hold the values of secrets.
	Files []File
	// PublicPaths are those that anyone may request, in addition to the image's. They are sorted.
	PublicPaths []string
	// Egress says what the agent may reach. Its zero value lets it reach everything.
	Egress egress.Rules
	// Injected are the brokered secrets, sorted by key.
	Injected []InjectedSecret
	// Sleep says when the agent falls asleep, and what wakes it.
	Sleep SleepPolicy
	// Image is what the agent's container runs, and Front what checks requests in front of it. They are zero for an
	// agent that a former release made, until its next start: its pod runs what the deployment's settings name.
	Image Software
	Front Software
	// WatchedBy is the release that has not counted yet how its update of the agent ended; empty if there is none.
	WatchedBy string
	// ImagePolicy says when the agent takes another version of its image; empty means image.Auto.
	ImagePolicy       image.Policy
	MaintenanceWindow *image.MaintenanceWindow
	// ImageWish is what a client asks for, and nil in a record.
	ImageWish *ImageWish
	// EgressWish is what a new agent may reach other than its organization says, and nil in a record: the commit of the
	// agent applies it.
	EgressWish *EgressSpec
	// Sandbox asks for the sandboxed runtime class.
	Sandbox bool
	// LastReadyIsolation is the isolation with which the agent last became ready, or "" if it never did.
	LastReadyIsolation Isolation

	Status Status
	// Held is what the organization was charged for the agent; see HeldUsage.
	Held organization.Usage
	// StatusReason says why an agent is paused or stopped.
	StatusReason StatusReason
	// Door names the front's door that was closed when the agent last fell asleep.
	Door string
	// WokenBy is why the agent was last woken; empty if it never was.
	WokenBy WakeCause
	// AwakeUntil is until when the agent does not fall asleep, because of what its front does not see.
	AwakeUntil time.Time
	// Schedules call the agent. They are sorted by id.
	Schedules []Schedule
	// WakeAt is when the agent is woken if it sleeps; zero if it is not.
	WakeAt time.Time
	// CallsDueAt is when the sweep nudges the agent because of its schedules or its snapshots, or to wake it; zero if
	// nothing is due.
	// Each commit derives it: see Edit.
	CallsDueAt time.Time
	// CallsPausedUntil is until when no worker looks at the schedules.
	CallsPausedUntil time.Time
	Stages           []Stage
	// Failure is why the agent is in error or pending, or why it runs without a requested change; otherwise nil.
	Failure *Failure
	// RevertReason is why the control plane is reverting a requested change, or nil. It becomes the Failure once the
	// agent runs as before.
	RevertReason *Failure
	// Warming is true while the dashboard may be briefly unavailable after a pod restart.
	Warming bool
	// RotationPending is true until the agent's gateway accepts the new credentials and refuses the old ones.
	RotationPending bool
	// Routed is true once the route stage is done, and so the agent has a hostname.
	Routed bool
	// CredentialVersion is the secret store's version of the dashboard and API credentials; 0 before they exist.
	CredentialVersion int64
	// APIKeyHash is the hash of the agent's API key, by which the control plane knows the agent's own calls; see
	// credential.Credentials. It is empty until a worker starts a pod with the key.
	APIKeyHash string
	// FormerCredential is the last version that the gateway was seen to accept, while a rotation replaces it; 0
	// otherwise.
	FormerCredential int64
	// RevealedAt is when a client last read the credentials; zero if never.
	RevealedAt time.Time
	// NameAtStart is the agent's name when its pod was last replaced or started, which the container is told: a later
	// name replaces no pod. It is empty for an agent whose pod a former release made: its container is told nothing of
	// the agent, and has no file with the config.
	NameAtStart string
	// Rollout counts the requested pod replacements. It is part of the pod template, so raising it replaces the pod.
	Rollout int64
	// Operations lists the open secret operations, oldest first. Right after a change it also holds those that the
	// change ended.
	Operations []secret.Operation
	// SecretsRevision rises whenever an operation, or its outcome at the secret store, is recorded. A list of the
	// store's versions is complete if the revision was the same before and after it was read.
	SecretsRevision int64
	// StoringUntil is when the last request or worker can add a version that no open operation names: a value of an
	// operation that the agent's deletion canceled, or the first credentials. The deletion waits for it.
	StoringUntil time.Time
	// Live lists the secret versions that the running pod was observed to start with, sorted by key.
	Live []LiveVersion
	// SecretVersions lists what is known of the secret store's versions of every key that the agent ever had, sorted
	// by key. Lists of the secret store may be hours old; these numbers are not.
	SecretVersions []VersionRange

	// ServingChanges are the latest changes of what the agent does for its users, oldest first: see ServingHistory.
	ServingChanges []ServingChange
	// Awake counts for how long the agent had or wanted a pod.
	Awake AwakeLog
	// PodRestarts counts how often the agent's container was started again.
	PodRestarts PodRestarts

	// Volume is what the agent's data is on.
	Volume Volume
	// FormerVolumes are those that a restore replaced and that are not gone yet.
	FormerVolumes []FormerVolume
	// Snapshots are sorted by the time of their creation.
	Snapshots []Snapshot
	// StoppedFor is the snapshot for which the agent's pod is stopped; empty if it is stopped for none.
	StoppedFor string
	// DailySnapshotAt is when a daily snapshot was last due.
	DailySnapshotAt time.Time
	// Imports is true if the volume is filled, before the agent first runs, from an archive. The secret with the key
	// dataplane.EnvImportURL says where it is.
	Imports bool
	// Reader reads a snapshot for its export.
	Reader Reader

	// CloneOf is the id of the snapshot that the agent began with; empty if it began with none.
	CloneOf string
	// UnsetSecrets are the names of secrets that the agent lacks, and that the agent had which it is a clone of. They
	// are sorted.
	UnsetSecrets []string

	// Deletion is zero unless the agent is being deleted.
	Deletion Deletion

	// Generation rises with every change of the desired state.
	Generation int64
	// ObservedGeneration is the generation that a worker last completed. The agent has converged when the two are
	// equal.
	ObservedGeneration int64
	// Attempts counts the worker runs for the present generation.
	Attempts int
	// RetryAt is when the next run may start after a failed one. The record, not the message, is the queue: an earlier
	// nudge has no effect. It is zero if the queue's own back-off is enough.
	RetryAt time.Time
	// Lease keeps a second worker from doing the same work concurrently. Correctness does not depend on it.
	Lease Lease
	// WorkDueAt is when the sweep nudges the agent if its work is not done by then; zero if it has no work.
	WorkDueAt time.Time
	// AppliedAt is when a worker last applied all objects of the present generation; zero before that.
	AppliedAt time.Time
	// WaitingSince is when a worker first found that it could only wait: for the pod of the present generation, or for
	// the end of the deletion. It is zero before that.
	WaitingSince time.Time
	// Deadline is when the present generation's pod must be Ready. It is zero until the objects of the generation are
	// applied, because it measures the agent and not the control plane, and once the work is done.
	Deadline time.Time

	CreatedAt time.Time
	UpdatedAt time.Time
	CreatedBy string
	// ChangeID names the last change of the desired state. With it, the store recognizes its own commit after the
	// answer was lost.
	ChangeID string
	// Version is the store's revision of the record. Reading sets it; it is not part of the document.
	Version string
	// Rest is what other releases stored in the record. Reading sets it.
	Rest *document.Rest
}

// Lease names the worker run that holds an agent, and until when.
type Lease struct {
	Holder string
	Until  time.Time
}

// Converged reports whether the agent has reached the last requested state.
func (a Agent) Converged() bool { return a.ObservedGeneration == a.Generation }

// ApplyDue reports whether a worker must bring the agent's objects to the desired state: it has not done so for the
// present generation, or secret operations wait for it.
func (a *Agent) ApplyDue() bool {
	return !a.Converged() || a.Status != Deleting && len(a.OperationsAt(secret.Sync, secret.Rollout)) > 0
}

// WantsPod reports whether the desired state is a running pod.
func (a Agent) WantsPod() bool { return a.Status.has(wantsPod) }

// Failure is why an agent is in error, why its provisioning is being retried, or why it runs without a requested
// change.
type Failure struct {
	// Code is a stable name such as "image_pull_failed".
	Code string `json:"code" jsonschema:"Names the failure for programs, such as image_pull_failed. New codes may be added."`
	// Stage is the provisioning stage that failed, or "" for a failure at run time.
	Stage StageName `json:"stage" jsonschema:"The provisioning stage that failed; empty for a failure at run time."`
	// Message says what happened and what the client can do. It never holds a secret.
	Message string `json:"message" jsonschema:"What happened and what to do, for people."`
	// Retryable is true if starting the agent again may help without a change.
	Retryable bool `json:"retryable" jsonschema:"Whether starting the agent again may help without a change."`
	// Outage is true if the control plane could not reach what it depends on. That says nothing about the agent, so it
	// never ends in error because of it.
	Outage bool `json:"-"`
	// Observed is what the cluster reported about the pod. Diagnoses show it.
	Observed Observation `json:"-"`
}

// EnvVar is one environment variable of the agent.
type EnvVar struct {
	Key string
	// Value is the plain value; empty for a secret.
	Value string
	// SecretVersion is the secret store's version of a secret's value; 0 for a plain variable.
	SecretVersion int64
	// Bytes is the size of a secret's value, and SetAt the time at which the version was bound. Both are zero for a
	// plain variable.
	Bytes int64
	SetAt time.Time
}

// LiveVersion is the version of a secret in the running pod.
type LiveVersion struct {
	Key     string
	Version int64
}

// Secret reports whether the secret store holds the variable's value.
func (e EnvVar) Secret() bool { return e.SecretVersion > 0 }

// Draft is a client's validated request for a new agent.
type Draft struct {
	Name   string
	Plan   plan.ID
	Cloud  string
	Region string
	Config json.RawMessage
	Env    []EnvVar
	Files  []File
	// PublicPaths are sorted.
	PublicPaths []string
	// Egress is nil for what the organization says, with the changes of EgressSpec.
	Egress     *egress.Rules
	EgressSpec EgressSpec
	// Sleep is nil for the default of the plan.
	Sleep     *SleepPolicy
	Schedules []ScheduleSpec
	// Image names an image and perhaps a version; empty takes the default one.
	Image             string
	ImagePolicy       image.Policy
	MaintenanceWindow *image.MaintenanceWindow
	Sandbox           bool
	Origin            Origin
	// Imports fills the agent's volume from an archive.
	Imports bool
	// Rest is what another release stored of the rules of Egress; nil for an agent that is no clone.
	Rest *document.Rest
}

// New makes the record of a new agent, whose provisioning is about to start.
func New(id, cell string, d Draft, now time.Time) Agent {
	a := Agent{
		ID: id, Name: d.Name, Slug: Slug(d.Name), Plan: d.Plan, Cloud: d.Cloud, Region: d.Region, Cell: cell,
		Config: d.Config, Env: d.Env, Files: d.Files, PublicPaths: d.PublicPaths, CreatedAt: now, UpdatedAt: now,
		ImagePolicy: d.ImagePolicy, MaintenanceWindow: d.MaintenanceWindow, Sandbox: d.Sandbox, Imports: d.Imports,
		Rest: d.Rest,
	}
	a.begin(d.Origin)
	if p, err := plan.Get(d.Plan); err == nil {
		a.Sleep = DefaultSleep(p)
	}
	if d.Sleep != nil {
		a.Sleep = *d.Sleep
	}
	if a.EgressWish = &d.EgressSpec; d.Egress != nil {
		a.Egress, a.EgressWish = *d.Egress, nil
	}
	a.setSchedules(d.Schedules, now)
	a.ImageWish = d.imageWish(now)
	a.startProvisioning(now)
	a.Awake.Since = now
	a.hold(&Agent{})
	return a
}

// startProvisioning starts provisioning from the beginning.
func (a *Agent) startProvisioning(now time.Time) {
	a.Status, a.StatusReason, a.Failure, a.RevertReason = Provisioning, "", nil, nil
	a.Stages, a.Warming, a.NameAtStart = NewStages(), false, a.Name
	a.dropImport()
	a.holdForSnapshot()
	a.bumpGeneration(now)
}

// endWait forgets what a worker applied and waited for.
func (a *Agent) endWait() {
	a.AppliedAt, a.WaitingSince, a.Deadline = time.Time{}, time.Time{}, time.Time{}
}

// bumpGeneration records that the desired state changed and that a worker has work to do.
func (a *Agent) bumpGeneration(now time.Time) {
	a.Generation++
	a.Attempts = 0
	a.UpdatedAt = now
	a.WorkDueAt, a.RetryAt = now.Add(NudgeGrace), time.Time{}
	a.endWait()
}
