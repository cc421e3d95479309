// Package secret knows secret operations: how a value that a client set, or had rotated, gets into its agent, stage by
// stage, and what each stage may lead to. It does not know values, nor how a secret store or a cluster is spoken to.
package secret

import (
	"time"

	"agents.example/controlplane/shared/fault"
)

// Action is what an operation does to a secret.
type Action string

// The actions.
const (
	Set    Action = "set"
	Delete Action = "delete"
	// Rotate replaces the credentials of the agent's own dashboard and API.
	Rotate Action = "rotate"
)

// Values lists the actions.
func (Action) Values() []string { return []string{string(Set), string(Delete), string(Rotate)} }

// Stage is a step of an operation.
type Stage string

// The stages, in order.
const (
	// Store adds the value to the secret store. It is the only stage that needs the value, so it is worked on by the
	// request that brings it.
	Store Stage = "store"
	// Bind has the agent want the version.
	Bind Stage = "bind"
	// Sync writes it into the agent's namespace.
	Sync Stage = "sync"
	// Rollout replaces the pod and proves that the new one has it.
	Rollout Stage = "rollout"
	// Destroy destroys the versions of a deleted secret. Other actions skip it.
	Destroy Stage = "destroy"
	// Complete destroys the versions that nothing wants any more.
	Complete Stage = "complete"
)

// Values lists the stages in order.
func (Stage) Values() []string {
	return []string{string(Store), string(Bind), string(Sync), string(Rollout), string(Destroy), string(Complete)}
}

// Status is how an operation stands.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	// Superseded: a newer operation of the same key took over.
	Superseded Status = "superseded"
	// Canceled: the agent is deleted.
	Canceled Status = "canceled"
)

// Values lists the statuses.
func (Status) Values() []string {
	return []string{
		string(Pending), string(Running), string(Succeeded), string(Failed), string(Superseded),
		string(Canceled),
	}
}

// Terminal reports whether nothing follows.
func (s Status) Terminal() bool { return s == Succeeded || s == Superseded || s == Canceled }

// Operation is the record of one change of one secret. It never holds a value.
type Operation struct {
	ID             string
	AgentID        string
	OrganizationID string
	// Key names the variable; CredentialsKey for a rotation.
	Key    string
	Action Action
	Stage  Stage
	Status Status
	// ErrorCode is why the operation failed or waits, such as "secret_store_denied"; empty when nothing is wrong.
	ErrorCode string
	// Attempts counts how often the present stage was begun, from 1.
	Attempts int
	// LatestBefore is the newest version that the store had when the operation was recorded; 0 for none. What the
	// operation adds is newer.
	LatestBefore int64
	// Version is the one that the operation added; 0 before it is known.
	Version int64
	// Bytes is the size of the value.
	Bytes int64
	// Batch is the same for the operations of one request.
	Batch string
	// StoringUntil is until when the request that brings the value may be adding it. It can't be told what became of it
	// before.
	StoringUntil time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// CredentialsKey is the key under which the rotation of an agent's credentials is recorded. No client can set a
// variable of this name.
const CredentialsKey = "DASHBOARD_CREDENTIALS"

// StoringTime is how long a request may take to add the values that it brings. Its calls of the secret store end
// before.
const StoringTime = 30 * time.Second

// New records that a value is about to be added, or that a secret is to be deleted, for which nothing has to be added.
func New(o Operation, now time.Time) Operation {
	o.Stage, o.Status, o.Attempts, o.CreatedAt, o.UpdatedAt = Store, Pending, 1, now, now
	if o.Action == Delete {
		o.Stage = Bind
		return o
	}
	o.StoringUntil = now.Add(StoringTime)
	return o
}

// Open reports whether something may still follow.
func (o Operation) Open() bool { return !o.Status.Terminal() }

// Storing reports whether a request may be adding the value at this moment.
func (o Operation) Storing(now time.Time) bool {
	return o.Stage == Store && o.Status == Pending && now.Before(o.StoringUntil)
}

// Due reports whether a worker has something to do for the operation. One that failed waits for a client, one that is
// parked at its rollout for the agent's next start.
func (o Operation) Due(runs bool) bool {
	if o.Status != Pending && o.Status != Running {
		return false
	}
	return o.Stage != Store && (o.Stage != Rollout || runs)
}

// NotFound is the error for an operation that does not exist, or is another agent's. Its text never repeats the id.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "operation_not_found", "Secret operation not found.")
}

// Ref is the id of the secret in the secret store that holds a variable of an agent, or its credentials.
func Ref(agentID, key string) string {
	if key == CredentialsKey {
		return "agent-" + agentID + "-credentials"
	}
	return "agent-" + agentID + "-env-" + key
}
