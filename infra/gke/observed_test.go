package gke

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func endedAfter(started, finished time.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(finished),
	}}
}

// The rows are pod states that the test cluster cannot produce.
func TestObserved_ReportsWhatAPodShows(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, time.May, 6, 7, 8, 9, 0, time.UTC)
	later, stopping := created.Add(time.Hour), created.Add(2*time.Hour)
	none, running := corev1.ContainerState{}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	made := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(created) }
	told := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(stopping)) }
	patient := func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(2 * 60 * 60)) }
	ready := func(s corev1.ConditionStatus, at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(at)})
		}
	}
	sized := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{
			{Name: "sidecar"},
			{Name: agentName, Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: mebibytes(2048)},
			}},
		}
	}
	loop := waitingFor("CrashLoopBackOff")
	epoch, unset := time.Unix(0, 0), time.Time{}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		code    string // "" is ready
		since   time.Time
		lastRun time.Duration
		lost    time.Time
		message string
	}{
		"new": {pod: podWith(made), code: codeTimeout, since: created, message: "did not start"},
		"ready": {pod: podWith(made, ready(corev1.ConditionTrue, later),
			withContainer(0, running, none)), code: "", since: later, lastRun: 0, lost: created, message: ""},
		"ready after a crash": {
			pod: podWith(made, ready(corev1.ConditionTrue, later),
				withContainer(1, running, endedAfter(created, created.Add(time.Minute)))), code: "", since: later,
			lastRun: time.Minute, lost: created.Add(time.Minute), message: "",
		},
		"not ready any more": {pod: podWith(made, ready(corev1.ConditionFalse, later),
			withContainer(0, running, none)), code: codeTimeout, since: later, lastRun: 0, message: "did not serve"},
		"ready, told to stop": {
			pod: podWith(made, told, ready(corev1.ConditionTrue, later)), code: codeTimeout, since: stopping,
			message: "previous pod",
		},
		"not ready, told to stop": {
			pod: podWith(made, told, ready(corev1.ConditionFalse, later)), code: codeTimeout, since: later,
			message: "previous pod",
		},
		"not ready because it is told to stop": {
			pod: podWith(made, told, patient, ready(corev1.ConditionFalse, later)), code: codeTimeout,
			since: stopping, message: "previous pod",
		},
		"a crash loop": {
			pod:  podWith(made, withContainer(3, loop, endedAfter(later, later.Add(time.Second)))),
			code: codeCrashLoop, since: created, lastRun: time.Second, lost: later.Add(time.Second),
			message: "exit code 1.",
		},
		"a crash, this moment": {
			pod: podWith(made,
				withContainer(3, endedAfter(later, later.Add(2*time.Second)), endedAfter(created, later))),
			code: codeCrashLoop, since: created, lastRun: 2 * time.Second, message: "",
		},
		"what could not start": {
			pod: podWith(made, withContainer(3, loop, endedAfter(epoch, later))), code: codeCrashLoop,
			since: created,
		},
		"an end without times": {
			pod: podWith(made, withContainer(3, loop, endedAfter(unset, unset))), code: codeCrashLoop,
			since: created,
		},
		"an end without a start": {
			pod: podWith(made, withContainer(3, loop, endedAfter(unset, later))), code: codeCrashLoop,
			since: created,
		},
		"clocks that went back": {
			pod: podWith(made, withContainer(3, loop, endedAfter(later, created))), code: codeCrashLoop,
			since: created,
		},
		"out of memory": {
			pod: podWith(made, sized, withContainer(3, loop, exited(137, "OOMKilled"))), code: codeOutOfMemory,
			since: created, message: "memory limit of 2 GiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := observed("a", c.pod)
			code, message := "", ""
			if got.Failure != nil {
				code, message = got.Failure.Code, got.Failure.Message
			}
			if !c.lost.IsZero() && !got.Lost.Equal(c.lost) || c.pod.DeletionTimestamp != nil && !got.Lost.IsZero() {
				t.Errorf("lost at %v, want %v", got.Lost, c.lost)
			}
			if got.AgentID != "a" || got.Config != "hash" || code != c.code || !got.Since.Equal(c.since) ||
				got.LastRun != c.lastRun || !strings.Contains(message, c.message) {
				t.Errorf("%+v with %q %q, want %q since %v after a run of %v", got, code, message, c.code, c.since,
					c.lastRun)
			}
		})
	}
}
