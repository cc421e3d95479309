package agent

import (
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/secret"
)

// OperationsDue reports whether a worker has work to do for the agent's secret operations.
func (a *Agent) OperationsDue() bool {
	wants := a.WantsPod()
	return a.Status != Deleting &&
		slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Due(wants) })
}

// OperationsAt lists the operations at the given stages that have work for a worker of this release. OperationsDue
// counts those of a later release, too: their agent stays due, so that its workers find them.
func (a *Agent) OperationsAt(stages ...secret.Stage) []secret.Operation {
	var found []secret.Operation
	wants := a.WantsPod()
	for _, o := range a.Operations {
		if slices.Contains(stages, o.Stage) && o.Due(wants) && o.Known() {
			found = append(found, o)
		}
	}
	return found
}

// replacesPod reports whether operations are due that replace the pod. The later stages only destroy versions.
func (a *Agent) replacesPod() bool {
	return len(a.OperationsAt(secret.Bind, secret.Sync, secret.Rollout)) > 0
}

// BindSecrets makes the stored values part of the desired state, all of them with one new pod.
func (a *Agent) BindSecrets(now time.Time) {
	bound := false
	for i := range a.Operations {
		o := &a.Operations[i]
		if o.Stage != secret.Bind || !o.Due(a.WantsPod()) || !o.Apply(secret.EventBound, "", now) {
			continue
		}
		bound = true
		name, brokered := secret.Name(o.Key)
		if brokered {
			a.forgetWayOut(StageRoute) // the gate learns of it
		}
		switch o.Action {
		case secret.Set:
			a.removeVariable(o.Key)
			if brokered {
				a.Injected = append(a.Injected, InjectedSecret{
					Key: name, Version: o.Version, Bytes: o.Bytes, SetAt: now, Target: o.Target,
				})
			} else {
				a.Env = append(a.Env, EnvVar{Key: o.Key, SecretVersion: o.Version, Bytes: o.Bytes, SetAt: now})
			}
		case secret.Delete:
			a.removeVariable(o.Key)
		case secret.Rotate:
			if a.FormerCredential == 0 {
				a.FormerCredential = a.CredentialVersion
			}
			a.CredentialVersion = o.Version
		}
	}
	if bound {
		SortEnv(a.Env)
		sortInjected(a.Injected)
		a.replacePod(now)
		a.refreshRotation()
	}
}

// removeVariable removes a variable or a brokered secret. It copies the lists, which the record before the change
// shares.
func (a *Agent) removeVariable(key string) {
	name, brokered := secret.Name(key)
	if brokered {
		a.Injected = slices.DeleteFunc(slices.Clone(a.Injected), func(s InjectedSecret) bool { return s.Key == name })
		return
	}
	a.Env = slices.DeleteFunc(slices.Clone(a.Env), func(e EnvVar) bool { return e.Key == key })
}

// MarkSecretsSynced records that the agent's namespace has the secrets of the present generation.
func (a *Agent) MarkSecretsSynced(now time.Time) {
	for i := range a.Operations {
		if a.Operations[i].Apply(secret.EventSynced, "", now) && !a.WantsPod() {
			a.Operations[i].Apply(secret.EventWaitingForStart, codeNotRunning, now)
		}
	}
}

// MarkSecretsWaiting records that operations at the rollout stage wait for the agent's next start.
func (a *Agent) MarkSecretsWaiting(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Stage == secret.Rollout &&
			(o.Status != secret.Pending || o.ErrorCode != codeNotRunning) {
			o.Apply(secret.EventWaitingForStart, codeNotRunning, now)
		}
	}
}

// markSecretsRolledOut records that the pod of the present generation runs. A rotation also needs proof: see
// MarkRotated.
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
	for _, s := range a.Injected {
		a.Live = append(a.Live, LiveVersion{Key: secret.BrokeredKey(s.Key), Version: s.Version})
	}
	slices.SortFunc(a.Live, func(x, y LiveVersion) int { return strings.Compare(x.Key, y.Key) })
}

// MarkRotated records that the agent's gateway accepted the new credentials and refused the former ones.
func (a *Agent) MarkRotated(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate {
			o.Apply(secret.EventRolledOut, "", now)
		}
	}
	a.FormerCredential = 0
	a.refreshRotation()
}

// Rotating reports whether a worker must prove that the new pod accepts the new credentials and refuses the former
// ones.
func (a Agent) Rotating() bool {
	return slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() && o.Stage == secret.Rollout
	})
}

// proveRotation schedules a worker to prove the rotation of a pod that became ready without one.
func (a *Agent) proveRotation(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate && o.Stage == secret.Rollout &&
			o.Apply(secret.EventRetryScheduled, o.ErrorCode, now) {
			a.WorkDueAt = now
		}
	}
}

// refreshRotation derives RotationPending: true from when the new credentials are stored until they are proved.
func (a *Agent) refreshRotation() {
	a.RotationPending = slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() &&
			(o.Stage == secret.Bind || o.Stage == secret.Sync || o.Stage == secret.Rollout)
	})
}

// FinishOperations completes operations whose former versions have been destroyed.
func (a *Agent) FinishOperations(ids []string, now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(ids, o.ID) {
			o.Apply(secret.EventDestroyed, "", now)
			if o.Apply(secret.EventCompleted, "", now) {
				a.recordVersions(o.Key, o.Version, o.ObsoleteBefore())
			}
		}
	}
	a.endWork()
}

// RecordOperationFailure records why the operations at the given stages can't continue.
func (a *Agent) RecordOperationFailure(e secret.Event, code string, now time.Time, stages ...secret.Stage) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(stages, o.Stage) && o.Due(a.WantsPod()) {
			o.Apply(e, operationCode(code), now)
		}
	}
}

// recordReadinessFailure records why the operations that wait for the agent's new pod can't continue.
func (a *Agent) recordReadinessFailure(e secret.Event, code string, now time.Time) {
	a.RecordOperationFailure(e, code, now, secret.Sync, secret.Rollout)
}

// abandonOperations fails the operations whose work the queue has delivered too often.
func (a *Agent) abandonOperations(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Due(a.WantsPod()) {
			code := o.ErrorCode
			if code == "" {
				code = "internal_error"
			}
			o.Apply(secret.EventGaveUp, code, now)
		}
	}
	a.endWork()
}

// cancelOperations ends all operations of an agent that is being deleted, and records until when requests may still add
// values.
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

// AwaitedSecret is a key whose value came with the agent's creation and is not yet known to be in the secret store, or
// "". An agent does not start without the secrets of its creation.
func (a Agent) AwaitedSecret() string {
	for _, o := range a.Operations {
		if a.requiredToStart(o) {
			return nameOf(o.Key)
		}
	}
	return ""
}

// requiredToStart reports whether the agent must wait with its start until the value of an operation is stored.
func (a Agent) requiredToStart(o secret.Operation) bool {
	return o.Open() && o.Stage == secret.Store && (o.RequiredToStart || a.beganWithoutFlag(o))
}

// beganWithoutFlag reports whether an older release created the agent together with an operation. Such an operation has
// no flag, and its key has no entry in SecretVersions.
func (a Agent) beganWithoutFlag(o secret.Operation) bool {
	_, known := a.findVersionRange(o.Key)
	return !known && o.CreatedAt.Equal(a.CreatedAt)
}

// StoringSecrets reports whether a request may be adding values to the secret store.
func (a Agent) StoringSecrets(now time.Time) bool {
	return slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Storing(now) })
}
