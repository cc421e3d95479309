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

// TestObserved says what one look at a pod tells, for what no cluster here can be made to say.
func TestObserved(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, time.May, 6, 7, 8, 9, 0, time.UTC)
	later, stopping := created.Add(time.Hour), created.Add(2*time.Hour)
	none, running := corev1.ContainerState{}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	made := func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(created) }
	told := func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(stopping)) }
	ready := func(s corev1.ConditionStatus, at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(at)})
		}
	}
	sized := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: agentName, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: mebibytes(2048)},
		}}}
	}
	loop := waitingFor("CrashLoopBackOff")
	epoch, unset := time.Unix(0, 0), time.Time{}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		code    string // "" is ready
		since   time.Time
		lastRun time.Duration
		message string
	}{
		"new":                     {podWith(made), codeTimeout, created, 0, "not started"},
		"ready":                   {podWith(made, ready(corev1.ConditionTrue, later), withContainer(0, running, none)), "", later, 0, ""},
		"ready after a crash":     {podWith(made, ready(corev1.ConditionTrue, later), withContainer(1, running, endedAfter(created, created.Add(time.Minute)))), "", later, time.Minute, ""},
		"not ready any more":      {podWith(made, ready(corev1.ConditionFalse, later), withContainer(0, running, none)), codeTimeout, later, 0, "did not answer"},
		"ready, told to stop":     {podWith(made, told, ready(corev1.ConditionTrue, later)), codeTimeout, stopping, 0, "former pod"},
		"not ready, told to stop": {podWith(made, told, ready(corev1.ConditionFalse, later)), codeTimeout, later, 0, "former pod"},
		"a crash loop":            {podWith(made, withContainer(3, loop, endedAfter(later, later.Add(time.Second)))), codeCrashLoop, created, time.Second, "4 times"},
		"a crash, this moment":    {podWith(made, withContainer(3, endedAfter(later, later.Add(2*time.Second)), endedAfter(created, later))), codeCrashLoop, created, 2 * time.Second, ""},
		"what could not start":    {podWith(made, withContainer(3, loop, endedAfter(epoch, later))), codeCrashLoop, created, 0, ""},
		"an end without times":    {podWith(made, withContainer(3, loop, endedAfter(unset, unset))), codeCrashLoop, created, 0, ""},
		"an end without a start":  {podWith(made, withContainer(3, loop, endedAfter(unset, later))), codeCrashLoop, created, 0, ""},
		"clocks that went back":   {podWith(made, withContainer(3, loop, endedAfter(later, created))), codeCrashLoop, created, 0, ""},
		"out of memory": {
			podWith(made, sized, withContainer(3, loop, exited(137, "OOMKilled"))), codeOutOfMemory, created, 0, "more than the 2 GiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := observed("a", c.pod)
			code, message := "", ""
			if got.Failure != nil {
				code, message = got.Failure.Code, got.Failure.Message
			}
			if got.AgentID != "a" || got.Config != "hash" || code != c.code || !got.Since.Equal(c.since) || got.LastRun != c.lastRun || !strings.Contains(message, c.message) {
				t.Errorf("%+v with %q %q, want %q since %v after a run of %v", got, code, message, c.code, c.since, c.lastRun)
			}
		})
	}
}
