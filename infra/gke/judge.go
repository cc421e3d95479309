package gke

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// Codes of what keeps a pod from becoming ready.
const (
	codeImagePull       = provisioning.CodeImagePull
	codeCrashLoop       = "pod_crash_loop"
	codeOutOfMemory     = "out_of_memory"
	codeUnschedulable   = agent.CodeUnschedulable
	codeNoSandbox       = agent.CodeSandboxUnschedulable
	codeRejected        = "pod_rejected"
	codeNoStart         = "container_start_failed"
	codeNoVolume        = "volume_unavailable"
	codeNoFiles         = "files_not_written"
	codeScratchFull     = "scratch_full"
	codeTimeout         = "readiness_timeout"
	crashesUntilCertain = 3 // restarts after which a crash is no accident; the kubelet takes a minute for them
)

// desired describes the pod that the agent's record asks for.
type desired struct {
	hash      string
	memoryMiB int64
}

// verdict is what a moment's look at the pod says.
type verdict struct {
	ready bool
	// failure explains why the pod is not ready, as far as is known; nil when it is.
	failure *provisioning.PodFailure
	// silent says that the pod gives no reason, so that events may.
	silent bool
	// unready says that the containers run, so that an eviction before may be the reason and no other event is.
	unready bool
	// said is the cluster's own text about it. It is for the log: it tells of the inside of the cluster. Never what a
	// container wrote.
	said string
}

func waiting(format string, args ...any) *provisioning.PodFailure {
	return &provisioning.PodFailure{Code: codeTimeout, Message: fmt.Sprintf(format, args...)}
}

// absent is the failure of an agent without the desired pod.
func absent(message string) *provisioning.PodFailure {
	return &provisioning.PodFailure{Code: codeTimeout, Message: message, Repairable: true}
}

// judge says whether a pod is the desired one and ready, and if not, why.
func (d desired) judge(pod *corev1.Pod) verdict {
	if pod == nil {
		return verdict{silent: true, failure: absent("The agent's pod was not created in time.")}
	}
	v := verdict{}
	switch {
	case pod.DeletionTimestamp != nil, pod.Annotations[annotationConfig] != d.hash:
		v.failure = absent("The agent's previous pod did not stop in time.")
		return v
	case condition(pod, corev1.PodReady).Status == corev1.ConditionTrue:
		v.ready = true
		return v
	case pod.Status.Phase == corev1.PodFailed:
		v.failure, v.said = waiting("The cluster ended the agent's pod and did not replace it in time."),
			pod.Status.Reason
		if pod.Status.Reason == reasonEvicted {
			v.failure = cmp.Or(explainEviction(pod.Status.Message), v.failure)
		}
		return v
	}
	if scheduled := condition(pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionFalse &&
		scheduled.Reason == corev1.PodReasonUnschedulable {
		v.said = scheduled.Message
		v.failure = &provisioning.PodFailure{
			Code: codeUnschedulable,
			Message: "No node in the region has room for the agent yet. " +
				"Nodes are added automatically; retry in a few minutes.",
			Observed: agent.Observation{Reason: scheduled.Reason, Lacks: lacking(scheduled.Message)},
		}
		return v
	}
	// The agent's container does not start before the front does, and the pod is not Ready without either.
	status := statusOf(pod.Status.ContainerStatuses, agentName)
	if trust := statusOf(pod.Status.InitContainerStatuses, trustName); trust != nil {
		if v.failure, v.said = judgeTrust(trust); v.failure != nil {
			return v
		}
	}
	if importer := statusOf(pod.Status.InitContainerStatuses, importName); importer != nil {
		if v.failure, v.said = judgeImport(importer); v.failure != nil {
			return v
		}
	}
	if seed := statusOf(pod.Status.InitContainerStatuses, seedName); seed != nil {
		if v.failure, v.said = judgeSeed(seed); v.failure != nil {
			return v
		}
	}
	if front := statusOf(pod.Status.InitContainerStatuses, frontName); front != nil {
		if v.failure, v.said = judgeFront(front, endedFirst(pod, front, status)); v.failure != nil {
			return v
		}
	}
	if status != nil {
		return d.judgeContainer(v, status, servesAt(pod))
	}
	v.silent, v.failure = true, waiting("The agent's pod did not start in time.")
	return v
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.PodCondition{}
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range statuses {
		if statuses[i].Name == name {
			return &statuses[i]
		}
	}
	return nil
}

func (d desired) judgeContainer(v verdict, status *corev1.ContainerStatus, demand string) verdict {
	if w := status.State.Waiting; w != nil {
		if f := notStarted(w); f != nil {
			f.Observed = agent.Observation{Reason: w.Reason, Restarts: int(status.RestartCount)}
			v.failure, v.said = f, w.Reason+": "+w.Message
			return v
		}
	}
	exit := status.State.Terminated
	if exit == nil {
		exit = status.LastTerminationState.Terminated
	}
	switch {
	case exit != nil:
		v.failure, v.said = d.crashed(status, exit), exit.Reason
	case status.State.Running != nil:
		v.unready = true
		v.failure = waiting("The agent is running but did not %s in time.", demand)
		v.failure.Observed = agent.Observation{Reason: reasonUnready, Restarts: int(status.RestartCount)}
	default:
		v.silent, v.failure = true, waiting("The agent's container did not start in time.")
	}
	return v
}

// notStarted explains a container that waits for what is not the agent's doing; nil for all other reasons.
func notStarted(w *corev1.ContainerStateWaiting) *provisioning.PodFailure {
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ErrImageNeverPull", "ImageInspectError":
		f := &provisioning.PodFailure{
			Code: codeImagePull,
			Message: "The cluster cannot pull the agent's image. " +
				"Contact support to check the image and the access to it.",
		}
		if strings.Contains(w.Message, "not found") || strings.Contains(w.Message, "manifest unknown") {
			f.Message = "The registry does not have the agent's image. If you chose the image yourself, push it " +
				"there, or choose another one. Otherwise, contact support."
		}
		return f
	case "InvalidImageName":
		return &provisioning.PodFailure{
			Code: codeImagePull, Permanent: true,
			Message: "The name of the agent's image is not valid. Contact support to correct it.",
		}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		if strings.Contains(w.Message, "has runAsNonRoot") { // of the kubelet
			return &provisioning.PodFailure{
				Code: codeNoStart, Permanent: true,
				Message: "The agent's image runs as root, or does not say its user as a number. No agent runs " +
					"as root. Build the image with USER 65532:65532, and move the agent to that version.",
			}
		}
		return &provisioning.PodFailure{
			Code: codeNoStart, Repairable: true,
			Message: "The agent's container cannot start with its configuration. " +
				"Start the agent again. Contact support if this persists.",
		}
	default:
		return nil
	}
}

// crashed explains a container that ended by itself. It is certain once the kubelet backs off and has tried often
// enough.
func (d desired) crashed(status *corev1.ContainerStatus,
	exit *corev1.ContainerStateTerminated,
) *provisioning.PodFailure {
	f := &provisioning.PodFailure{
		Code: codeCrashLoop,
		Observed: agent.Observation{
			Reason: exit.Reason, Exited: true, ExitCode: int(exit.ExitCode), Restarts: int(status.RestartCount),
		},
		Message: fmt.Sprintf("The agent exits soon after it starts: exit code %d%s. "+
			"Check its environment variables and secrets.",
			exit.ExitCode, exitHint(exit.ExitCode)),
	}
	if exit.Reason == "OOMKilled" {
		f.Code = codeOutOfMemory
		f.Message = fmt.Sprintf("The agent exceeded its plan's memory limit of %s and was killed. "+
			"Reduce its memory use, or use a larger plan.",
			memory(d.memoryMiB))
	}
	if w := status.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
		f.Permanent = status.RestartCount >= crashesUntilCertain
	}
	return f
}

// reasonUnready is the kubelet's reason for a pod whose containers run and are not ready.
const reasonUnready = "ContainersNotReady"

// shortage matches what the scheduler says that a machine lacks. The rest of its text describes the cluster's machines.
// Of a machine in another zone than the volume, newer releases of Kubernetes say the latter.
var shortage = regexp.MustCompile(`Insufficient (cpu|memory|ephemeral-storage)|` +
	`(volume node affinity conflict|didn't match PersistentVolume's node affinity)`)

// volumeZone stands for a machine in the zone of the agent's volume.
const volumeZone = "room in the zone of the agent's volume"

// lacking names what no machine has enough of, by the scheduler's message; "" if that does not say.
func lacking(message string) string {
	var names []string
	for _, found := range shortage.FindAllStringSubmatch(message, -1) {
		name := found[1]
		if found[2] != "" {
			name = volumeZone
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func exitHint(code int32) string {
	switch code {
	case 0:
		return " (it exited without an error but must keep running)"
	case 126, 127, 128: // 128 is of containerd
		return " (its command cannot be run)"
	case 137:
		return " (killed)"
	case 139:
		return " (segmentation fault)"
	case 143:
		return " (terminated)"
	default:
		return ""
	}
}

func memory(mib int64) string {
	if mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}
