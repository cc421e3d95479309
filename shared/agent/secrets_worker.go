package agent

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/secret"
)

// OperationsDue reports whether a worker has something to do for the agent's secret operations.
func (a Agent) OperationsDue() bool {
	return a.Status != Deleting && slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return o.Due(a.Runs()) })
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

// Bind has the agent want what the secret store was given, all of it with one new pod.
func (a *Agent) Bind(now time.Time) {
	bound := false
	for i := range a.Operations {
		o := &a.Operations[i]
		if o.Stage != secret.Bind || !o.Due(a.Runs()) || !o.Apply(secret.Bound, "", now) {
			continue
		}
		bound = true
		switch o.Action {
		case secret.Set:
			a.unset(o.Key)
			a.Env = append(a.Env, EnvVar{Key: o.Key, SecretVersion: o.Version, Bytes: o.Bytes, SetAt: now})
		case secret.Delete:
			a.unset(o.Key)
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

// unset takes a variable away, in a copy: the list is shared with the record as it was.
func (a *Agent) unset(key string) {
	a.Env = slices.DeleteFunc(slices.Clone(a.Env), func(e EnvVar) bool { return e.Key == key })
}

// Synced records that the agent's namespace has what the present generation wants.
func (a *Agent) Synced(now time.Time) {
	for i := range a.Operations {
		if a.Operations[i].Apply(secret.Synced, "", now) && !a.Runs() {
			a.Operations[i].Apply(secret.Parked, codeNotRunning, now)
		}
	}
}

// Park records that operations wait for the agent's next start.
func (a *Agent) Park(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Stage == secret.Rollout && (o.Status != secret.Pending || o.ErrorCode != codeNotRunning) {
			o.Apply(secret.Parked, codeNotRunning, now)
		}
	}
}

// rolledOut records that the pod of the present generation runs. A rotation has to be proved beside: see Rotated.
func (a *Agent) rolledOut(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action != secret.Rotate {
			o.Apply(secret.RolledOut, "", now)
		}
	}
	a.Live = nil
	for _, e := range a.Env {
		if e.Secret() {
			a.Live = append(a.Live, LiveVersion{Key: e.Key, Version: e.SecretVersion})
		}
	}
}

// Rotated records that the live gateway accepted the new credentials and refused the former ones.
func (a *Agent) Rotated(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate {
			o.Apply(secret.RolledOut, "", now)
		}
	}
	a.FormerCredential = 0
	a.refreshRotation()
}

// Rotating reports whether the pod that is being rolled out has to be proved to accept other credentials than the one before.
func (a Agent) Rotating() bool {
	return slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() && o.Stage == secret.Rollout
	})
}

// proveRotation leaves it to a worker to prove a rotation whose pod became ready by itself.
func (a *Agent) proveRotation(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Action == secret.Rotate && o.Stage == secret.Rollout && o.Apply(secret.Faltered, o.ErrorCode, now) {
			a.WorkDueAt = now
		}
	}
}

// refreshRotation derives whether credentials are still converging: from when the new ones are stored until they are proved.
func (a *Agent) refreshRotation() {
	a.RotationPending = slices.ContainsFunc(a.Operations, func(o secret.Operation) bool {
		return o.Action == secret.Rotate && o.Open() && (o.Stage == secret.Bind || o.Stage == secret.Sync || o.Stage == secret.Rollout)
	})
}

// Finish records that the versions which an operation leaves behind are destroyed.
func (a *Agent) Finish(ids []string, now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(ids, o.ID) {
			o.Apply(secret.Destroyed, "", now)
			o.Apply(secret.Completed, "", now)
		}
	}
	if !a.OperationsDue() && a.Converged() {
		a.WorkDueAt = time.Time{}
	}
}

// Hinder records what keeps operations at the given stages from going on.
func (a *Agent) Hinder(e secret.Event, code string, now time.Time, stages ...secret.Stage) {
	for i := range a.Operations {
		if o := &a.Operations[i]; slices.Contains(stages, o.Stage) && o.Due(a.Runs()) {
			o.Apply(e, operationCode(code), now)
		}
	}
}

// hinder records what keeps the agent, and with it its operations, from becoming ready.
func (a *Agent) hinder(e secret.Event, code string, now time.Time) {
	a.Hinder(e, code, now, secret.Sync, secret.Rollout)
}

// AbandonOperations ends the attempts at operations whose work was delivered too often.
func (a *Agent) AbandonOperations(now time.Time) {
	for i := range a.Operations {
		if o := &a.Operations[i]; o.Due(a.Runs()) {
			code := o.ErrorCode
			if code == "" {
				code = "internal_error"
			}
			o.Apply(secret.GaveUp, code, now)
		}
	}
	if a.Converged() {
		a.WorkDueAt = time.Time{}
	}
}

// withdraw ends all operations of an agent that is deleted, and remembers until when requests may still be adding values.
func (a *Agent) withdraw(now time.Time) {
	for i := range a.Operations {
		o := &a.Operations[i]
		if o.Storing(now) && o.StoringUntil.After(a.StoringUntil) {
			a.StoringUntil = o.StoringUntil
		}
		o.Apply(secret.Withdrawn, "", now)
	}
	a.refreshRotation()
}

// Awaiting is a key whose value was to come with the agent's creation and is not known to be in the secret store; "" when there is none.
// An agent does not start without what its creator gave it.
func (a Agent) Awaiting() string {
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
