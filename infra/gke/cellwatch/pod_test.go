//go:build unix

package cellwatch

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// container returns the status of a container after a number of restarts: one that waits for a reason, runs, or has
// ended.
func container(restarts int32, waits, ended string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: "agent", RestartCount: restarts}
	exit := &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "private"}
	if restarts > 0 {
		s.LastTerminationState.Terminated = exit
	}
	switch {
	case waits == "CrashLoopBackOff":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits}
		s.LastTerminationState.Terminated = exit
	case waits != "":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: waits}
	case ended != "":
		s.State.Terminated = &corev1.ContainerStateTerminated{Reason: ended}
	default:
		s.State.Running = &corev1.ContainerStateRunning{}
	}
	return s
}

func TestTrouble_NamesACrashLoopAFewTimesOnly(t *testing.T) {
	t.Parallel()
	var names []string
	last := ""
	for restarts := range int32(50) {
		for _, s := range []corev1.ContainerStatus{
			container(restarts, "", ""), container(restarts, "", "Error"), container(restarts, "CrashLoopBackOff", ""),
		} {
			if name := trouble(&s); name != last && name != "" {
				names, last = append(names, name), name
			}
		}
	}
	want := []string{"Error 0", "Error 1", "Error 2", "Error 3", "Error often"}
	if len(names) != len(want) {
		t.Fatalf("troubles of 50 crashes = %q, want %q", names, want)
	}
	for i := range want {
		if names[i] != want[i] {
			t.Errorf("trouble %d = %q, want %q", i, names[i], want[i])
		}
	}
}

func TestObserve_NamesWhatKeepsAPodFromServing(t *testing.T) {
	t.Parallel()
	starting := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container(0, "ContainerCreating", "")}}
	for name, row := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"is created": {status: starting},
		"waits for the front": {status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{container(0, "PodInitializing", "")},
		}},
		"runs": {status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container(0, "", "")}}},
		"image is missing": {status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{container(0, "ImagePullBackOff", "")},
		}, want: "agent image pull"},
		"front's image is missing": {status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{container(0, "ErrImagePull", "")},
			ContainerStatuses:     []corev1.ContainerStatus{container(0, "PodInitializing", "")},
		}, want: "agent image pull"},
		"is out of memory": {status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{container(0, "", "OOMKilled")},
		}, want: "agent OOMKilled 0"},
		"cannot be created": {status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{container(0, "CreateContainerConfigError", "")},
		}, want: "agent CreateContainerConfigError"},
		"has no node": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}}, want: "Unschedulable"},
		"was evicted": {status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}, want: "failed Evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := stripPods(&corev1.Pod{Status: row.status})
			must(t, err)
			p := observe(stored.(*corev1.Pod))
			if p.Ready || p.Trouble != row.want {
				t.Errorf("observe = %+v, want trouble %q", p, row.want)
			}
		})
	}
}
