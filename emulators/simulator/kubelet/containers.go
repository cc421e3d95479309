package kubelet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long containers stay in a state: the times of a kubelet, shortened.
const (
	createTime    = 20 * time.Millisecond  // ContainerCreating
	pullTime      = 300 * time.Millisecond // ErrImagePull, before ImagePullBackOff
	crashTime     = 200 * time.Millisecond // a crashing container runs
	exitedTime    = 100 * time.Millisecond // a container that exited is seen as such, before it waits to be restarted
	batchTime     = time.Second            // a container runs that is to end
	backoffMin    = 250 * time.Millisecond // 10 s / 40
	backoffMax    = 7500 * time.Millisecond
	exitCodeKill  = 137 // 128 + SIGKILL
	exitCodeCrash = 1
)

// Reasons why a container waits or ended, as reported by kubelets.
const (
	reasonCreating     = "ContainerCreating"
	reasonPullError    = "ErrImagePull"
	reasonPullBackoff  = "ImagePullBackOff"
	reasonCrashBackoff = "CrashLoopBackOff"
)

// find returns the last reported status of a container, or an initial one.
func find(statuses []corev1.ContainerStatus, c *corev1.Container) corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == c.Name {
			return *statuses[i].DeepCopy()
		}
	}
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: digest(c.Image), Started: new(bool)}
}

// digest returns the image with its digest. An image named by tag gets a digest derived from its name.
func digest(image string) string {
	if strings.Contains(image, "@sha256:") {
		return image
	}
	repository := image
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		repository = image[:colon]
	}
	sum := sha256.Sum256([]byte(image))
	return repository + "@sha256:" + hex.EncodeToString(sum[:])
}

func (k *kubelet) containerID(status *corev1.ContainerStatus) string {
	return "simulated://" + runID(k.pod, status)
}

// runID identifies one run of a container.
func runID(pod *corev1.Pod, status *corev1.ContainerStatus) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(pod.UID), status.Name,
		strconv.Itoa(int(status.RestartCount)),
	}, "/")))
	return hex.EncodeToString(sum[:])
}

// hold limits the time until the next report to d.
func (k *kubelet) hold(d time.Duration) {
	if k.wait == 0 || d < k.wait {
		k.wait = d
	}
}

// container returns the container's next status.
func (k *kubelet) container(c *corev1.Container, status corev1.ContainerStatus) corev1.ContainerStatus {
	switch {
	case status.State.Terminated != nil:
		return k.exited(c, status)
	case status.State.Running != nil:
		return k.running(c, status)
	}
	return k.waiting(c, status)
}

func (k *kubelet) waiting(c *corev1.Container, status corev1.ContainerStatus) corev1.ContainerStatus {
	var reason string
	if status.State.Waiting != nil {
		reason = status.State.Waiting.Reason
	}
	switch {
	case reason == "":
		k.hold(createTime)
		return wait(status, reasonCreating, "")
	case k.fault.kind != imagePull:
		return k.start(c, status)
	case reason == reasonPullError || reason == reasonPullBackoff:
		return wait(status, reasonPullBackoff,
			fmt.Sprintf("Back-off pulling image %q: %s: simulated fault", c.Image, reasonPullError))
	}
	k.hold(pullTime)
	return wait(status, reasonPullError, fmt.Sprintf("failed to pull and unpack image %q: simulated fault", c.Image))
}

func (k *kubelet) start(c *corev1.Container, status corev1.ContainerStatus) corev1.ContainerStatus {
	if status.LastTerminationState.Terminated != nil {
		status.RestartCount++
	}
	status.ContainerID = k.containerID(&status)
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(k.now)}}
	started := true
	status.Started = &started
	k.started = k.now
	return k.running(c, status)
}

func (k *kubelet) running(c *corev1.Container, status corev1.ContainerStatus) corev1.ContainerStatus {
	started := k.started
	if started.IsZero() {
		started = status.State.Running.StartedAt.Time
	}
	ran := k.now.Sub(started)
	switch {
	case k.fault.kind == imagePull:
		status.LastTerminationState = exit(&status, exitCodeKill, "Error", k.now)
		return k.waiting(c, wait(status, reasonCreating, ""))
	case k.fault.crashes() && ran >= crashTime:
		code, reason := int32(exitCodeCrash), "Error"
		if k.fault.kind == oom {
			code, reason = exitCodeKill, "OOMKilled"
		}
		return k.exit(status, code, reason)
	case k.fault.crashes():
		k.hold(crashTime - ran)
		status.Ready = c.ReadinessProbe == nil && c.StartupProbe == nil // it never passes one
	case k.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways && ran >= batchTime:
		return k.exit(status, 0, "Completed")
	case k.fault.kind == notReady:
		status.Ready = false
	case k.fault.kind == slow && ran < k.fault.delay:
		k.hold(k.fault.delay - ran)
		status.Ready = false
	default:
		status.Ready = true
	}
	if k.pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		k.hold(batchTime - ran)
	}
	return status
}

// exit ends a running container.
func (k *kubelet) exit(status corev1.ContainerStatus, code int32, reason string) corev1.ContainerStatus {
	status.State = exit(&status, code, reason, k.now)
	status.Ready, status.Started = false, new(bool)
	k.hold(exitedTime)
	return status
}

// exited restarts a container or leaves it ended, depending on the pod's restart policy.
func (k *kubelet) exited(c *corev1.Container, status corev1.ContainerStatus) corev1.ContainerStatus {
	policy := k.pod.Spec.RestartPolicy
	if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure &&
		status.State.Terminated.ExitCode == 0 {
		return status
	}
	status.LastTerminationState = status.State
	if !k.fault.crashes() {
		return k.waiting(c, wait(status, reasonCreating, ""))
	}
	backoff := backoffOf(status.RestartCount)
	k.hold(backoff)
	return backOff(k.pod, status, backoff)
}

// backoffOf returns how long a container waits after it failed a number of times.
func backoffOf(failures int32) time.Duration { return min(backoffMin<<min(failures, 10), backoffMax) }

// backOff returns status as that of a container that waits for its restart.
func backOff(pod *corev1.Pod, status corev1.ContainerStatus, backoff time.Duration) corev1.ContainerStatus {
	return wait(status, reasonCrashBackoff, fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)",
		backoff, status.Name, pod.Name, pod.Namespace, pod.UID))
}

// wait returns status as that of a waiting container.
func wait(status corev1.ContainerStatus, reason, message string) corev1.ContainerStatus {
	status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	status.Ready, status.Started = false, new(bool)
	return status
}

// exit returns the state of a container that ended now.
func exit(status *corev1.ContainerStatus, code int32, reason string, now time.Time) corev1.ContainerState {
	started := metav1.NewTime(now)
	if status.State.Running != nil {
		started = status.State.Running.StartedAt
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: started, FinishedAt: metav1.NewTime(now),
		ContainerID: status.ContainerID,
	}}
}
