package gke

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/provisioning"
)

// trouble is what the newest event says that explains why a pod is not created, not started or not ready; nil when none
// does. pod is nil when there is none. A workload that isn't there at all is the error namespace_missing.
func (c *client) trouble(ctx context.Context, namespace string, pod *corev1.Pod, v verdict) (*verdict, error) {
	t := target{
		gvk: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, namespace: namespace,
		name: agentName,
	}
	set, err := c.getMetadata(ctx, t)
	if apierrors.IsNotFound(err) {
		return nil, missing("workload").WithCause(err)
	}
	if err != nil {
		return nil, explain(err, t)
	}
	since := appliedAt(set)
	if pod == nil && time.Since(since) < quietTime {
		return nil, nil
	}
	t = core("Event", namespace, "")
	var newest corev1.Event
	var told *verdict
	warnings := selection{t, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning}}
	begin := func() { told, newest = nil, corev1.Event{} }
	err = list(ctx, c, warnings, begin, func(page *corev1.EventList) {
		for _, e := range page.Items {
			if happened(e).Before(since) || happened(e).Before(happened(newest)) || !v.explainedBy(e, set.UID, pod) {
				continue
			}
			if f := explainEvent(e.Reason, e.Message); f != nil {
				f.Observed.Reason = e.Reason
				newest, told = e, &verdict{failure: f, silent: true, said: e.Reason + ": " + e.Message}
			}
		}
	})
	return told, explain(err, t)
}

// explainedBy reports whether an event may explain a verdict: it is about the StatefulSet while it has no pod, about
// the pod, or about the eviction of the pod before.
func (v verdict) explainedBy(e corev1.Event, set types.UID, pod *corev1.Pod) bool {
	switch {
	case isEviction(&e):
		return pod == nil || replaced(e, pod.CreationTimestamp.Time)
	case v.unready:
		return false
	case pod == nil:
		return e.InvolvedObject.UID == set
	default:
		return e.InvolvedObject.UID == pod.UID
	}
}

// appliedAt is when the object last became what this program wanted it to be. What happened before is about something
// else.
func appliedAt(o metav1.Object) time.Time {
	for _, m := range o.GetManagedFields() {
		if m.Manager == fieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Time != nil {
			return m.Time.Time
		}
	}
	return o.GetCreationTimestamp().Time
}

// happened is the last time an event happened; which field tells depends on who wrote it.
func happened(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

// explainEvent explains an event that keeps the agent's pod from being created or started; nil for all others.
func explainEvent(reason, message string) *provisioning.PodFailure {
	switch reason {
	case "FailedCreate": // of a StatefulSet: the API server refused the pod
		return explainRefusal(message)
	case "FailedCreatePodSandBox":
		if strings.Contains(message, "no runtime for") || strings.Contains(message, "RuntimeHandler") {
			return noSandbox(false) // another node may have it
		}
	case reasonEvicted:
		return explainEviction(message)
	case "FailedMount", "FailedAttachVolume", "FailedBinding", "ProvisioningFailed":
		return &provisioning.PodFailure{
			Code: codeNoVolume,
			Message: "The cluster cannot attach the agent's volume yet and keeps trying. " +
				"Contact support if this persists.",
		}
	}
	return nil
}

func explainRefusal(message string) *provisioning.PodFailure {
	switch {
	case strings.Contains(message, "RuntimeClass"):
		return noSandbox(true)
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "status unknown for quota"):
		return &provisioning.PodFailure{
			Code: codeQuotaExceeded,
			Message: "The quota of the agent's namespace has no room for its pod. " +
				"The previous pod's share becomes free shortly.",
		}
	case strings.Contains(message, "violates PodSecurity"):
		return &provisioning.PodFailure{
			Code: codeRejected, Permanent: true,
			Message: "The cluster's security policy rejects the agent's pod. Contact support.",
		}
	default:
		return &provisioning.PodFailure{
			Code: codeRejected,
			Message: "The cluster rejects the agent's pod at the moment and keeps trying. " +
				"Contact support if this persists.",
		}
	}
}

func noSandbox(permanent bool) *provisioning.PodFailure {
	return &provisioning.PodFailure{
		Code: codeNoSandbox, Permanent: permanent,
		Message: "The agent's cluster does not have the sandbox's runtime class " + sandboxClass +
			". Turn the sandbox off, or contact support.",
	}
}
