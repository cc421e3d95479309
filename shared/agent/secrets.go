package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// MaxSecretBytes is how many bytes the secrets of an agent have in all, keys and values: a Kubernetes Secret takes 1
// MiB, and the credentials are in it, too.
const MaxSecretBytes = 1<<20 - 32<<10

// What keeps operations from being recorded for a moment.
var (
	// ErrStoring says that another request is adding a value under one of the keys.
	ErrStoring = errors.New("another request is adding a value under this key")
	// ErrSecretsMoved says that the secret store may have more than was seen of it.
	ErrSecretsMoved = errors.New("the agent's secrets changed since they were looked at")
)

// BeginOperations records operations that a client asks for, and returns those that were: what is the case already
// takes none. revision is the SecretsRevision with which the secret store was looked at. Errors: ErrStoring,
// ErrSecretsMoved, Conflict, Invalid.
func (a *Agent) BeginOperations(revision int64, asked []secret.Operation, now time.Time) ([]secret.Operation, error) {
	if a.Status == Deleting {
		return nil, a.conflict("secrets")
	}
	for _, o := range a.Operations {
		if o.Storing(now) && slices.ContainsFunc(asked, func(n secret.Operation) bool { return n.Key == o.Key }) {
			return nil, ErrStoring
		}
	}
	if revision != a.SecretsRevision {
		return nil, ErrSecretsMoved
	}
	var begun []secret.Operation
	for _, o := range asked {
		if o.Action == secret.Rotate && a.CredentialVersion == 0 {
			return nil, a.credentialsNotReady()
		}
		if a.isSatisfied(o) {
			continue
		}
		o = secret.New(o, now)
		for i := range a.Operations {
			// A value that is not known to have been added is not waited for. One that has been goes on until the newer
			// one is there, too.
			if older := &a.Operations[i]; older.Key == o.Key &&
				(o.Action == secret.Delete || older.Stage == secret.Store) {
				older.Apply(secret.EventSuperseded, "", now)
			}
		}
		begun = append(begun, o)
	}
	if len(begun) == 0 {
		return nil, nil
	}
	a.Operations = append(slices.Clip(a.Operations), begun...)
	a.SecretsRevision++
	a.UpdatedAt = now
	a.scheduleWork(now)
	return begun, a.secretViolations(begun)
}

// isSatisfied reports whether an operation would change nothing: what it deletes is not there, or being deleted, or
// what it rotates is being rotated.
func (a Agent) isSatisfied(asked secret.Operation) bool {
	var last *secret.Operation
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Key == asked.Key && o.Open() && o.Status != secret.Failed {
			last = o
		}
	}
	switch asked.Action {
	case secret.Delete:
		return asked.Key == secret.CredentialsKey || last != nil && last.Action == secret.Delete || last == nil &&
			!a.HasSecret(asked.Key)
	case secret.Rotate:
		return last != nil && last.Stage != secret.Store && last.Stage != secret.Complete
	default:
		return false
	}
}

// HasSecret reports whether the agent has, or is being given, a secret under a key.
func (a Agent) HasSecret(key string) bool {
	return a.isSetting(key) || slices.ContainsFunc(a.Env, func(e EnvVar) bool { return e.Key == key && e.Secret() })
}

// secretViolations checks what the agent would have when all that is open has been done.
func (a Agent) secretViolations(begun []secret.Operation) error {
	keys, bytes := map[string]bool{}, map[string]int64{}
	for _, e := range a.Env {
		keys[e.Key] = true
		if e.Secret() {
			bytes[e.Key] = e.Bytes
		}
	}
	for _, o := range a.Operations {
		switch {
		case !o.Open():
		case o.Action == secret.Set:
			keys[o.Key], bytes[o.Key] = true, o.Bytes
		case o.Action == secret.Delete:
			delete(keys, o.Key)
			delete(bytes, o.Key)
		}
	}
	var total int64
	for key, n := range bytes {
		total += n + int64(len(key))
	}
	if !slices.ContainsFunc(begun, func(o secret.Operation) bool { return o.Action == secret.Set }) {
		return nil
	}
	loc := []any{"body", "secrets"}
	switch {
	case len(keys) > MaxEnvKeys:
		return fault.Validation(invalid(loc,
			fmt.Sprintf("an agent has at most %d variables, secret and plain", MaxEnvKeys)))
	case total > MaxSecretBytes:
		return fault.Validation(invalid(loc,
			fmt.Sprintf("the secrets of an agent have at most %d bytes in all", MaxSecretBytes)))
	default:
		return nil
	}
}

// RecordStored records what became of operations at the secret store: the version that each added, or why it is not
// known to have added any. One that was overtaken meanwhile is left as it is. Errors: Conflict while the agent is
// deleted.
func (a *Agent) RecordStored(outcomes []Outcome, now time.Time) error {
	if a.Status == Deleting {
		return a.conflict("secrets")
	}
	for _, result := range outcomes {
		i := slices.IndexFunc(a.Operations, func(o secret.Operation) bool { return o.ID == result.OperationID })
		if i < 0 {
			continue
		}
		o := &a.Operations[i]
		if result.Version == 0 {
			if o.Stage == secret.Store && o.Apply(secret.EventGaveUp, result.Code, now) {
				a.SecretsRevision++
			}
			continue
		}
		if !o.Apply(secret.EventStored, "", now) {
			continue
		}
		o.Version = result.Version
		a.SecretsRevision++
		for j := range a.Operations[:i] {
			if a.Operations[j].Key == o.Key {
				a.Operations[j].Apply(secret.EventSuperseded, "", now)
			}
		}
	}
	a.scheduleWork(now)
	return nil
}

// Outcome is what became of an operation at the secret store.
type Outcome struct {
	OperationID string
	// Version is what was added; 0 when that is not known.
	Version int64
	// Code is why it is not known.
	Code string
}

// scheduleWork has a worker look at operations that are due, and tells clients that the pod is going to be replaced.
func (a *Agent) scheduleWork(now time.Time) {
	a.refreshRotation()
	if !a.OperationsDue() {
		return
	}
	a.WorkDueAt = now.Add(NudgeGrace)
	if a.Status == Running {
		a.Warming = true
	}
}

// Operation finds an operation that is open. It is nil when there is none with this id.
func (a *Agent) Operation(id string) *secret.Operation {
	for i := range a.Operations {
		if a.Operations[i].ID == id {
			return &a.Operations[i]
		}
	}
	return nil
}

// RetryOperation has a worker try the persisted stage of an operation once more. One at the store is not tried again by
// itself: see package deposit. Errors: Conflict.
func (a *Agent) RetryOperation(id string, now time.Time) error {
	o := a.Operation(id)
	switch {
	case a.Status == Deleting:
		return a.conflict("reconcile")
	case o == nil || !o.Open():
		return ErrOperationTerminal()
	case o.Status == secret.Running && a.Leased("", now):
		return ErrOperationInProgress()
	case o.Stage == secret.Rollout && !a.Runs():
		return a.conflict("reconcile")
	case !o.Apply(secret.EventRetried, "", now):
		return fault.New(fault.BadRequest, "stage_not_retryable",
			"The operation's stage %q can't be tried again by itself.", o.Stage)
	}
	if (o.Stage == secret.Sync || o.Stage == secret.Rollout) && a.Converged() {
		if a.Status == Error {
			a.Rollout++ // the pod that failed is replaced, not waited for
		}
		a.replacePod(now)
	}
	a.UpdatedAt = now
	a.scheduleWork(now)
	return nil
}

// ErrOperationTerminal is the error of a reconciliation when nothing can follow any more.
func ErrOperationTerminal() error {
	return fault.New(fault.Conflict, "secret_operation_terminal",
		"The operation has come to its end. Only pending and failed operations can be reconciled.")
}

// ErrOperationInProgress is the error of a request that would get into the way of one that is being carried out.
func ErrOperationInProgress() error {
	e := fault.New(fault.Conflict, "operation_in_progress",
		"The operation is being carried out at this moment. Look again in some seconds.")
	e.RetryAfter = LeaseTime
	return e
}

// isSetting reports whether a value is on its way under a key.
func (a Agent) isSetting(key string) bool { return slices.Contains(a.settingKeys(), key) }

// settingKeys lists the keys under which values are on their way.
func (a Agent) settingKeys() []string {
	var keys []string
	for _, o := range a.Operations {
		if o.Open() && o.Action == secret.Set {
			keys = append(keys, o.Key)
		}
	}
	return keys
}
