package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// MaxSecretKeys is the maximum number of different keys under which an agent may ever have had secrets. The record
// remembers all of them.
const MaxSecretKeys = 1000

// VersionRange is what the record knows of the secret store's versions of a key.
type VersionRange struct {
	Key string
	// Highest is the highest number of a version that is known to have been added; 0 for none.
	Highest int64
	// DestroyedBefore is the number before which all versions are destroyed; 0 for none.
	DestroyedBefore int64
}

// HighestVersion is the highest number of a key's versions that the record knows; 0 for none. The secret store may have
// higher ones.
func (a Agent) HighestVersion(key string) int64 {
	highest := a.versionRange(key).Highest
	for _, e := range a.Env {
		if e.Key == key {
			highest = max(highest, e.SecretVersion)
		}
	}
	for _, o := range a.Operations {
		if o.Key == key {
			highest = max(highest, o.Version, o.LatestBefore)
		}
	}
	for _, l := range a.Live {
		if l.Key == key {
			highest = max(highest, l.Version)
		}
	}
	if key == secret.CredentialsKey {
		highest = max(highest, a.CredentialVersion, a.FormerCredential)
	}
	return highest
}

// SameSecret reports whether the record of a key is the same as in an earlier record of the agent. Then no request has
// added a version of the key in between: each one records its operation before and its version after.
func (a Agent) SameSecret(before Agent, key string) bool {
	of := func(a Agent) []secret.Operation {
		return slices.DeleteFunc(slices.Clone(a.Operations), func(o secret.Operation) bool { return o.Key != key })
	}
	return a.HighestVersion(key) == before.HighestVersion(key) && a.versionRange(key) == before.versionRange(key) &&
		slices.Equal(of(a), of(before))
}

// SecretKeys lists, sorted, the keys under which the secret store may have secrets of the agent, its credentials
// included.
func (a Agent) SecretKeys() []string {
	keys := []string{secret.CredentialsKey}
	for _, r := range a.SecretVersions {
		keys = append(keys, r.Key)
	}
	for _, e := range a.Env {
		if e.Secret() {
			keys = append(keys, e.Key)
		}
	}
	for _, o := range a.Operations {
		keys = append(keys, o.Key)
	}
	for _, l := range a.Live {
		keys = append(keys, l.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// ObsoleteVersions returns the versions to destroy once an operation's change is live: from one number up to, but
// without, another. They include versions that no operation adopted. They exclude every version that was added after
// the operation's.
func (a Agent) ObsoleteVersions(o secret.Operation) (from, before int64) {
	return max(1, a.versionRange(o.Key).DestroyedBefore), o.ObsoleteBefore()
}

// StoringFence is the time until which one worker may add the first credentials.
type StoringFence struct{ until, former time.Time }

// Until is the time of the fence.
func (f StoringFence) Until() time.Time { return f.until }

// FenceStoring records until when a worker may add the first credentials. The agent's deletion waits for that. Each
// fence is later than the former one, so that only its own worker lifts it.
func (a *Agent) FenceStoring(until time.Time) StoringFence {
	f := StoringFence{until: until.Truncate(time.Microsecond), former: a.StoringUntil}
	if !f.until.After(f.former) {
		f.until = f.former.Add(time.Microsecond)
	}
	a.StoringUntil = f.until
	return f
}

// LiftFence records that the worker of a fence adds no credentials any more. The deletion still waits for the former
// fence. If another worker has recorded a later one, nothing changes.
func (a *Agent) LiftFence(f StoringFence) {
	if a.StoringUntil.Equal(f.until) {
		a.StoringUntil = f.former
	}
}

// versionRange returns the entry of a key, or an empty one.
func (a Agent) versionRange(key string) VersionRange {
	if i, ok := a.findVersionRange(key); ok {
		return a.SecretVersions[i]
	}
	return VersionRange{Key: key}
}

func (a Agent) findVersionRange(key string) (int, bool) {
	return slices.BinarySearchFunc(a.SecretVersions, key, func(r VersionRange, key string) int {
		return strings.Compare(r.Key, key)
	})
}

// recordVersions raises what is known of a key's versions. It copies the list, which the record before the change
// shares.
func (a *Agent) recordVersions(key string, highest, destroyedBefore int64) {
	i, ok := a.findVersionRange(key)
	a.SecretVersions = slices.Clone(a.SecretVersions)
	if !ok {
		a.SecretVersions = slices.Insert(a.SecretVersions, i, VersionRange{Key: key})
	}
	r := &a.SecretVersions[i]
	r.Highest, r.DestroyedBefore = max(r.Highest, highest), max(r.DestroyedBefore, destroyedBefore)
}

// checkSecretKeys checks the number of keys that the agent ever had. Errors: Invalid.
func (a Agent) checkSecretKeys() error {
	if len(a.SecretVersions) <= MaxSecretKeys {
		return nil
	}
	return fault.Validation(fault.ValueError([]any{"body", "secrets"}, fmt.Sprintf(
		"an agent can have had secrets under at most %d different keys; use a key again, or create a new agent",
		MaxSecretKeys)))
}
