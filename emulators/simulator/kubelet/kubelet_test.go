package kubelet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// life collects what a kubelet reports of a pod, one line a report: phase, readiness, state, restarts, exit code of the
// run before, and how long that holds.
type life struct {
	pod     *corev1.Pod
	now     time.Time
	started time.Time
	lines   []string
}

func newLife(policy corev1.RestartPolicy, probe *corev1.Probe) *life {
	return &life{now: time.Unix(1_000_000, 999_000_000), pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: types.UID("u")},
		Spec: corev1.PodSpec{
			RestartPolicy: policy, InitContainers: []corev1.Container{{Name: "init", Image: "i"}},
			Containers: []corev1.Container{{Name: "main", Image: "example/agent:v1", ReadinessProbe: probe}},
		},
	}}
}

// live takes up to steps reports, each when the one before no longer holds.
func (l *life) live(fault Fault, steps int) {
	for range steps {
		report := Next(l.pod, Moment{Fault: fault, Now: l.now, Started: l.started})
		l.pod.Status, l.started = report.Status, report.Started
		l.lines = append(l.lines, line(report))
		if report.Hold == 0 {
			return
		}
		l.now = l.now.Add(report.Hold)
	}
}

func line(r Report) string {
	c := r.Status.ContainerStatuses[0]
	var state string
	switch {
	case c.State.Waiting != nil:
		state = c.State.Waiting.Reason
	case c.State.Running != nil:
		state = "Running"
	default:
		state = fmt.Sprintf("%s(%d)", c.State.Terminated.Reason, c.State.Terminated.ExitCode)
	}
	ready := "unready"
	for _, condition := range r.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			ready = "ready"
		}
	}
	last := "-"
	if c.LastTerminationState.Terminated != nil {
		last = fmt.Sprint(c.LastTerminationState.Terminated.ExitCode)
	}
	return fmt.Sprintf("%s %s %s restarts=%d last=%s %s", r.Status.Phase, ready, state, c.RestartCount, last, r.Hold)
}

type lifeTest struct {
	policy corev1.RestartPolicy
	probe  *corev1.Probe
	faults []string // one after the other, each for up to 6 reports
	want   []string
}

func lives() map[string]lifeTest {
	const (
		creating = "Pending unready ContainerCreating restarts=0 last=- 20ms"
		runs     = "Running ready Running restarts=0 last=- 0s"
	)
	probe := &corev1.Probe{}
	return map[string]lifeTest{
		"healthy": {
			policy: corev1.RestartPolicyAlways, probe: probe, faults: []string{""}, want: []string{creating, runs},
		},
		"image pull fails, then heals": {
			policy: corev1.RestartPolicyAlways, probe: probe, faults: []string{"image-pull", ""}, want: []string{
				creating, "Pending unready ErrImagePull restarts=0 last=- 300ms",
				"Pending unready ImagePullBackOff restarts=0 last=- 0s", runs,
			},
		},
		"image is lost, then found": {
			policy: corev1.RestartPolicyAlways, probe: probe, faults: []string{"", "image-pull", ""}, want: []string{
				creating, runs, "Running unready ErrImagePull restarts=0 last=137 300ms",
				"Running unready ImagePullBackOff restarts=0 last=137 0s",
				"Running ready Running restarts=1 last=137 0s",
			},
		},
		"crash loop, then heals": {
			policy: corev1.RestartPolicyAlways, probe: probe, faults: []string{"crash-loop", ""}, want: []string{
				creating, "Running unready Running restarts=0 last=- 200ms",
				"Running unready Error(1) restarts=0 last=- 100ms",
				"Running unready CrashLoopBackOff restarts=0 last=1 250ms",
				"Running unready Running restarts=1 last=1 200ms",
				"Running unready Error(1) restarts=1 last=1 100ms", "Running ready Running restarts=2 last=1 0s",
			},
		},
		"out of memory, without a probe": {
			policy: corev1.RestartPolicyAlways, faults: []string{"oom"}, want: []string{
				creating, "Running ready Running restarts=0 last=- 200ms",
				"Running unready OOMKilled(137) restarts=0 last=- 100ms",
				"Running unready CrashLoopBackOff restarts=0 last=137 250ms",
				"Running ready Running restarts=1 last=137 200ms",
				"Running unready OOMKilled(137) restarts=1 last=137 100ms",
			},
		},
		"crash without a restart": {
			policy: corev1.RestartPolicyNever, faults: []string{"crash-loop"}, want: []string{
				creating, "Running ready Running restarts=0 last=- 200ms",
				"Failed unready Error(1) restarts=0 last=- 100ms",
				"Failed unready Error(1) restarts=0 last=- 0s",
			},
		},
		"not ready, then ready, then not": {
			policy: corev1.RestartPolicyAlways, faults: []string{"not-ready", "", "not-ready"}, want: []string{
				creating, "Running unready Running restarts=0 last=- 0s", runs,
				"Running unready Running restarts=0 last=- 0s",
			},
		},
		"slow": {
			policy: corev1.RestartPolicyAlways, faults: []string{"slow=70s"}, want: []string{
				creating, "Running unready Running restarts=0 last=- 1m10s", runs,
			},
		},
		"batch": {
			policy: corev1.RestartPolicyOnFailure, faults: []string{""}, want: []string{
				creating, "Running ready Running restarts=0 last=- 1s",
				"Succeeded unready Completed(0) restarts=0 last=- 100ms",
				"Succeeded unready Completed(0) restarts=0 last=- 0s",
			},
		},
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	for name, test := range lives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(test.policy, test.probe)
			for _, text := range test.faults {
				fault, err := ParseFault(text)
				if err != nil {
					t.Fatal(err)
				}
				l.live(fault, 6)
			}
			if !slices.Equal(l.lines, test.want) {
				t.Errorf("reports:\n%q\nwant:\n%q", l.lines, test.want)
			}
		})
	}
}

func TestTransitionTimeIsWhenTheStatusChanged(t *testing.T) {
	t.Parallel()
	l := newLife(corev1.RestartPolicyAlways, nil)
	l.live(Fault{kind: notReady}, 6)
	unready := conditionTime(t, l.pod.Status)
	l.now = l.now.Add(time.Minute)
	if l.live(Fault{kind: slow, delay: time.Hour}, 1); !conditionTime(t, l.pod.Status).Equal(unready) {
		t.Error("the condition Ready stayed False, yet its transition time moved")
	}
	if l.live(Fault{}, 1); !conditionTime(t, l.pod.Status).Equal(l.now) {
		t.Error("the condition Ready became True, yet its transition time is not now")
	}
}

func conditionTime(t *testing.T, status corev1.PodStatus) time.Time {
	t.Helper()
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	t.Fatal("no condition Ready")
	return time.Time{}
}

func TestStopEndsAllContainersInGoodOrder(t *testing.T) {
	t.Parallel()
	l := newLife(corev1.RestartPolicyAlways, nil)
	l.live(Fault{}, 6)
	got := line(Report{Status: Stop(l.pod, l.now)})
	if want := "Succeeded unready Completed(0) restarts=0 last=- 0s"; got != want {
		t.Errorf("last report %q, want %q", got, want)
	}
}

func TestParseFaultRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"image_pull", "slow", "slow=5", "slow=-1s", "oom=yes", "=x"} {
		if fault, err := ParseFault(text); err == nil {
			t.Errorf("ParseFault(%q) = %+v, want an error", text, fault)
		}
	}
}
