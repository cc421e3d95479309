package simulator

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator/realnode"
)

// listening returns a socket that accepts connections until the test ends.
func listening(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "node")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return socket
}

// absent returns a socket that a killed process left.
func absent(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "node")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	return socket
}

// newSimulator returns a simulator that knows objects and the node with a socket, and the image "process".
func newSimulator(t *testing.T, socket string, objects ...runtime.Object) *Simulator {
	t.Helper()
	client, err := kubeclient.NewFake(objects...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(client, Options{
		Dir: t.TempDir(), NodeSocket: socket, Images: map[string]string{"process": t.TempDir()},
		Block: netip.MustParsePrefix("127.98.0.0/16"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if pod, ok := o.(*corev1.Pod); ok {
			err = s.watched.pods.GetIndexer().Add(pod)
		}
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			err = s.watched.claims.GetIndexer().Add(claim)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func nodePod(node string, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Image: "agent"}}},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestRefuse_SendsPodsToTheNodeThatRunsThem(t *testing.T) {
	t.Parallel()
	const real, simulated = realnode.Name, "node-0"
	for name, test := range map[string]struct {
		socket string
		pod    func(*corev1.Pod)
		fault  string
		want   string
	}{
		"a pod needs containers":  {socket: "socket", want: real},
		"without a real node":     {want: simulated},
		"namespace with a fault":  {socket: "socket", fault: "image-pull", want: simulated},
		"system pod":              {socket: "socket", pod: func(p *corev1.Pod) { p.Namespace = "kube-system" }, want: simulated},
		"image of processes":      {socket: "socket", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "process" }, want: simulated},
		"no node takes the pod":   {socket: "socket", fault: "unschedulable", want: ""},
		"the same without a node": {fault: "unschedulable", want: ""},
	} {
		s := newSimulator(t, test.socket)
		s.faults.annotate("n", test.fault)
		pod, got := nodePod("", test.pod), ""
		for _, node := range []string{real, simulated} {
			if s.Refuse(pod, node) == "" {
				got += node
			}
		}
		if got != test.want {
			t.Errorf("%s: nodes for the pod = %q, want %q", name, got, test.want)
		}
	}
}

func TestSyncPod_LeavesPodsToTheirKubelet(t *testing.T) {
	t.Parallel()
	deleted := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(30))
		p.Finalizers = []string{"test/kept"} // the fake server refuses deleted objects without one
	}
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	for name, test := range map[string]struct {
		socket    func(*testing.T) string
		node      string
		change    func(*corev1.Pod)
		fault     string
		wantGone  bool
		wantReady corev1.ConditionStatus
	}{
		"runs": {
			socket: listening, node: realnode.Name, change: ready, wantReady: corev1.ConditionTrue,
		},
		"ends":              {socket: listening, node: realnode.Name, change: deleted},
		"ends with a fault": {socket: listening, node: realnode.Name, change: deleted, fault: "oom"},
		"namespace got a fault": {
			socket: listening, node: realnode.Name, change: ready, fault: "oom", wantGone: true,
		},
		"namespace lost its fault": {socket: listening, node: "node-0", change: ready, wantGone: true},
		"simulated for a fault":    {socket: listening, node: "node-0", change: ready, fault: "oom"},
		"node is gone": {
			socket: absent, node: realnode.Name, change: ready, wantReady: corev1.ConditionFalse,
		},
		"ended with its node": {socket: absent, node: realnode.Name, change: deleted, wantGone: true},
		"of an earlier run's node": {
			socket: func(*testing.T) string { return "" }, node: realnode.Name, change: ready, wantGone: true,
		},
		"ended with the earlier node": {
			socket: func(*testing.T) string { return "" }, node: realnode.Name, change: deleted, wantGone: true,
		},
	} {
		pod := nodePod(test.node, test.change)
		s := newSimulator(t, test.socket(t), pod)
		s.faults.annotate("n", test.fault)
		if err := s.syncPod(t.Context(), "n/p"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := s.client.Pods("n").Get(t.Context(), "p", metav1.GetOptions{})
		if gone := apierrors.IsNotFound(err); gone != test.wantGone {
			t.Errorf("%s: the pod is gone: %t, want %t", name, gone, test.wantGone)
		}
		if err == nil && test.wantReady != "" && readiness(got) != test.wantReady {
			t.Errorf("%s: ready = %s, want %s", name, readiness(got), test.wantReady)
		}
	}
}

func readiness(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}

func TestPod_IsNoneOfTheRealNode(t *testing.T) {
	t.Parallel()
	s := newSimulator(t, "socket", nodePod(realnode.Name, nil))
	if _, err := s.Pod(types.NamespacedName{Namespace: "n", Name: "p"}); !apierrors.IsNotFound(err) {
		t.Errorf("error = %v, want not found: another kubelet has the pod's log", err)
	}
}

func TestSyncRealNode_TaintsANodeThatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		socket      func(*testing.T) string
		ready       corev1.ConditionStatus // empty: not reported yet
		tainted     bool
		wantReady   corev1.ConditionStatus
		wantTainted bool
	}{
		"new": {socket: listening, tainted: true, wantTainted: true},
		"becomes ready": {
			socket: listening, ready: corev1.ConditionTrue, tainted: true, wantReady: corev1.ConditionTrue,
		},
		"stays ready": {socket: listening, ready: corev1.ConditionTrue, wantReady: corev1.ConditionTrue},
		"is not ready": {
			socket: listening, ready: corev1.ConditionFalse, wantReady: corev1.ConditionFalse, wantTainted: true,
		},
		"is gone": {
			socket: absent, ready: corev1.ConditionTrue, wantReady: corev1.ConditionUnknown, wantTainted: true,
		},
		"never existed": {
			socket: func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") },
			ready:  corev1.ConditionTrue, wantReady: corev1.ConditionUnknown, wantTainted: true,
		},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: realnode.Name}}
		other := corev1.Taint{Key: "example.com/other", Effect: corev1.TaintEffectNoExecute}
		node.Spec.Taints = []corev1.Taint{other}
		if test.tainted {
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		if test.ready != "" {
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
				{Type: corev1.NodeReady, Status: test.ready},
			}
		}
		s := newSimulator(t, test.socket(t), node)
		if err := s.syncRealNode(t.Context(), realnode.Name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := s.client.Nodes().Get(t.Context(), realnode.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Spec.Taints) == 0 || got.Spec.Taints[0] != other {
			t.Errorf("%s: taints = %v, want the other taint kept", name, got.Spec.Taints)
		}
		if tainted := len(got.Spec.Taints) > 1; tainted != test.wantTainted {
			t.Errorf("%s: tainted as not ready: %t, want %t", name, tainted, test.wantTainted)
		}
		if test.wantReady != "" && got.Status.Conditions[1].Status != test.wantReady {
			t.Errorf("%s: Ready = %s, want %s", name, got.Status.Conditions[1].Status, test.wantReady)
		}
	}
}

func TestSyncClaim_MakesDirectoriesThatContainersCanMount(t *testing.T) {
	t.Parallel()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "data", UID: "c", Annotations: map[string]string{annotationProvisioner: provisioner},
		},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		}},
	}
	s := newSimulator(t, "socket", claim)
	if err := s.syncClaim(t.Context(), "n/data"); err != nil {
		t.Fatal(err)
	}
	volume, err := s.client.PersistentVolumes().Get(t.Context(), "pvc-c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(s.options.Dir, "volumes", "pvc-c")
	if volume.Spec.Local == nil || volume.Spec.Local.Path != want || volume.Spec.CSI != nil {
		t.Fatalf("source of the volume = %+v, want the local directory %s", volume.Spec.PersistentVolumeSource, want)
	}
	if volume.Spec.NodeAffinity == nil {
		t.Error("the volume has no affinity, which a local volume must have")
	}
	if _, err := os.Stat(want); err != nil {
		t.Errorf("directory of the volume: %v", err)
	}
	if err := s.syncVolume(t.Context(), "pvc-c"); err != nil { // the volume is in no cache, as if it was deleted
		t.Fatal(err)
	}
	if _, err := os.Stat(want); !os.IsNotExist(err) {
		t.Errorf("directory of a deleted volume: error = %v, want it removed", err)
	}
}

func TestSyncClaim_SimulatesVolumesWithoutARealNode(t *testing.T) {
	t.Parallel()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "data", UID: "c", Annotations: map[string]string{annotationProvisioner: provisioner},
	}}
	s := newSimulator(t, "", claim)
	if err := s.syncClaim(t.Context(), "n/data"); err != nil {
		t.Fatal(err)
	}
	volume, err := s.client.PersistentVolumes().Get(t.Context(), "pvc-c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if volume.Spec.CSI == nil {
		t.Errorf("source of the volume = %+v, want a simulated one", volume.Spec.PersistentVolumeSource)
	}
}
