package gke

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// status is a pod's, of the desired configuration.
func podWith(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID:         types.UID("pod"),
		Annotations: map[string]string{annotationConfig: "hash"},
	}}
	for _, f := range change {
		f(p)
	}
	return p
}

func withCondition(t corev1.PodConditionType, s corev1.ConditionStatus, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: s, Reason: reason})
	}
}

func withContainer(restarts int32, now, last corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: "sidecar", State: waitingFor("InvalidImageName")},
			corev1.ContainerStatus{Name: agentName, RestartCount: restarts, State: now, LastTerminationState: last})
	}
}

func withFront(restarts int32, now, last corev1.ContainerState) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: frontName, RestartCount: restarts, State: now, LastTerminationState: last,
		})
	}
}

// withSpec gives the agent's container a port and a startup probe.
func withSpec(healthPath string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: agentName, Env: []corev1.EnvVar{{Name: "PORT", Value: "3000"}}}
		if healthPath != "" {
			get := &corev1.HTTPGetAction{Path: healthPath}
			c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}}
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"}, c)
	}
}

func waitingFor(reason string) corev1.ContainerState { return waitingBecause(reason, "") }

func waitingBecause(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func exited(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason,
		Message: "canary of the container",
	}}
}

func TestJudge_ExplainsEachPodState(t *testing.T) {
	t.Parallel()
	none, running := corev1.ContainerState{}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ready := withCondition(corev1.PodReady, corev1.ConditionTrue, "")
	for name, test := range map[string]struct {
		pod        *corev1.Pod
		code       string // "" is ready
		permanent  bool
		silent     bool
		repairable bool
		message    string
	}{
		"none":  {pod: nil, code: codeTimeout, silent: true, repairable: true, message: "not created"},
		"ready": {pod: podWith(ready)},
		"ready, other hash": {
			pod:  podWith(ready, func(p *corev1.Pod) { p.Annotations[annotationConfig] = "old" }),
			code: codeTimeout, repairable: true, message: "previous pod",
		},
		"ready, no hash": {
			pod: podWith(ready, func(p *corev1.Pod) { p.Annotations = nil }), code: codeTimeout,
			repairable: true, message: "previous pod",
		},
		"ready, stopping": {
			pod:  podWith(ready, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }),
			code: codeTimeout, repairable: true, message: "previous pod",
		},
		"new": {pod: podWith(), code: codeTimeout, silent: true, message: "did not start"},
		"evicted": {
			pod:  podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
			code: codeTimeout, message: "cluster ended",
		},
		"evicted for its files": {
			pod: podWith(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", saidScratch
			}),
			code: codeScratchFull, message: "256 MiB to /tmp",
		},
		"evicted from its machine": {
			pod: podWith(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", saidNode
			}),
			code: codeTimeout, message: "cluster ended",
		},
		"unschedulable": {pod: podWith(withCondition(corev1.PodScheduled, corev1.ConditionFalse,
			corev1.PodReasonUnschedulable)), code: codeUnschedulable, message: "room"},
		"not scheduled yet": {
			pod:    podWith(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "SchedulerError")),
			code:   codeTimeout,
			silent: true,
		}, "creating": {
			pod:  podWith(withContainer(0, waitingFor("ContainerCreating"), none)),
			code: codeTimeout, silent: true, message: "did not start",
		},
		"pulling fails": {pod: podWith(withContainer(0, waitingFor("ErrImagePull"), none)), code: codeImagePull},
		"pulling finds nothing": {
			pod: podWith(withContainer(0, waitingBecause("ImagePullBackOff", `Back-off pulling image "r/i@sha256:0": `+
				`ErrImagePull: failed to resolve reference "r/i@sha256:0": r/i@sha256:0: not found`), none)),
			code: codeImagePull, message: "registry does not have",
		},
		"pulling backs off": {
			pod: podWith(withContainer(0, waitingFor("ImagePullBackOff"), none)), code: codeImagePull,
		},
		"image name": {
			pod: podWith(withContainer(0, waitingFor("InvalidImageName"), none)), code: codeImagePull,
			permanent: true,
		},
		"config": {
			pod: podWith(withContainer(0, waitingFor("CreateContainerConfigError"), none)), code: codeNoStart,
			repairable: true,
		},
		"root": {
			pod: podWith(withContainer(0, waitingBecause("CreateContainerConfigError",
				"container has runAsNonRoot and image will run as root (pod: …)"), none)),
			code: codeNoStart, permanent: true, message: "as root",
		},
		"perhaps root": {
			pod: podWith(withContainer(0, waitingBecause("CreateContainerConfigError", "container has runAsNonRoot "+
				"and image has non-numeric user (node), cannot verify user is non-root (pod: …)"), none)),
			code: codeNoStart, permanent: true, message: "USER 65532:65532",
		},
		"runtime": {
			pod:  podWith(withContainer(1, waitingFor("CrashLoopBackOff"), exited(128, "StartError"))),
			code: codeCrashLoop, message: "128 (its command cannot be run).",
		},
		"running": {pod: podWith(withContainer(0, running, none)), code: codeTimeout, message: "did not serve"},
		"does not listen": {
			pod:  podWith(withSpec(""), withFront(0, running, none), withContainer(0, running, none)),
			code: codeTimeout, message: "did not accept connections on $PORT (3000)",
		},
		"unhealthy": {
			pod:  podWith(withSpec("/healthz"), withFront(0, running, none), withContainer(0, running, none)),
			code: codeTimeout, message: "did not answer GET /healthz on $PORT (3000) with status 200",
		},
		"front is created": {
			pod: podWith(withFront(0, waitingFor("ContainerCreating"), none),
				withContainer(0, waitingFor("PodInitializing"), none)),
			code: codeTimeout, silent: true, message: "did not start",
		},
		"front's image": {
			pod: podWith(withFront(0, waitingFor("InvalidImageName"), none),
				withContainer(0, waitingFor("PodInitializing"), none)),
			code: codeImagePull, message: "front container in the agent's pod cannot be started",
		},
		"front crashes": {
			pod: podWith(withFront(3, waitingFor("CrashLoopBackOff"), exited(2, "Error")),
				withContainer(0, running, none)),
			code: codeNoStart, message: "front container in the agent's pod exits: exit code 2, 4 times",
		},
		"front ended": {
			pod:  podWith(withFront(0, exited(137, "OOMKilled"), none), withContainer(0, running, none)),
			code: codeNoStart, message: "exit code 137 (killed), once",
		},
		"front crashed, runs": {
			pod:  podWith(withSpec(""), withFront(1, running, exited(2, "Error")), withContainer(0, running, none)),
			code: codeTimeout, message: "did not accept connections",
		},
		"agent crashes, front runs": {
			pod: podWith(withFront(1, running, exited(2, "Error")),
				withContainer(3, waitingFor("CrashLoopBackOff"), exited(1, "Error"))),
			code: codeCrashLoop, permanent: true, message: "The agent exits",
		},
		"crashed once": {
			pod: podWith(withContainer(0, exited(1, "Error"), none)), code: codeCrashLoop,
			message: "exit code 1.",
		},
		"crashed, runs": {
			pod: podWith(withContainer(1, running, exited(2, "Error"))), code: codeCrashLoop,
			message: "exit code 2.",
		},
		"backs off early": {
			pod:  podWith(withContainer(2, waitingFor("CrashLoopBackOff"), exited(1, "Error"))),
			code: codeCrashLoop, message: "exit code 1.",
		},
		"crash loop": {
			pod:  podWith(withContainer(3, waitingFor("CrashLoopBackOff"), exited(127, "Error"))),
			code: codeCrashLoop, permanent: true, message: "127 (its command cannot be run).",
		},
		"ends well": {
			pod:  podWith(withContainer(3, waitingFor("CrashLoopBackOff"), exited(0, "Completed"))),
			code: codeCrashLoop, permanent: true, message: "must keep running",
		},
		"out of memory once": {
			pod: podWith(withContainer(1, running, exited(137, "OOMKilled"))), code: codeOutOfMemory,
			message: "512 MiB",
		},
		"out of memory": {
			pod:  podWith(withContainer(4, waitingFor("CrashLoopBackOff"), exited(137, "OOMKilled"))),
			code: codeOutOfMemory, permanent: true, message: "and was killed.",
		},
		"killed": {
			pod:  podWith(withContainer(4, waitingFor("CrashLoopBackOff"), exited(137, "Error"))),
			code: codeCrashLoop, permanent: true, message: "(killed)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := desired{hash: "hash", memoryMiB: 512}.judge(test.pod)
			if v.ready != (test.code == "") || v.silent != test.silent || (v.failure == nil) != v.ready {
				t.Fatalf("verdict %+v", v)
			}
			if v.ready {
				return
			}
			wantFailure(t, v.failure, test.code, test.permanent, test.message)
			if v.failure.Repairable != test.repairable {
				t.Errorf("repairable = %t, want %t", v.failure.Repairable, test.repairable)
			}
			if strings.Contains(v.failure.Message+v.said, "canary") {
				t.Error("what the container wrote is passed on")
			}
		})
	}
}

func TestExplainEvent_ExplainsKnownEvents(t *testing.T) {
	t.Parallel()
	const failed = `create Pod agent-0 in StatefulSet agent failed error: pods "agent-0" is forbidden: `
	for _, test := range []struct {
		reason, message, code string
		permanent             bool
	}{
		{
			reason: "FailedCreate", message: failed + `pod rejected: RuntimeClass "gvisor" not found`,
			code: codeNoSandbox, permanent: true,
		},
		{
			reason:  "FailedCreate",
			message: failed + "exceeded quota: agent, requested: pods=1, used: pods=2, limited: pods=2",
			code:    codeQuotaExceeded,
		},
		{
			reason: "FailedCreate", message: failed + "status unknown for quota: agent, resources: pods",
			code: codeQuotaExceeded,
		},
		{
			reason: "FailedCreate", message: failed + `violates PodSecurity "restricted:latest": privileged`,
			code: codeRejected, permanent: true,
		},
		{
			reason:  "FailedCreate",
			message: failed + `error looking up service account x/default: serviceaccount "default" not found`,
			code:    codeRejected,
		},
		{
			reason:  "FailedCreatePodSandBox",
			message: `Failed to create pod sandbox: rpc error: no runtime for "runsc" is configured`,
			code:    codeNoSandbox,
		},
		{reason: "FailedCreatePodSandBox", message: "Failed to create pod sandbox: network not ready"},
		{reason: "FailedMount", message: "MountVolume.SetUp failed", code: codeNoVolume, permanent: false},
		{reason: "FailedAttachVolume", message: "Multi-Attach error for volume", code: codeNoVolume, permanent: false},
		{reason: "Unhealthy", message: "Readiness probe failed", code: "", permanent: false},
		{reason: "FailedScheduling", message: "0/3 nodes are available", code: "", permanent: false},
	} {
		f := explainEvent(test.reason, test.message)
		if test.code == "" {
			if f != nil {
				t.Errorf("%s %q: %v, want nothing", test.reason, test.message, f)
			}
			continue
		}
		if f == nil {
			t.Errorf("%s %q: nothing, want %s", test.reason, test.message, test.code)
			continue
		}
		wantFailure(t, f, test.code, test.permanent)
	}
}

func TestLacking_NamesOnlyWhatMachinesLack(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"0/3 nodes are available: 2 Insufficient memory, 3 Insufficient cpu, 1 Insufficient cpu.": "cpu, memory",
		"0/2 nodes are available: 2 node(s) had volume node affinity conflict.":                   volumeZone,
		"0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.":       volumeZone,
		"0/1 nodes are available: node gke-tenants-7f had taint {secret: x}.":                     "",
	} {
		if got := lacking(message); got != want {
			t.Errorf("lacking(%q) = %q, want %q", message, got, want)
		}
	}
}

// TestJudge_BlamesAFrontThatEndedAlone looks at pods whose front and whose agent's container have both ended before.
func TestJudge_BlamesAFrontThatEndedAlone(t *testing.T) {
	t.Parallel()
	unready := time.Date(2026, time.March, 2, 9, 40, 0, 0, time.UTC)
	const agentRestarts = 1
	for name, test := range map[string]struct {
		frontEnded, agentStarted time.Time
		frontNow                 corev1.ContainerState // zero is running
		blamed                   bool
	}{
		"front ended": {frontEnded: unready.Add(-time.Second), agentStarted: unready.Add(-time.Hour), blamed: true},
		"front ended again": {
			frontEnded: unready.Add(time.Minute), agentStarted: unready.Add(-time.Hour), blamed: true,
		},
		"front waits": {
			frontEnded: unready, agentStarted: unready.Add(-time.Hour), frontNow: waitingFor("CrashLoopBackOff"),
			blamed: true,
		},
		"front ended long ago": {frontEnded: unready.Add(-time.Hour), agentStarted: unready.Add(-2 * time.Hour)},
		"both ended":           {frontEnded: unready.Add(-time.Second), agentStarted: unready.Add(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := exited(137, "OOMKilled")
			ended.Terminated.FinishedAt = metav1.NewTime(test.frontEnded)
			if test.frontNow == (corev1.ContainerState{}) {
				test.frontNow.Running = &corev1.ContainerStateRunning{StartedAt: ended.Terminated.FinishedAt}
			}
			running := corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(test.agentStarted)},
			}
			pod := podWith(withFront(7, test.frontNow, ended),
				withContainer(agentRestarts, running, exited(1, "Error")),
				func(p *corev1.Pod) {
					p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
						Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(unready),
					})
				})
			got := observed("id", pod)
			if blamed := strings.Contains(got.Failure.Message, "platform's front container"); blamed != test.blamed ||
				(got.Failure.Code == codeNoStart) != test.blamed || got.Failure.Permanent {
				t.Errorf("%s, permanent %t: %s; want the front blamed: %t", got.Failure.Code, got.Failure.Permanent,
					got.Failure.Message, test.blamed)
			}
			if o := got.Failure.Observed; test.blamed && (o.Exited || o.Restarts > 0) {
				t.Errorf("the agent's container is said to have ended: %+v", o)
			}
			if got.Restarts != agentRestarts {
				t.Errorf("%d restarts of the agent, want %d", got.Restarts, agentRestarts)
			}
		})
	}
}
