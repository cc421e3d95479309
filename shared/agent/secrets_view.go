package agent

import (
	"slices"
	"strings"

	"agents.example/controlplane/shared/secret"
)

// Secrets lists the agent's secrets as a client sees them: the bound ones, those that open operations set, and those
// that the running pod still has.
func (a Agent) Secrets() []secret.Summary {
	all := map[string]*secret.Summary{}
	summary := func(key string) *secret.Summary {
		if all[key] == nil {
			all[key] = &secret.Summary{Key: nameOf(key), Source: secret.Source, UpdatedAt: a.CreatedAt.UTC()}
		}
		return all[key]
	}
	for _, i := range a.Injected {
		s := summary(secret.BrokeredKey(i.Key))
		s.LatestVersion, s.UpdatedAt, s.Inject = ptr(i.Version), i.SetAt.UTC(), secret.ShowTarget(i.Target)
	}
	for _, e := range a.Env {
		if e.Secret() {
			s := summary(e.Key)
			s.LatestVersion = ptr(e.SecretVersion)
			if !e.SetAt.IsZero() { // records of older releases have none
				s.UpdatedAt = e.SetAt.UTC()
			}
		}
	}
	if a.Status == Running {
		for _, l := range a.Live {
			summary(l.Key).LiveVersion = ptr(l.Version)
		}
	}
	for _, s := range all {
		s.InSync = s.LatestVersion != nil && s.LiveVersion != nil && *s.LatestVersion == *s.LiveVersion
	}
	for _, o := range a.Operations {
		if !o.Open() || o.Action == secret.Rotate || o.Stage == secret.Complete {
			continue
		}
		s := summary(o.Key)
		s.InSync, s.UpdatedAt = false, o.UpdatedAt.UTC()
		if o.Target != "" {
			s.Inject = secret.ShowTarget(o.Target)
		}
		if o.Version > 0 {
			s.LatestVersion = ptr(o.Version)
		} else if o.Action == secret.Delete {
			s.LatestVersion = nil
		}
	}
	delete(all, importURL)
	list := make([]secret.Summary, 0, len(all))
	for _, key := range sortedKeys(all) {
		list = append(list, *all[key])
	}
	// A pod may still have a secret of one kind while the agent gets one of the other: they are in the order of keys.
	slices.SortStableFunc(list, func(x, y secret.Summary) int { return strings.Compare(x.Key, y.Key) })
	return list
}

// codeNotRunning is the code of an operation that waits for the agent's next start.
const codeNotRunning = "agent_not_running"

// operationCode maps the code of an agent's failure to the error code of a secret operation.
func operationCode(code string) string {
	switch code {
	case "secret_store_unavailable", "secret_store_denied", "secret_quota_exceeded", "secret_value_unavailable",
		"namespace_missing",
		"sync_conflict", "pod_crash_loop", "gateway_unhealthy":
		return code
	case "namespace_terminating":
		return "namespace_missing"
	case "cluster_unavailable", "cell_unknown":
		return "cluster_unreachable"
	case CodeObjectRejected, "quota_exceeded":
		return "sync_conflict"
	case "out_of_memory", "scratch_full":
		return "pod_crash_loop"
	case CodeUnschedulable, CodeSandboxUnschedulable:
		return "pod_unschedulable"
	case "readiness_timeout", "provisioning_timeout", "attempts_exhausted", "timeout", "image_pull_failed",
		"container_start_failed",
		"volume_unavailable", "pod_rejected":
		return "rollout_timeout"
	default:
		return "internal_error"
	}
}
