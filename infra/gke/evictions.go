package gke

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// reasonEvicted is a kubelet's reason for a pod that it ended, and for the event about that. The controller of
	// StatefulSets replaces the pod immediately, so that the event is all that is left.
	reasonEvicted = "Evicted"
	// evictedExit is the exit code that a kubelet itself reports for a container whose end it has not seen.
	evictedExit = 137
	// replacedSoon is how long after an eviction its pod is replaced at the latest.
	replacedSoon = time.Minute
)

// explainEviction explains a pod that a kubelet ended, by what the kubelet said; nil if it was not the agent's doing,
// such as on a machine that ran out of memory.
func explainEviction(message string) *provisioning.PodFailure {
	f := &provisioning.PodFailure{Code: codeScratchFull, Observed: agent.Observation{Reason: reasonEvicted}}
	switch {
	case strings.HasPrefix(message, `Usage of EmptyDir volume "`+scratchName+`" exceeds the limit`):
		f.Message = fmt.Sprintf("The agent wrote more than %s to /tmp and was ended. "+
			"Write large files to its volume, and remove temporary files.", memory(scratchBytes>>20))
	case strings.HasPrefix(message, "Pod ephemeral local storage usage exceeds the total limit of containers"),
		strings.HasPrefix(message, "Container "+agentName+" exceeded its local ephemeral storage limit"):
		f.Message = fmt.Sprintf("The agent's log and its files in /tmp together took more than %s, and it was ended. "+
			"Write large files to its volume, and log less.", memory(ephemeralBytes>>20))
	default:
		return nil
	}
	return f
}

// replaced reports whether a pod was created in the place of the pod of an eviction.
func replaced(evicted corev1.Event, created time.Time) bool {
	return created.Sub(happened(evicted)).Abs() < replacedSoon
}

// isEviction reports whether an event is about the eviction of an agent's pod.
func isEviction(e *corev1.Event) bool {
	return e.Reason == reasonEvicted && e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == podName
}

// eviction is the last one of an agent's pods that the agent caused, and how many there were. A cluster keeps events
// for an hour.
type eviction struct {
	last    corev1.Event
	failure *provisioning.PodFailure
	count   int
}

// evictions lists the evictions of a cell by the ids of the agents. It is one request for each pageSize events.
func (c *client) evictions(ctx context.Context) (map[string]eviction, error) {
	t := core("Event", "", "")
	found := map[string]eviction{}
	selected := selection{t, metav1.ListOptions{FieldSelector: "reason=" + reasonEvicted +
		",involvedObject.kind=Pod,involvedObject.name=" + podName}}
	err := list(ctx, c, selected, func() { clear(found) }, func(page *corev1.EventList) {
		for i := range page.Items {
			id, ours := agent.IDFromNamespace(page.Items[i].Namespace)
			f := explainEviction(page.Items[i].Message)
			if !ours || f == nil {
				continue
			}
			e := found[id]
			if e.count == 0 || happened(page.Items[i]).After(happened(e.last)) {
				e.last, e.failure = *page.Items[i].DeepCopy(), f
			}
			e.count++
			found[id] = e
		}
	})
	return found, explain(err, t)
}

// addEvictions adds to the pods of a cell what their predecessors were ended for. Without that, a list is worth the
// same.
func (c *client) addEvictions(ctx context.Context, cell string, pods []provisioning.Pod) {
	evicted, err := c.evictions(ctx)
	if err != nil {
		slog.WarnContext(ctx, "the evictions of pods could not be listed", "cell", cell, "error", err)
		return
	}
	for i := range pods {
		if e, ok := evicted[pods[i].AgentID]; ok {
			e.explain(&pods[i])
		}
	}
}

// explain adds an eviction to the pod that the agent has now: as a run that has ended, in whose place a kept log has
// the reason, and as the reason why the pod is not ready, if the pod has no other one. After some evictions, another
// pod does not help.
func (e eviction) explain(p *provisioning.Pod) {
	at := happened(e.last)
	p.Ended = append(p.Ended, provisioning.EndedContainer{
		Ended: agentlog.Ended{
			Container: agentlog.Container(string(e.last.InvolvedObject.UID), reasonEvicted),
			EndedAt:   at, ExitCode: evictedExit, Reason: reasonEvicted,
		},
		Said: at.UTC().Format(time.RFC3339Nano) + " " + e.failure.Message + "\n",
	})
	if p.Failure != nil && p.Failure.Code == codeTimeout && replaced(e.last, p.Since) {
		p.Failure = e.failure
		p.Failure.Permanent = e.count >= crashesUntilCertain
	}
}
