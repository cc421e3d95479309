// Package secret defines secret operations: the stages in which a set, deleted or rotated secret reaches its agent, and
// the transitions between them. It does not handle values, and does not talk to a secret store or a cluster.
package secret

import (
	"math"
	"slices"
	"strings"
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
	// Store adds the value to the secret store. It is the only stage that needs the value, so the request with the
	// value runs it.
	Store Stage = "store"
	// Bind makes the version part of the agent's desired state.
	Bind Stage = "bind"
	// Sync writes the version into the agent's namespace.
	Sync Stage = "sync"
	// Rollout replaces the pod and proves that the new one has the version.
	Rollout Stage = "rollout"
	// Destroy destroys the versions of a deleted secret. Other actions skip it.
	Destroy Stage = "destroy"
	// Complete destroys the versions that are no longer needed.
	Complete Stage = "complete"
)

// Values lists the stages in order.
func (Stage) Values() []string {
	return []string{string(Store), string(Bind), string(Sync), string(Rollout), string(Destroy), string(Complete)}
}

// Status is the progress of an operation.
type Status string

// The statuses.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	// Superseded: a newer operation of the same key took over.
	Superseded Status = "superseded"
	// Canceled: the agent is being deleted.
	Canceled Status = "canceled"
)

// Values lists the statuses.
func (Status) Values() []string {
	return []string{
		string(Pending), string(Running), string(Succeeded), string(Failed), string(Superseded),
		string(Canceled),
	}
}

// Terminal reports whether the operation has ended.
func (s Status) Terminal() bool { return s == Succeeded || s == Superseded || s == Canceled }

// Operation is the record of one change of one secret. It never holds a value.
type Operation struct {
	ID             string
	AgentID        string
	OrganizationID string
	// Key names the variable; CredentialsKey for a rotation. That of a brokered secret is its name's BrokeredKey.
	Key    string
	Action Action
	Stage  Stage
	Status Status
	// ErrorCode is why the operation failed or waits, such as "secret_store_denied"; empty without a problem.
	ErrorCode string
	// Attempts counts how often the present stage was begun, from 1.
	Attempts int
	// LatestBefore is the newest version in the store when the operation was recorded; 0 for none. The operation adds a
	// newer one.
	LatestBefore int64
	// Version is the version that the operation added; 0 before it is known.
	Version int64
	// Bytes is the size of the value.
	Bytes int64
	// Target says where the gate adds the value of a brokered secret, as egress.Target.Encode writes it.
	Target string
	// Batch is shared by the operations of one request.
	Batch string
	// StoringUntil is until when the request may add the value. The outcome of a request that died is known only after
	// that.
	StoringUntil time.Time
	// RequiredToStart: the agent does not start before this value is stored, because it came with the agent's creation,
	// or replaces such a value that was not stored.
	RequiredToStart bool
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// CredentialsKey is the key under which the rotation of an agent's credentials is recorded. No client can set a
// variable of this name.
const CredentialsKey = "DASHBOARD_CREDENTIALS"

// brokered begins the keys of brokered secrets. No variable's name has a colon.
const brokered = "inject:"

// BrokeredKey is the key of the brokered secret of a variable. It differs from that of a secret in the agent's
// environment, because the secret store has them under different names: an agent may have had one after the other.
func BrokeredKey(name string) string { return brokered + name }

// Name returns the variable's name of a key, and whether the key is of a brokered secret.
func Name(key string) (name string, isBrokered bool) { return strings.CutPrefix(key, brokered) }

// Timing of the store stage.
const (
	// StoringTime is how long after its beginning an operation's version may appear in the secret store.
	StoringTime = 30 * time.Second
	// landingTime is the end of StoringTime, in which no call is made any more. It covers calls that were cut and still
	// take effect, and differences between clocks.
	landingTime = 10 * time.Second
)

// AddingUntil is when the calls that may add a version must end.
func AddingUntil(storingUntil time.Time) time.Time { return storingUntil.Add(-landingTime) }

// New starts an operation. A deletion adds no value, so it starts at Bind.
func New(o Operation, now time.Time) Operation {
	o.Stage, o.Status, o.Attempts, o.CreatedAt, o.UpdatedAt = Store, Pending, 1, now, now
	if o.Action == Delete {
		o.Stage = Bind
		return o
	}
	o.StoringUntil = now.Add(StoringTime)
	return o
}

// Open reports whether the operation has not ended.
func (o Operation) Open() bool { return !o.Status.Terminal() }

// Storing reports whether a request may be adding the value.
func (o Operation) Storing(now time.Time) bool {
	return o.Stage == Store && o.Status == Pending && now.Before(o.StoringUntil)
}

// Due reports whether a worker has work to do for the operation of an agent that does or does not want a pod. A failed
// operation waits for a client. Without a pod, an operation at its rollout waits for the agent's next start.
func (o Operation) Due(wantsPod bool) bool {
	if o.Status != Pending && o.Status != Running {
		return false
	}
	return o.Stage != Store && (o.Stage != Rollout || wantsPod)
}

// Known reports whether this release knows what the operation does, and how far it is. After a roll-back, one of a
// later release stays as it is.
func (o Operation) Known() bool {
	return slices.Contains(all, o.Action) && slices.Contains(stages, o.Stage)
}

// ObsoleteBefore is the number before which all versions of the key are obsolete once the operation's change is live.
// It never covers a version that was added after the operation's: another request may need it.
func (o Operation) ObsoleteBefore() int64 {
	if o.Action == Delete {
		return min(o.LatestBefore, math.MaxInt64-1) + 1
	}
	return o.Version
}

// NotFound is the error for an operation that does not exist or belongs to another agent. Its text never repeats the
// id.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "operation_not_found", "Secret operation not found.")
}

// Ref is the id, in the secret store, of the secret that holds an agent's variable or its credentials. It is unique in
// one environment; the store's adapter may put the environment in front.
func Ref(agentID, key string) string {
	if key == CredentialsKey {
		return "agent-" + agentID + "-credentials"
	}
	if name, ok := Name(key); ok {
		return "inject-" + agentID + "-" + name // the rights of the gates in the cells end with this beginning
	}
	return "agent-" + agentID + "-env-" + key
}
