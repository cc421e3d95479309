package gke

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

// judgeFront explains a front that does not run; nil when it does, or is about to for the first time. It is the
// platform's program, so the client can do nothing about it.
func judgeFront(status *corev1.ContainerStatus) (f *provisioning.PodFailure, said string) {
	exit := status.State.Terminated
	if w := status.State.Waiting; w != nil {
		if f := notStarted(w.Reason); f != nil {
			f.Message = "The platform's front container in the agent's pod cannot be started. " + contactSupport
			f.Permanent = false // another release may correct it
			f.Observed = agent.Observation{Reason: w.Reason, Restarts: int(status.RestartCount)}
			return f, frontName + ": " + w.Reason + ": " + w.Message
		}
		exit = status.LastTerminationState.Terminated
	}
	if exit == nil {
		return nil, ""
	}
	return &provisioning.PodFailure{
		Code: codeNoStart,
		Message: fmt.Sprintf("The platform's front container in the agent's pod exits: exit code %d%s, %s. %s",
			exit.ExitCode, exitHint(exit.ExitCode), times(status.RestartCount+1), contactSupport),
		Observed: agent.Observation{
			Reason: exit.Reason, Exited: true, ExitCode: int(exit.ExitCode), Restarts: int(status.RestartCount),
		},
	}, frontName + ": " + exit.Reason
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
