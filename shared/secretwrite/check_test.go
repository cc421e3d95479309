package secretwrite_test

import (
	"context"
	"fmt"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// checkAlways checks what must hold at any time: no two operations share a version, and a secret that is reported as
// live is in the pod.
func (w *simulation) checkAlways() error {
	if w.record == nil {
		return nil
	}
	adds, taken := map[string]int{}, map[string]bool{}
	for _, o := range w.history {
		if o.Action != secret.Delete {
			adds[o.Key]++
		}
		if o.Version > 0 {
			place := fmt.Sprint(o.Key, " ", o.Version)
			if taken[place] {
				return fmt.Errorf("two operations have the version %s", place)
			}
			taken[place] = true
			if o.Version > int64(len(w.versions[o.Key])) {
				return fmt.Errorf("an operation has version %d of %s, but the store has %d versions", o.Version, o.Key,
					len(w.versions[o.Key]))
			}
		}
		if on := w.record.Operation(o.ID); o.Open() != (on != nil) {
			return fmt.Errorf("a %s operation of the history is in the agent's record: %t", o.Status, on != nil)
		}
	}
	adds[secret.CredentialsKey]++ // the first credentials need no operation
	for key, versions := range w.versions {
		if len(versions) > adds[key] {
			return fmt.Errorf("%s has %d versions, want at most the %d of its operations", key, len(versions),
				adds[key])
		}
	}
	for _, s := range w.record.Secrets() {
		if s.LiveVersion == nil || !s.InSync {
			continue
		}
		v, err := secretStore{w}.find(s.Key, *s.LiveVersion)
		if err != nil || w.pod == nil || w.pod.env[s.Key] != v.value {
			return fmt.Errorf("%s is reported live in version %d, but the pod does not have it (%s)", s.Key,
				*s.LiveVersion,
				fault.Code(err))
		}
	}
	if !w.record.RotationPending && w.record.Status == agent.Running && w.record.Converged() {
		c, err := secretStore{w}.GetCredentials(context.Background(), w.id, w.record.CredentialVersion)
		if err != nil || w.pod == nil || w.pod.credentials != c {
			return fmt.Errorf("no rotation is pending, but the pod has other credentials (%s)", fault.Code(err))
		}
	}
	return nil
}

// checkEnd checks what must hold after a whole schedule.
func (w *simulation) checkEnd() error {
	if w.record == nil {
		if w.deleteAt == 0 || len(w.versions) > 0 || w.pod != nil {
			return fmt.Errorf("the record is gone, but these versions are left: %v", w.versions)
		}
		for _, o := range w.history {
			if o.Open() {
				return fmt.Errorf("the agent is gone, but one of its operations is %s", o.Status)
			}
		}
		return nil
	}
	switch {
	case w.deleteAt > 0 && w.deleteAt <= w.effects:
		return fmt.Errorf("the agent was deleted, but is %s", w.record.Status)
	case len(w.record.Operations) > 0:
		return fmt.Errorf("operations are still open: %+v", w.record.Operations)
	case w.record.Status != agent.Running || !w.record.Converged() || !w.record.WorkDueAt.IsZero() ||
		w.record.Warming || w.record.RotationPending:
		return fmt.Errorf("the agent is %s, due at %v, %+v", w.record.Status, w.record.WorkDueAt, w.record.Failure)
	case w.pod.env["TOKEN"] != "third" || w.pod.env["OTHER"] != "":
		return fmt.Errorf("the pod has the environment %v", w.pod.env)
	}
	for key, want := range map[string]int{"TOKEN": 1, "OTHER": 0, secret.CredentialsKey: 1} {
		there := 0
		for _, v := range w.versions[key] {
			if !v.destroyed {
				there++
			}
		}
		if there != want {
			return fmt.Errorf("%s has %d versions left, want %d", key, there, want)
		}
	}
	return nil
}
