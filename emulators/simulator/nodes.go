package simulator

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// EnsureNodes creates count nodes and the default storage class. It keeps the nodes of an earlier run.
func (s *Simulator) EnsureNodes(ctx context.Context, count int) error {
	if count < 1 {
		return fmt.Errorf("cannot simulate %d nodes: want 1 or more", count)
	}
	version, err := s.serverVersion(ctx)
	if err != nil {
		return err
	}
	for i := range count {
		if err := s.ensureNode(ctx, i, version); err != nil {
			return fmt.Errorf("make node %s: %w", nodeName(i), err)
		}
	}
	return s.ensureStorageClass(ctx)
}

// serverVersion returns the version of the API server, which kubelets share.
func (s *Simulator) serverVersion(ctx context.Context) (string, error) {
	text, err := s.client.REST().Get().AbsPath("/version").DoRaw(ctx)
	var version struct{ GitVersion string }
	if err == nil {
		err = json.Unmarshal(text, &version)
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the API server: %w", err)
	}
	return version.GitVersion, nil
}

func (s *Simulator) ensureNode(ctx context.Context, i int, version string) error {
	node, err := s.client.Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
			corev1.LabelHostname: nodeName(i), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelInstanceTypeStable: "simulated",
			corev1.LabelTopologyRegion:     "local", corev1.LabelTopologyZone: fmt.Sprintf("local-%c", 'a'+rune(i%3)),
		}}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of an earlier run, when the kubelets listened elsewhere
		node, err = s.client.Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("256"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"), corev1.ResourcePods: resource.MustParse("10000"),
	}
	node.Status = corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message:           "kubelet is simulated",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: s.options.Kubelets.Addr().String()},
			{Type: corev1.NodeHostName, Address: nodeName(i)},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{
			KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(s.options.Kubelets.Port())},
		},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: version, ContainerRuntimeVersion: "simulated://1",
			OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	if _, err := s.client.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	// Admission taints every new node as not ready. The controller that removes the taint, node-lifecycle-controller,
	// does not run.
	_, err = s.client.Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`),
		metav1.PatchOptions{})
	return err
}

// ignoreGone drops the errors for objects that changed or disappeared in between: their next event is on the way.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
