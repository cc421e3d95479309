package agent

import (
	"slices"
	"strings"
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

// Secrets lists the agent's secrets as a client sees them: those that it wants, that are on their way, and that the running pod still has.
func (a Agent) Secrets() []secret.Summary {
	all := map[string]*secret.Summary{}
	of := func(key string) *secret.Summary {
		if all[key] == nil {
			all[key] = &secret.Summary{Key: key, Source: secret.Source, UpdatedAt: a.CreatedAt.UTC()}
		}
		return all[key]
	}
	for _, e := range a.Env {
		if e.Secret() {
			s := of(e.Key)
			s.LatestVersion, s.UpdatedAt = ptr(e.SecretVersion), e.SetAt.UTC()
		}
	}
	if a.Status == Running {
		for _, l := range a.Live {
			of(l.Key).LiveVersion = ptr(l.Version)
		}
	}
	for _, s := range all {
		s.InSync = s.LatestVersion != nil && s.LiveVersion != nil && *s.LatestVersion == *s.LiveVersion
	}
	for _, o := range a.Operations {
		if !o.Open() || o.Action == secret.Rotate || o.Stage == secret.Complete {
			continue
		}
		s := of(o.Key)
		s.InSync, s.UpdatedAt = false, o.UpdatedAt.UTC()
		if o.Version > 0 {
			s.LatestVersion = ptr(o.Version)
		} else if o.Action == secret.Delete {
			s.LatestVersion = nil
		}
	}
	list := make([]secret.Summary, 0, len(all))
	for _, s := range all {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(x, y secret.Summary) int { return strings.Compare(x.Key, y.Key) })
	return list
}

// codeNotRunning is why an operation is parked.
const codeNotRunning = "agent_not_running"

// operationCode is the error code of an operation for that of a failure.
func operationCode(code string) string {
	switch code {
	case "secret_store_unavailable", "secret_store_denied", "secret_quota_exceeded", "secret_value_unavailable", "namespace_missing",
		"sync_conflict", "pod_crash_loop", "gateway_unhealthy":
		return code
	case "namespace_terminating":
		return "namespace_missing"
	case "cluster_unavailable", "cell_unknown":
		return "cluster_unreachable"
	case "object_rejected", "quota_exceeded":
		return "sync_conflict"
	case "out_of_memory":
		return "pod_crash_loop"
	case CodeUnschedulable, CodeSandboxUnschedulable:
		return "pod_unschedulable"
	case "readiness_timeout", "provisioning_timeout", "attempts_exhausted", "timeout", "image_pull_failed", "container_start_failed",
		"volume_unavailable", "pod_rejected":
		return "rollout_timeout"
	default:
		return "internal_error"
	}
}
