package agent

import (
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// MaxLiveVersions is the maximum number of versions of a key that are not destroyed. Each one costs money until then.
const MaxLiveVersions = 10

// VersionSpan is a range of versions of a key: from one number up to, but without, another.
type VersionSpan struct {
	Key          string
	From, Before int64
}

// resting reports whether the agent stays as it is until a client changes it.
func (a Agent) resting() bool {
	return a.Converged() && !a.ApplyDue() && (a.Status == Stopped || a.Status == Paused || a.Status == Error)
}

// SupersededVersions returns the versions that an agent at rest no longer needs. The versions of a variable end before
// the one that the desired state has: the next start reads that one, a pod that still exists reads none, and no change
// leads back to an older one. The versions of a deleted variable end with the deletion's. Credentials have none: the
// proof of a rotation needs the former ones.
//
// An agent that does not rest has none either. Its operations destroy former versions once the new one is proven.
func (a Agent) SupersededVersions() []VersionSpan {
	if !a.resting() {
		return nil
	}
	var found []VersionSpan
	for _, r := range a.SecretVersions {
		span := VersionSpan{Key: r.Key, From: max(1, r.DestroyedBefore), Before: a.neededFrom(r.Key)}
		if span.From < span.Before {
			found = append(found, span)
		}
	}
	return found
}

// neededFrom is the lowest version of a variable that the agent may still need; 0 if that is unknown.
func (a Agent) neededFrom(key string) int64 {
	for _, e := range a.Env {
		if e.Key == key {
			return e.SecretVersion
		}
	}
	if s := a.injected(key); s != nil {
		return s.Version
	}
	for _, o := range a.Operations {
		if o.Key == key && o.Open() && o.Action == secret.Delete {
			return o.ObsoleteBefore()
		}
	}
	return 0
}

// PruneDue reports whether a worker must destroy versions of an agent at rest.
func (a Agent) PruneDue() bool { return len(a.SupersededVersions()) > 0 }

// MarkPruned records that versions of an agent at rest are destroyed.
func (a *Agent) MarkPruned(destroyed []VersionSpan) {
	for _, d := range destroyed {
		a.recordVersions(d.Key, 0, d.Before)
	}
	a.endWork()
}

// liveVersions is the number of versions of a key that are not known to be destroyed.
func (a Agent) liveVersions(key string) int64 {
	from := max(1, a.versionRange(key).DestroyedBefore)
	for _, l := range a.Live {
		if l.Key == key {
			from = max(from, l.Version) // records of older releases do not say which are destroyed
		}
	}
	return a.HighestVersion(key) - from + 1
}

// checkLiveVersions checks that operations may add another version. Errors: Conflict.
func (a Agent) checkLiveVersions(begun []secret.Operation) error {
	for _, o := range begun {
		if o.Action == secret.Delete || a.liveVersions(o.Key) < MaxLiveVersions {
			continue
		}
		e := fault.New(fault.Conflict, "secret_versions_full",
			"The secret %s has %d versions that its agent may still use. They are destroyed once the agent runs with "+
				"the latest one, or is stopped. Wait until the agent runs, or stop it, and retry.",
			nameOf(o.Key), MaxLiveVersions)
		e.RetryAfter = fullRetry
		meta := a.ConflictMeta()
		meta["key"], meta["max"] = nameOf(o.Key), MaxLiveVersions
		return e.WithMeta(meta)
	}
	return nil
}

// fullRetry is the wait that secret_versions_full asks for. A worker destroys versions within seconds.
const fullRetry = 10 * time.Second
