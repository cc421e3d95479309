package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// MaxSecretBytes is the maximum total size of an agent's secrets, keys and values. A Kubernetes Secret holds 1 MiB,
// which the secrets share with the credentials.
const MaxSecretBytes = 1<<20 - 32<<10

// Errors of BeginOperations after which the request should try again.
var (
	// ErrStoring means that another request is adding a value under one of the keys.
	ErrStoring = errors.New("another request is adding a value under this key")
	// ErrSecretsChanged means that the secret store may hold versions that the request has not seen.
	ErrSecretsChanged = errors.New("the agent's secrets changed since the secret store was read")
)

// BeginOperations records the operations a client requested and returns the new ones. Requests that are already
// satisfied create none. revision is the SecretsRevision at which the caller read the secret store. Errors: ErrStoring,
// ErrSecretsChanged, Conflict, Invalid.
func (a *Agent) BeginOperations(revision int64, requested []secret.Operation, now time.Time) ([]secret.Operation,
	error,
) {
	if a.Status == Deleting {
		return nil, a.conflict("secrets")
	}
	for _, o := range a.Operations {
		if o.Storing(now) && slices.ContainsFunc(requested, func(n secret.Operation) bool { return n.Key == o.Key }) {
			return nil, ErrStoring
		}
	}
	if revision != a.SecretsRevision {
		return nil, ErrSecretsChanged
	}
	var begun []secret.Operation
	for _, o := range requested {
		if o.Action == secret.Rotate && a.CredentialVersion == 0 {
			return nil, a.credentialsNotReady()
		}
		if a.isSatisfied(o) {
			continue
		}
		if s := a.injected(o.Key); s != nil && o.Action == secret.Delete {
			o.Target = s.Target // clients see it until the operation ends
		}
		o.LatestBefore = max(o.LatestBefore, a.HighestVersion(o.Key))
		o = secret.New(o, now)
		for i := range a.Operations {
			// An older operation whose value may not be stored ends here. One whose value is stored continues until
			// the newer value is stored, too.
			if older := &a.Operations[i]; older.Key == o.Key &&
				(o.Action == secret.Delete || older.Stage == secret.Store) {
				o.RequiredToStart = o.RequiredToStart || o.Action == secret.Set && a.requiredToStart(*older)
				older.Apply(secret.EventSuperseded, "", now)
			}
		}
		begun = append(begun, o)
		a.recordVersions(o.Key, o.LatestBefore, 0)
	}
	if len(begun) == 0 {
		return nil, nil
	}
	a.Operations = append(slices.Clip(a.Operations), begun...)
	a.SecretsRevision++
	a.UpdatedAt = now
	a.scheduleWork(now)
	for _, o := range begun {
		if err := a.checkBrokered(o); err != nil {
			return begun, err
		}
	}
	if err := a.checkSecretKeys(); err != nil {
		return begun, err
	}
	if err := a.checkLiveVersions(begun); err != nil {
		return begun, err
	}
	return begun, a.secretViolations(begun)
}

// PlanOperations returns the operations that BeginOperations would begin now. It changes nothing. Errors: those of
// BeginOperations.
func (a Agent) PlanOperations(requested []secret.Operation, now time.Time) ([]secret.Operation, error) {
	a.Operations = slices.Clone(a.Operations)
	return a.BeginOperations(a.SecretsRevision, requested, now)
}

// isSatisfied reports whether an operation would change nothing: the secret to delete does not exist or is being
// deleted, or the credentials to rotate are being rotated.
func (a Agent) isSatisfied(requested secret.Operation) bool {
	var last *secret.Operation
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Key == requested.Key && o.Open() && o.Status != secret.Failed {
			last = o
		}
	}
	switch requested.Action {
	case secret.Delete:
		return requested.Key == secret.CredentialsKey || last != nil && last.Action == secret.Delete || last == nil &&
			!a.HasSecret(requested.Key)
	case secret.Rotate:
		return last != nil && last.Stage != secret.Store && last.Stage != secret.Complete
	default:
		return false
	}
}

// HasSecret reports whether the agent has a secret under a key, or an operation is setting one.
func (a Agent) HasSecret(key string) bool {
	return a.isSetting(key) || a.injected(key) != nil ||
		slices.ContainsFunc(a.Env, func(e EnvVar) bool { return e.Key == key && e.Secret() })
}

// secretViolations checks the limits of the variables that the agent has once all open operations are done.
func (a Agent) secretViolations(begun []secret.Operation) error {
	keys, bytes := map[string]bool{}, map[string]int64{}
	for _, e := range a.Env {
		keys[e.Key] = true
		if e.Secret() {
			bytes[e.Key] = e.Bytes
		}
	}
	for _, s := range a.Injected {
		keys[secret.BrokeredKey(s.Key)] = true
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
		return fault.Validation(fault.ValueError(loc,
			fmt.Sprintf("at most %d variables are allowed, secret and plain together", MaxEnvKeys)))
	case total > MaxSecretBytes:
		return fault.Validation(fault.ValueError(loc,
			fmt.Sprintf("the secrets of an agent must not exceed %d bytes in total", MaxSecretBytes)))
	default:
		return nil
	}
}

// scheduleWork schedules a worker for the operations that are due. It also sets Warming if they replace the pod.
func (a *Agent) scheduleWork(now time.Time) {
	a.refreshRotation()
	if !a.OperationsDue() {
		return
	}
	a.WorkDueAt, a.RetryAt = now.Add(NudgeGrace), time.Time{}
	if a.Status == Running && a.replacesPod() {
		a.Warming = true
	}
}

// Operation returns the operation with the id, or nil.
func (a *Agent) Operation(id string) *secret.Operation {
	for i := range a.Operations {
		if a.Operations[i].ID == id {
			return &a.Operations[i]
		}
	}
	return nil
}

// RetryOperation makes a worker retry the present stage of an operation. A worker can't retry the store stage: see
// package secretwrite. Errors: Conflict, BadRequest at the store stage.
func (a *Agent) RetryOperation(id string, now time.Time) error {
	o := a.Operation(id)
	switch {
	case a.Status == Deleting:
		return a.conflict("reconcile")
	case o == nil || !o.Open():
		return a.OperationTerminal()
	case o.Status == secret.Running && a.Leased("", now):
		return a.OperationInProgress()
	case o.Stage == secret.Rollout && !a.WantsPod():
		return a.conflict("reconcile")
	case !o.Apply(secret.EventRetried, "", now):
		return fault.New(fault.BadRequest, "stage_not_retryable",
			"The operation's stage %q cannot be retried. Send the original request again.", o.Stage)
	}
	if (o.Stage == secret.Sync || o.Stage == secret.Rollout) && a.Converged() {
		if a.Status == Error {
			a.Rollout++ // replace the failed pod instead of waiting for it
		}
		a.replacePod(now)
	}
	a.UpdatedAt, a.Attempts = now, 0
	a.scheduleWork(now)
	return nil
}

// OperationTerminal is the error of reconciling an operation that has ended.
func (a Agent) OperationTerminal() error {
	return fault.New(fault.Conflict, "secret_operation_terminal",
		"The operation has ended. Only pending and failed operations can be reconciled.").WithMeta(a.ConflictMeta())
}

// OperationInProgress is the error of reconciling an operation while a worker runs it.
func (a Agent) OperationInProgress() error {
	e := fault.New(fault.Conflict, "operation_in_progress",
		"The operation is in progress. Get it again in a few seconds.").WithMeta(a.ConflictMeta())
	e.RetryAfter = LeaseTime
	return e
}

// isSetting reports whether an open operation sets the key.
func (a Agent) isSetting(key string) bool { return slices.Contains(a.settingKeys(), key) }

// settingKeys lists the keys that open operations set.
func (a Agent) settingKeys() []string {
	var keys []string
	for _, o := range a.Operations {
		if o.Open() && o.Action == secret.Set {
			keys = append(keys, o.Key)
		}
	}
	return keys
}
