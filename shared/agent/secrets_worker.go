package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/secret"
)

// OperationsDue reports whether a worker has something to do for the agent's secret operations.
func (a Agent) OperationsDue() bool {
	return a.Status != Deleting &&
		slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Due(a.Runs()) })
}

// OperationsAt lists the open operations at a stage that a worker has something to do for.
func (a Agent) OperationsAt(stages ...secret.Stage) []secret.Operation {
	var found []secret.Operation
	for _, o := range a.Operations {
		if slices.Contains(stages, o.Stage) && o.Due(a.Runs()) {
			found = append(found, o)
		}
	}
	return found
}

// BindSecrets has the agent want what the secret store was given, all of it with one new pod.
func (a *Agent) BindSecrets(now time.Time) {
	bound := false
	for i := range a.Operations {
		o := &a.Operations[i]
		if o.Stage != secret.Bind || !o.Due(a.Runs()) || !o.Apply(secret.EventBound, "", now) {
			continue
		}
		bound = true
		switch o.Action {
		case secret.Set:
			a.removeEnv(o.Key)
			a.Env = append(a.Env, EnvVar{Key: o.Key, SecretVersion: o.Version, Bytes: o.Bytes, SetAt: now})
		case secret.Delete:
			a.removeEnv(o.Key)
		case secret.Rotate:
			if a.FormerCredential == 0 {
				a.FormerCredential = a.CredentialVersion
			}
			a.CredentialVersion = o.Version
		}
	}
	if bound {
		SortEnv(a.Env)
		a.replacePod(now)
		a.refreshRotation()
	}
}

// removeEnv takes a variable away, in a copy: the list is shared with the record as it was.
func (a *Agent) removeEnv(key string) {
	a.Env = slices.DeleteFunc(slices.Clone(a.Env), func(e EnvVar) bool { return e.Key == key })
}

// MarkSecretsSynced records that the agent's namespace has what the present generation wants.
func (a *Agent) MarkSecretsSynced(now time.Time) {
	for i := range a.Operations {
		if a.Operations[i].Apply(secret.EventSynced, "", now) && !a.Runs() {
			a.Operations[i].Apply(secret.EventWaitingForStart, codeNotRunning, now)
		}
	}
}

// ParkSecrets records that operations wait for the agent's next start.
func (a *Agent) ParkSecrets(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Stage == secret.Rollout &&
			(o.Status != secret.Pending || o.ErrorCode != codeNotRunning) {
			o.Apply(secret.EventWaitingForStart, codeNotRunning, now)
		}
	}
}

// markSecretsRolledOut records that the pod of the present generation runs. A rotation has to be proved beside: see
// Rotated.
func (a *Agent) markSecretsRolledOut(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action != secret.Rotate {
			o.Apply(secret.EventRolledOut, "", now)
		}
	}
	a.Live = nil
	for _, e := range a.Env {
		if e.Secret() {
			a.Live = append(a.Live, LiveVersion{Key: e.Key, Version: e.SecretVersion})
		}
	}
}

// MarkRotated records that the live gateway accepted the new credentials and refused the former ones.
func (a *Agent) MarkRotated(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate {
			o.Apply(secret.EventRolledOut, "", now)
		}
	}
	a.FormerCredential = 0
	a.refreshRotation()
}

// Rotating reports whether the pod that is being rolled out has to be proved to accept other credentials than the one
// before.
func (a Agent) Rotating() bool {
	return slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() && o.Stage == secret.Rollout
	})
}

// proveRotation leaves it to a worker to prove a rotation whose pod became ready by itself.
func (a *Agent) proveRotation(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate && o.Stage == secret.Rollout &&
			o.Apply(secret.EventRetryScheduled, o.ErrorCode, now) {
			a.WorkDueAt = now
		}
	}
}

// refreshRotation derives whether credentials are still converging: from when the new ones are stored until they are
// proved.
func (a *Agent) refreshRotation() {
	a.RotationPending = slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() &&
			(o.Stage == secret.Bind || o.Stage == secret.Sync || o.Stage == secret.Rollout)
	})
}

// FinishOperations records that the versions which an operation leaves behind are destroyed.
func (a *Agent) FinishOperations(ids []string, now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(ids, o.ID) {
			o.Apply(secret.EventDestroyed, "", now)
			o.Apply(secret.EventCompleted, "", now)
		}
	}
	if !a.OperationsDue() && a.Converged() {
		a.WorkDueAt = time.Time{}
	}
}

// RecordOperationFailure records what keeps operations at the given stages from going on.
func (a *Agent) RecordOperationFailure(e secret.Event, code string, now time.Time, stages ...secret.Stage) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(stages, o.Stage) && o.Due(a.Runs()) {
			o.Apply(e, operationCode(code), now)
		}
	}
}

// recordReadinessFailure records what keeps the agent, and with it its operations, from becoming ready.
func (a *Agent) recordReadinessFailure(e secret.Event, code string, now time.Time) {
	a.RecordOperationFailure(e, code, now, secret.Sync, secret.Rollout)
}

// AbandonOperations ends the attempts at operations whose work was delivered too often.
func (a *Agent) AbandonOperations(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Due(a.Runs()) {
			code := o.ErrorCode
			if code == "" {
				code = "internal_error"
			}
			o.Apply(secret.EventGaveUp, code, now)
		}
	}
	if a.Converged() {
		a.WorkDueAt = time.Time{}
	}
}

// cancelOperations ends all operations of an agent that is deleted, and remembers until when requests may still be
// adding values.
func (a *Agent) cancelOperations(now time.Time) {
	for i := range a.Operations {
		o := &a.Operations[i]
		if o.Storing(now) && o.StoringUntil.After(a.StoringUntil) {
			a.StoringUntil = o.StoringUntil
		}
		o.Apply(secret.EventCanceled, "", now)
	}
	a.refreshRotation()
}

// AwaitedSecret is a key whose value was to come with the agent's creation and is not known to be in the secret store;
// "" when there is none. An agent does not start without what its creator gave it.
func (a Agent) AwaitedSecret() string {
	for _, o := range a.Operations {
		if o.Open() && o.Stage == secret.Store && o.CreatedAt.Equal(a.CreatedAt) {
			return o.Key
		}
	}
	return ""
}

// StoringSecrets reports whether a request may be adding values at this moment.
func (a Agent) StoringSecrets(now time.Time) bool {
	return slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Storing(now) })
}
