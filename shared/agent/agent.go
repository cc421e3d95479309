// Package agent knows the agent: its record, its states and the moves between them, its provisioning stages, the rules
// for its name, environment and hostname, and how it is shown to a client. It does not know how it is stored, nor how a
// cluster runs it.
package agent

import (
	"encoding/json"
	"time"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// Agent is the record: the desired state, written by routes, and what workers observed of it. New fields must have a
// usable zero value, because functions are deployed in any order.
type Agent struct {
	ID             string
	OrganizationID string
	Name           string
	// Slug is the hostname's readable part, fixed at creation so that a rename never moves an agent.
	Slug   string
	Plan   plan.ID
	Cloud  string
	Region string
	// Cell is the cluster the agent was placed on at creation. It never changes.
	Cell string
	// Config holds the client's own keys as a JSON object; keys of the control plane are added when it is shown.
	Config json.RawMessage
	// Env is sorted by key. Values of secrets are not in it.
	Env []EnvVar
	// Sandbox asks for the sandboxed runtime class.
	Sandbox bool
	// LastReadyIsolation is how the agent was isolated when it last became ready, or "" before it first did.
	LastReadyIsolation Isolation

	Status Status
	// StatusReason says why an agent is paused or stopped.
	StatusReason StatusReason
	Stages       []Stage
	// Failure is why the agent is in error or pending, or why it runs without what was asked for; otherwise nil.
	Failure *Failure
	// RevertReason is why what was asked for is being taken back; it is the Failure of the agent once it runs as
	// before. Otherwise nil.
	RevertReason *Failure
	// Warming is true while the dashboard may be briefly unavailable after a pod restart.
	Warming bool
	// RotationPending is true until the live gateway has accepted the new credential and refused the old one.
	RotationPending bool
	// Routed is true once the route stage is done: from then on the agent has a hostname.
	Routed bool
	// CredentialVersion is the version of the dashboard and API credentials in the secret store; 0 before they exist.
	CredentialVersion int64
	// FormerCredential is the version that was proved to be accepted last, while another takes its place; 0 otherwise.
	FormerCredential int64
	// RevealedAt is when the credentials were last shown to a client; zero if never.
	RevealedAt time.Time
	// Rollout counts the requested pod replacements. It is part of the pod template, so that raising it replaces the
	// pod.
	Rollout int64
	// Operations lists the secret operations that are open, the oldest first, and right after a change those that it
	// ended, too.
	Operations []secret.Operation
	// SecretsRevision rises whenever an operation is recorded, or what became of one at the secret store: who looked at
	// the store between two equal revisions saw all that operations added.
	SecretsRevision int64
	// StoringUntil is until when requests may still be adding values for operations that were canceled with the agent.
	StoringUntil time.Time
	// Live lists the secret versions that the running pod was started with, which has been proved, sorted by key.
	Live []LiveVersion

	// Generation rises with every change of the desired state.
	Generation int64
	// ObservedGeneration is the generation a worker last brought about. The agent has converged when the two are equal.
	ObservedGeneration int64
	// Attempts counts the worker runs spent on the present generation.
	Attempts int
	// Lease keeps a second worker from doing the same work at the same time. Correctness does not depend on it.
	Lease Lease
	// WorkDueAt is when the sweep nudges this agent if its work is not done by then; zero when there is nothing to do.
	WorkDueAt time.Time
	// Deadline is when the work on the present generation is given up; zero when it is retried for ever, or done.
	Deadline time.Time

	CreatedAt time.Time
	UpdatedAt time.Time
	CreatedBy string
	// ChangeID names the last change of the desired state, so that a commit whose answer was lost is recognised.
	ChangeID string
	// Version is the store's revision of the record, set when it is read. It is not part of the document.
	Version string
}

// Lease says which worker run holds an agent, and until when.
type Lease struct {
	Holder string
	Until  time.Time
}

// Namespace is the cluster namespace of the agent with the id.
func Namespace(id string) string { return "agent-" + id }

// Namespace is the agent's cluster namespace.
func (a Agent) Namespace() string { return Namespace(a.ID) }

// Converged reports whether the last requested state has been brought about.
func (a Agent) Converged() bool { return a.ObservedGeneration == a.Generation }

// Runs reports whether the desired state is a running pod.
func (a Agent) Runs() bool { return a.Status.has(wantsPod) }

// Failure is why an agent is in error, why its provisioning is being retried, or why it runs without what was asked
// for.
type Failure struct {
	// Code is a stable name such as "image_pull_failed".
	Code string `json:"code"`
	// Stage is the provisioning stage it happened at, or "" when it happened at run time.
	Stage StageName `json:"stage"`
	// Message says what happened and what a person can do about it. It never holds a secret.
	Message string `json:"message"`
	// Retryable says whether starting the agent again may help without a change.
	Retryable bool `json:"retryable"`
}

// EnvVar is one environment variable of the agent.
type EnvVar struct {
	Key string
	// Value is the plain value; empty for a secret.
	Value string
	// SecretVersion is the secret store's version of a secret's value; 0 for a plain variable.
	SecretVersion int64
	// Bytes is the size of a secret's value, and SetAt when the version was bound. Both are zero for a plain variable.
	Bytes int64
	SetAt time.Time
}

// LiveVersion is a secret in the running pod.
type LiveVersion struct {
	Key     string
	Version int64
}

// Secret reports whether the variable's value is kept in the secret store.
func (e EnvVar) Secret() bool { return e.SecretVersion > 0 }

// Draft is what a client asks for when it creates an agent. It has been validated.
type Draft struct {
	Name   string
	Plan   plan.ID
	Cloud  string
	Region string
	Config json.RawMessage
	Env    []EnvVar
}

// New makes the record of a new agent in the state of a request that was just accepted.
func New(id, cell string, d Draft, now time.Time) Agent {
	a := Agent{
		ID: id, Name: d.Name, Slug: Slug(d.Name), Plan: d.Plan, Cloud: d.Cloud, Region: d.Region, Cell: cell,
		Config: d.Config, Env: d.Env, CreatedAt: now, UpdatedAt: now,
	}
	a.startProvisioning(now)
	return a
}

// Timing of the work on an agent.
const (
	// ProvisioningTimeout is how long provisioning may take before the sweep ends it in error.
	ProvisioningTimeout = 15 * time.Minute
	// ReadinessTimeout is how long a running agent's new pod may take to become Ready before the sweep ends it in
	// error.
	ReadinessTimeout = 10 * time.Minute
	// LeaseTime is how long a worker keeps others off an agent without recording progress.
	LeaseTime = 5 * time.Second
	// NudgeGrace is how long the sweep leaves unfinished work to the message that was published for it.
	NudgeGrace = time.Minute
)

// startProvisioning starts provisioning from the beginning.
func (a *Agent) startProvisioning(now time.Time) {
	a.Status, a.StatusReason, a.Failure, a.RevertReason = Provisioning, "", nil, nil
	a.Stages = NewStages()
	a.Deadline = now.Add(ProvisioningTimeout)
	a.bumpGeneration(now)
}

// bumpGeneration records that the desired state changed: a worker has to look at the agent.
func (a *Agent) bumpGeneration(now time.Time) {
	a.Generation++
	a.Attempts = 0
	a.UpdatedAt = now
	a.WorkDueAt = now.Add(NudgeGrace)
}
