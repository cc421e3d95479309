package secretwrite_test

import (
	"context"
	"fmt"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/secret"
)

// told checks what holds at any time: no operation has two versions, none has another's, and what is said to be live
// is.
func (w *world) told() error {
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
				return fmt.Errorf("two operations have %s", place)
			}
			taken[place] = true
			if o.Version > int64(len(w.versions[o.Key])) {
				return fmt.Errorf("an operation has version %d of %s, which has %d", o.Version, o.Key,
					len(w.versions[o.Key]))
			}
		}
		if on := w.record.Operation(o.ID); o.Open() != (on != nil) {
			return fmt.Errorf("the history has an operation %s, which stands on the agent: %t", o.Status, on != nil)
		}
	}
	adds[secret.CredentialsKey]++ // the first
	for key, versions := range w.versions {
		if len(versions) > adds[key] {
			return fmt.Errorf("%d versions of %s from %d operations", len(versions), key, adds[key])
		}
	}
	for _, s := range w.record.Secrets() {
		if s.LiveVersion == nil || !s.InSync {
			continue
		}
		v, err := vault{w}.find(s.Key, *s.LiveVersion)
		if err != nil || w.pod == nil || w.pod.env[s.Key] != v.value {
			return fmt.Errorf("%s is said to be live in version %d, and is not (%s)", s.Key, *s.LiveVersion,
				fault.Code(err))
		}
	}
	if !w.record.RotationPending && w.record.Status == agent.Running && w.record.Converged() {
		c, err := vault{w}.GetCredentials(context.Background(), w.id, w.record.CredentialVersion)
		if err != nil || w.pod == nil || w.pod.credentials != c {
			return fmt.Errorf("no rotation is pending, and other credentials are live (%s)", fault.Code(err))
		}
	}
	return nil
}

// tidy checks what holds in the end.
func (w *world) tidy() error {
	if w.record == nil {
		if w.deleteAt == 0 || len(w.versions) > 0 || w.pod != nil {
			return fmt.Errorf("gone with %v", w.versions)
		}
		for _, o := range w.history {
			if o.Open() {
				return fmt.Errorf("an operation of an agent that is gone is %s", o.Status)
			}
		}
		return nil
	}
	switch {
	case w.deleteAt > 0 && w.deleteAt <= w.effects:
		return fmt.Errorf("deleted, and still %s", w.record.Status)
	case len(w.record.Operations) > 0:
		return fmt.Errorf("operations are left over: %+v", w.record.Operations)
	case w.record.Status != agent.Running || !w.record.Converged() || !w.record.WorkDueAt.IsZero() ||
		w.record.Warming || w.record.RotationPending:
		return fmt.Errorf("the agent is %s, due at %v, %+v", w.record.Status, w.record.WorkDueAt, w.record.Failure)
	case w.pod.env["TOKEN"] != "third" || w.pod.env["OTHER"] != "":
		return fmt.Errorf("the pod has %v", w.pod.env)
	}
	for key, want := range map[string]int{"TOKEN": 1, "OTHER": 0, secret.CredentialsKey: 1} {
		there := 0
		for _, v := range w.versions[key] {
			if !v.destroyed {
				there++
			}
		}
		if there != want {
			return fmt.Errorf("%d versions of %s are left, want %d", there, key, want)
		}
	}
	return nil
}
