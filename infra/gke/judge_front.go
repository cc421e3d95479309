package gke

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

// judgeFront explains a front that does not run, or that runs again after its end made the pod not Ready; nil when it
// runs, or is about to for the first time. It is the platform's program, so the client can do nothing about it, and
// what the cluster reports of it is not reported as the agent's.
func judgeFront(status *corev1.ContainerStatus, madeUnready bool) (f *provisioning.PodFailure, said string) {
	exit := status.State.Terminated
	if w := status.State.Waiting; w != nil {
		if f := notStarted(w); f != nil {
			f.Message = "The platform's front container in the agent's pod cannot be started. " + contactSupport
			f.Permanent = false // another release may correct it
			f.Observed = agent.Observation{Reason: w.Reason}
			return f, frontName + ": " + w.Reason + ": " + w.Message
		}
		exit = status.LastTerminationState.Terminated
	}
	if exit == nil && madeUnready {
		exit = status.LastTerminationState.Terminated
	}
	if exit == nil {
		return nil, ""
	}
	return &provisioning.PodFailure{
		Code: codeNoStart,
		Message: fmt.Sprintf("The platform's front container in the agent's pod exits: exit code %d%s, %s. %s",
			exit.ExitCode, exitHint(exit.ExitCode), times(ends(status)), contactSupport),
	}, frontName + ": " + exit.Reason
}

// judgeSeed explains a container that could not write the agent's files; nil while it runs, and when it has.
func judgeSeed(status *corev1.ContainerStatus) (f *provisioning.PodFailure, said string) {
	exit := status.State.Terminated
	if w := status.State.Waiting; w != nil {
		if f, said := judgeFront(status, false); f != nil && status.LastTerminationState.Terminated == nil {
			return f, said
		}
		exit = status.LastTerminationState.Terminated
	}
	if exit == nil || exit.ExitCode == 0 {
		return nil, ""
	}
	return &provisioning.PodFailure{
		Code: codeNoFiles,
		Message: "The agent's files cannot be written to its volume. The volume is full, or what the agent made " +
			"there is in the way of a path: a link that leads out of the volume, or a directory in which its group " +
			"may not write. Change the paths of the files.",
		Observed: agent.Observation{
			Reason: exit.Reason, Exited: true, ExitCode: int(exit.ExitCode), Restarts: int(status.RestartCount),
		},
	}, seedName + ": " + exit.Reason
}

// ends is how often a container ended.
func ends(status *corev1.ContainerStatus) int32 {
	if status.State.Running != nil {
		return status.RestartCount
	}
	return status.RestartCount + 1 // the last end is not followed by a restart yet
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// unreadyAfter is the most that passes between the end of a front and the kubelet's report that the pod is not Ready.
const unreadyAfter = 5 * time.Second

// endedFirst reports whether a pod is not Ready because its front ended, while the agent's container ran on.
func endedFirst(pod *corev1.Pod, front, container *corev1.ContainerStatus) bool {
	exit := front.LastTerminationState.Terminated
	if exit == nil || container == nil || container.State.Running == nil {
		return false
	}
	return container.State.Running.StartedAt.Before(&exit.FinishedAt) &&
		exit.FinishedAt.Add(unreadyAfter).After(condition(pod, corev1.PodReady).LastTransitionTime.Time)
}

const contactSupport = "It is restarted automatically. Contact support if this persists."

// servesAt describes what the agent's container must do so that its pod becomes Ready.
func servesAt(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != agentName {
			continue
		}
		port := "$" + dataplane.EnvPort
		for _, e := range c.Env {
			if e.Name == dataplane.EnvPort {
				port = fmt.Sprintf("$%s (%s)", dataplane.EnvPort, e.Value)
			}
		}
		if p := c.StartupProbe; p != nil && p.HTTPGet != nil {
			return fmt.Sprintf("answer GET %s on %s with status 200", p.HTTPGet.Path, port)
		}
		return "accept connections on " + port
	}
	return "serve"
}
