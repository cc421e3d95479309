package kubelet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The transitions of containers that really run, for the caller that runs them.
const (
	// ExitedTime is how long an exit is reported before the container waits for its restart.
	ExitedTime = exitedTime
	// PullTime is how long ErrImagePull is reported before ImagePullBackOff.
	PullTime = pullTime
	// SteadyTime is how long a container runs until its earlier failures no longer lengthen its back-off.
	SteadyTime = 2 * backoffMax

	reasonInitializing = "PodInitializing"
	reasonUnknown      = "Unknown"
	exitCodeUnknown    = 255
)

// PullFails reports whether images cannot be pulled, and those of running containers are lost.
func (f Fault) PullFails() bool { return f.kind == imagePull }

// Crash returns the exit that containers suffer and how long after their start, or ok = false.
func (f Fault) Crash() (code int32, reason string, after time.Duration, ok bool) {
	switch f.kind { //nolint:exhaustive // the other faults end no container
	case crashLoop:
		return exitCodeCrash, "Error", crashTime, true
	case oom:
		return exitCodeKill, "OOMKilled", crashTime, true
	}
	return 0, "", 0, false
}

// Unready reports whether a container that ran for a while may not be ready, and when that changes; 0 is never. A
// program that is to crash is never ready: it may listen before it is killed, and its agent would count as running.
func (f Fault) Unready(ran time.Duration) (unready bool, remaining time.Duration) {
	switch {
	case f.kind == notReady, f.crashes():
		return true, 0
	case f.kind == slow && ran < f.delay:
		return true, f.delay - ran
	}
	return false, 0
}

// Adopt returns the status of a container that this kubelet does not run yet. If the API says that the container runs,
// then an earlier kubelet ran it, and its exit code is unknown.
func Adopt(statuses []corev1.ContainerStatus, c *corev1.Container, now time.Time) corev1.ContainerStatus {
	status := find(statuses, c)
	if status.State.Running != nil {
		status.State = exit(&status, exitCodeUnknown, reasonUnknown, now)
	}
	status.Ready, status.Started = false, new(bool)
	return status
}

// AwaitInit returns status as that of a container that waits for the init containers, unless it ran before.
func AwaitInit(status corev1.ContainerStatus) corev1.ContainerStatus {
	if status.State.Terminated != nil {
		return status
	}
	return wait(status, reasonInitializing, "")
}

// Await returns status as that of a container that cannot be created.
func Await(status corev1.ContainerStatus, reason, message string) corev1.ContainerStatus {
	return wait(keepExit(status), reason, message)
}

// AwaitImage returns status as that of a container whose image cannot be pulled, for the time since the first attempt.
func AwaitImage(status corev1.ContainerStatus, since time.Duration) corev1.ContainerStatus {
	if since < pullTime {
		return wait(keepExit(status), reasonPullError,
			fmt.Sprintf("failed to pull and unpack image %q: simulated fault", status.Image))
	}
	return wait(keepExit(status), reasonPullBackoff,
		fmt.Sprintf("Back-off pulling image %q: %s: simulated fault", status.Image, reasonPullError))
}

// AwaitRestart returns status as that of a container that waits for its restart.
func AwaitRestart(pod *corev1.Pod, status corev1.ContainerStatus, backoff time.Duration) corev1.ContainerStatus {
	return backOff(pod, keepExit(status), backoff)
}

// Backoff returns how long a container that failed again waits, after a number of earlier failures.
func Backoff(failures int32) time.Duration { return backoffOf(failures) }

// Run returns status as that of a container that started now.
func Run(pod *corev1.Pod, status corev1.ContainerStatus, now time.Time) corev1.ContainerStatus {
	if status = keepExit(status); status.LastTerminationState.Terminated != nil {
		status.RestartCount++
	}
	status.ContainerID = "process://" + runID(pod, &status)
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	status.Ready, status.Started = false, new(bool)
	return status
}

// Exit returns status as that of a container that exited now.
func Exit(status corev1.ContainerStatus, code int32, reason string, now time.Time) corev1.ContainerStatus {
	status.State = exit(&status, code, reason, now)
	status.Ready, status.Started = false, new(bool)
	return status
}

// keepExit moves the exit of the last run to where it stays while the container waits and runs again.
func keepExit(status corev1.ContainerStatus) corev1.ContainerStatus {
	if status.State.Terminated != nil {
		status.LastTerminationState = status.State
	}
	return status
}

// Summarize completes a status whose containers are up to date: the pod's phase and conditions. initialized says that
// all init containers completed or, if they are sidecars, started.
func Summarize(pod *corev1.Pod, status *corev1.PodStatus, initialized bool, now time.Time) {
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = &metav1.Time{Time: now}
	}
	status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	status.HostIPs = []corev1.HostIP{{IP: status.HostIP}}
	policy := pod.Spec.RestartPolicy
	if pod.DeletionTimestamp != nil {
		policy = corev1.RestartPolicyNever
	}
	switch status.Phase = phase(status.ContainerStatuses, policy); {
	case initFailed(pod, status):
		status.Phase = corev1.PodFailed
	case !initialized && pod.DeletionTimestamp == nil:
		status.Phase = corev1.PodPending
	}
	var sidecars []corev1.ContainerStatus
	for i := range status.InitContainerStatuses {
		if i < len(pod.Spec.InitContainers) && IsSidecar(&pod.Spec.InitContainers[i]) {
			sidecars = append(sidecars, status.InitContainerStatuses[i])
		}
	}
	setConditions(status, append(unready(sidecars), unready(status.ContainerStatuses)...), now)
	if !initialized {
		setCondition(status, corev1.PodCondition{
			Type: corev1.PodInitialized, Status: corev1.ConditionFalse, Reason: "ContainersNotInitialized",
		}, now)
	}
}

// initFailed reports whether an init container failed that is not restarted.
func initFailed(pod *corev1.Pod, status *corev1.PodStatus) bool {
	for i := range status.InitContainerStatuses {
		last := status.InitContainerStatuses[i].State.Terminated
		if last != nil && last.ExitCode != 0 && pod.Spec.RestartPolicy == corev1.RestartPolicyNever &&
			!IsSidecar(&pod.Spec.InitContainers[i]) {
			return true
		}
	}
	return false
}

// IsSidecar reports whether an init container keeps running next to the containers.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
