package podworker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/simulator/kubelet"
)

const image = "example/agent:v1"

// TestMain makes the test binary the program of the image: containers run it under other names.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "entrypoint":
		os.Exit(agent())
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignores SIGTERM")
		select {}
	case "failing":
		os.Exit(7)
	}
	goleak.VerifyTestMain(m)
}

// agent listens on PORT until SIGTERM.
func agent() int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	listener, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		_ = http.Serve(listener, http.NotFoundHandler()) //nolint:gosec // for a test
	}()
	fmt.Println("listens")
	<-ctx.Done()
	return 0
}

// noObjects is a namespace without objects.
type noObjects struct{ Objects }

// node runs one pod with a runtime, as the simulator does.
type node struct {
	runtime *Runtime
	wakes   chan struct{}
	pod     *corev1.Pod
	fault   kubelet.Fault
	now     time.Time // moves only while a step holds the pod
}

func newNode(t *testing.T, container corev1.Container) *node {
	t.Helper()
	programs := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"entrypoint", "stubborn", "failing"} {
		if err := os.Symlink(self, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{wakes: make(chan struct{}, 1), now: time.Now()}
	n.runtime, err = New(Options{
		Images: map[string]string{image: programs}, Dir: t.TempDir(), Objects: noObjects{},
		Block: netip.MustParsePrefix("127.99.0.0/16"), HostIP: "127.99.0.1",
		Wake: func(types.NamespacedName) {
			select {
			case n.wakes <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.runtime.Close)
	container.Name, container.Image = "main", image
	n.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{container}},
	}
	return n
}

// until steps until the pod is in a state.
func (n *node) until(t *testing.T, state string, reached func(Report) bool) Report {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		report, err := n.runtime.Step(t.Context(), n.pod, kubelet.Moment{Fault: n.fault, Now: n.now})
		if err != nil {
			t.Fatal(err)
		}
		n.pod = n.pod.DeepCopy()
		n.pod.Status = report.Status
		if reached(report) {
			return report
		}
		select {
		case <-time.After(10 * time.Millisecond): // what a test waits for need not wake the node
			n.now = n.now.Add(report.Hold)
		case <-n.wakes:
		case <-limit:
			t.Fatalf("the pod is not %s: %+v", state, report.Status.ContainerStatuses)
		}
	}
}

func (n *node) status() corev1.ContainerStatus { return n.pod.Status.ContainerStatuses[0] }

// log returns the log file of the run that the status names.
func (n *node) log(t *testing.T) string {
	t.Helper()
	log, ok := n.runtime.Log(types.NamespacedName{Namespace: "n", Name: "p"}, n.status().ContainerID)
	if !ok {
		t.Fatal("the container has no log")
	}
	text, err := os.ReadFile(log.Path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func ready(r Report) bool { return r.Status.ContainerStatuses[0].Ready }

func listening() corev1.Container {
	return corev1.Container{
		Env: []corev1.EnvVar{{Name: "PORT", Value: "3000"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 3600, ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: portOf(3000)},
		}},
	}
}

func TestStep_MakesAPodReadyWithoutWaitingForAPeriod(t *testing.T) {
	t.Parallel()
	n := newNode(t, listening())
	n.until(t, "ready", ready) // the probe's period is longer than the test waits
	if n.pod.Status.Phase != corev1.PodRunning || !strings.HasPrefix(n.pod.Status.PodIP, "127.99.1.") {
		t.Errorf("phase %s, address %s", n.pod.Status.Phase, n.pod.Status.PodIP)
	}
}

func TestStep_KillsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	n := newNode(t, corev1.Container{Command: []string{"stubborn"}})
	n.until(t, "running", func(r Report) bool { return r.Status.ContainerStatuses[0].State.Running != nil })
	n.until(t, "deaf to SIGTERM", func(Report) bool { return strings.Contains(n.log(t), "ignores SIGTERM") })
	n.pod.DeletionTimestamp, n.pod.DeletionGracePeriodSeconds = &metav1.Time{Time: n.now}, new(int64(1))
	begin := n.now
	n.until(t, "ended", func(r Report) bool { return r.Ended })
	if took := n.now.Sub(begin); took < time.Second {
		t.Errorf("the pod ended after %s, want a grace period of a second", took)
	}
	if got := n.status().State.Terminated; got == nil || got.ExitCode != exitCodeKilled {
		t.Errorf("state %+v, want exit code %d", n.status().State, exitCodeKilled)
	}
}

func TestStep_BacksOffLongerAfterEachFailure(t *testing.T) {
	t.Parallel()
	n := newNode(t, corev1.Container{Command: []string{"failing"}})
	var waits []time.Duration
	for restarts := range int32(3) {
		n.until(t, "waiting", func(r Report) bool {
			c := r.Status.ContainerStatuses[0]
			if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" || c.RestartCount != restarts {
				return false
			}
			waits = append(waits, r.Hold)
			return true
		})
	}
	if last := n.status().LastTerminationState.Terminated; last == nil || last.ExitCode != 7 {
		t.Errorf("last state %+v, want exit code 7", n.status().LastTerminationState)
	}
	if waits[1] <= waits[0] || waits[2] <= waits[1] {
		t.Errorf("back-offs %v, want each longer than the one before", waits)
	}
}

func TestStep_ReportsAProgramThatIsNotInTheImage(t *testing.T) {
	t.Parallel()
	n := newNode(t, corev1.Container{Command: []string{"/bin/sh"}})
	n.until(t, "unable to start", func(r Report) bool {
		last := r.Status.ContainerStatuses[0].State.Terminated
		return last != nil && last.Reason == "StartError" && strings.Contains(last.Message, "sh")
	})
}

func TestForget_KillsAndReleases(t *testing.T) {
	t.Parallel()
	n := newNode(t, corev1.Container{Command: []string{"stubborn"}})
	n.until(t, "running", func(r Report) bool { return r.Status.ContainerStatuses[0].State.Running != nil })
	w := n.runtime.workers[types.NamespacedName{Namespace: "n", Name: "p"}]
	n.runtime.Forget(types.NamespacedName{Namespace: "n", Name: "p"})
	if w.runs() {
		t.Error("the process still runs")
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("the pod's directory remains: %v", err)
	}
	if n.runtime.addresses.taken[w.address] {
		t.Error("the pod's address is still taken")
	}
}

func TestStep_ReplacesAPodOfTheSameName(t *testing.T) {
	t.Parallel()
	n := newNode(t, listening())
	n.until(t, "ready", ready)
	first := n.pod.Status.PodIP
	n.pod = n.pod.DeepCopy()
	n.pod.UID, n.pod.Status = "other", corev1.PodStatus{}
	n.until(t, "ready", func(r Report) bool { return len(r.Status.ContainerStatuses) > 0 && ready(r) })
	if n.pod.Status.PodIP == first {
		t.Errorf("the new pod has the address %s of the old one", first)
	}
}
