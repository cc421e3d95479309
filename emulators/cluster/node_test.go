//go:build unix

package cluster_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
)

// realNode is the node's name.
const realNode = "real-0"

// standIn stands for a node that runs containers: it registers itself as a kubelet does, and serves a kubelet's API
// through a CONNECT proxy. No container runs.
type standIn struct {
	client  *kubeclient.Client // the kubelet's
	network *kubeclient.Client
	socket  net.Listener
}

// startStandIn starts the node of a cluster.
func startStandIn(t *testing.T, c *cluster.Cluster, socket string) *standIn {
	t.Helper()
	s := &standIn{
		client:  userOf(t, c, "kubeconfig"),
		network: userOf(t, c, "network.kubeconfig"),
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(c.NodeFiles(), "kubelet.crt"),
		filepath.Join(c.NodeFiles(), "kubelet.key"))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(c.NodeFiles(), "client-ca.crt"))
	if err != nil || !clients.AppendCertsFromPEM(ca) {
		t.Fatalf("read client-ca.crt: %v", err)
	}
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "log of %s", r.URL.Path)
	}))
	kubelet.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	if s.socket, err = new(net.ListenConfig).Listen(t.Context(), "unix", socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.socket.Close() })
	go s.serve(kubelet.Listener.Addr().String())
	s.register(t)
	return s
}

// userOf returns the client of a kubeconfig of the node, which reaches the API server at its real address.
func userOf(t *testing.T, c *cluster.Cluster, kubeconfig string) *kubeclient.Client {
	t.Helper()
	config := clustertest.Config(t, filepath.Join(c.NodeFiles(), kubeconfig))
	config.Host = clustertest.Config(t, c.Kubeconfig).Host
	client, err := kubeclient.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// serve is the CONNECT proxy into the node's network, which has only the kubelet.
func (s *standIn) serve(kubelet string) {
	for {
		client, err := s.socket.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close() //nolint:errcheck // it has ended
			requests := bufio.NewReader(client)
			request, err := http.ReadRequest(requests)
			if err != nil || request.Host != "10.77.255.1:10250" {
				return // the cluster only tries whether the socket accepts connections
			}
			server, err := new(net.Dialer).DialContext(context.Background(), "tcp", kubelet)
			if err != nil {
				return
			}
			defer server.Close() //nolint:errcheck // it has ended
			_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
			go func() {
				_, _ = io.Copy(client, server)
				_ = client.Close()
			}()
			_, _ = io.Copy(server, requests)
		}()
	}
}

// register creates the node as a kubelet does.
func (s *standIn) register(t *testing.T) {
	t.Helper()
	nodes := s.client.Nodes()
	_, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: realNode, Labels: map[string]string{corev1.LabelHostname: realNode},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { // a controller may change the node in between
		node, err := nodes.Get(ctx, realNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
			corev1.ResourcePods: resource.MustParse("20"),
		}
		node.Status.Capacity = node.Status.Allocatable
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.77.255.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// runPod reports a pod as a kubelet does when its containers run. The server learns a moment after the binding that the
// kubelet may read the pod.
func (s *standIn) runPod(t *testing.T, namespace, name string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := s.client.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		_, err = s.client.Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func TestCluster_LetsANodeRunContainers(t *testing.T) {
	t.Parallel()
	socket, dir := filepath.Join(t.TempDir(), "node"), t.TempDir()
	started := clustertest.Start(t, cluster.Options{Kind: cluster.Real, Dir: dir, NodeSocket: socket, Nodes: 1})
	c, node := connect(t, started.Kubeconfig), startStandIn(t, started, socket)
	const namespace = "contained"
	c.namespace(t, namespace, nil)
	c.createAgent(t, namespace)
	c.awaitNode(t, namespace, realNode)
	node.runPod(t, namespace, "agent-0")

	logs := c.client.Subresource(namespace, "agent-0", "log", &corev1.PodLogOptions{})
	if log, err := logs.DoRaw(t.Context()); string(log) != "log of /containerLogs/contained/agent-0/main" {
		t.Errorf("log of the pod = %q (%v), want the one of the node's kubelet", log, err)
	}
	volumes, err := c.client.PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(volumes.Items) != 1 || volumes.Items[0].Spec.Local == nil {
		t.Fatalf("volumes = %+v (%v), want a local one", volumes, err)
	}
	path := volumes.Items[0].Spec.Local.Path
	if got := filepath.Dir(path); got != filepath.Join(dir, "volumes") {
		t.Errorf("the volume is in %s, want it in the cluster's directory", got)
	}
	t.Run("rights", func(t *testing.T) { testNodeRights(t, node) })

	c.annotate(t, namespace, `{"metadata":{"annotations":{"simulator.agents.example/fault":"image-pull"}}}`)
	c.endPod(t, node, namespace)
	c.awaitNode(t, namespace, "node-0")
	c.awaitPod(t, namespace, "without an image", func(s *corev1.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil &&
			s.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	c.annotate(t, namespace, `{"metadata":{"annotations":null}}`)
	c.awaitNode(t, namespace, realNode)
	node.runPod(t, namespace, "agent-0")

	if err := node.socket.Close(); err != nil {
		t.Fatal(err)
	}
	c.awaitPod(t, namespace, "not ready without its node", func(s *corev1.PodStatus) bool { return !ready(s) })
	clustertest.Eventually(t, func(ctx context.Context) error { return c.checkUnknown(ctx) })
	if err := c.client.Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		_, err := c.client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace of a node that is gone: error = %w, want not found", err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			return fmt.Errorf("directory of its volume: error = %w, want it removed", err)
		}
		return nil
	})
}

// endPod waits until the agent's pod on the node is deleted, and ends it as a kubelet does.
func (c *testCluster) endPod(t *testing.T, node *standIn, namespace string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := c.client.Pods(namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp == nil {
			return errors.Join(errors.New("the pod is not deleted"), err)
		}
		return node.client.Pods(namespace).Delete(ctx, "agent-0",
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	})
}

func (c *testCluster) annotate(t *testing.T, namespace, patch string) {
	t.Helper()
	_, err := c.client.Namespaces().Patch(t.Context(), namespace, "application/merge-patch+json",
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitNode waits until the agent's pod is bound to a node.
func (c *testCluster) awaitNode(t *testing.T, namespace, node string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := c.client.Pods(namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName != node {
			err = fmt.Errorf("the pod is on node %q, want %s: %+v", pod.Spec.NodeName, node, pod.Status.Conditions)
		}
		return err
	})
}

// checkUnknown checks that the node is reported as gone, and takes no pods.
func (c *testCluster) checkUnknown(ctx context.Context) error {
	node, err := c.client.Nodes().Get(ctx, realNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := node.Status.Conditions[0].Status; got != corev1.ConditionUnknown {
		return fmt.Errorf("condition Ready of a node without its socket = %s, want Unknown", got)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady {
		return fmt.Errorf("taints of a node without its socket = %+v, want not-ready", node.Spec.Taints)
	}
	return nil
}

// testNodeRights checks what the node's users may do.
func testNodeRights(t *testing.T, node *standIn) {
	read, all, user := metav1.ListOptions{}, metav1.NamespaceAll, node.network
	_, pods := user.Pods(all).List(t.Context(), read)
	_, nodes := user.Nodes().List(t.Context(), read)
	_, namespaces := user.Namespaces().List(t.Context(), read)
	_, services := user.Services(all).List(t.Context(), read)
	_, slices := user.EndpointSlices(all).List(t.Context(), read)
	_, policies := user.NetworkPolicies(all).List(t.Context(), read)
	if err := errors.Join(pods, nodes, namespaces, services, slices, policies); err != nil {
		t.Errorf("the user of the network cannot read what the network depends on: %v", err)
	}
	_, secrets := user.Secrets(all).List(t.Context(), read)
	deletion := user.Pods("contained").Delete(t.Context(), "agent-0",
		metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	_, kubeletSecrets := node.client.Secrets(all).List(t.Context(), read)
	_, otherNode := node.client.Nodes().Patch(t.Context(), "node-0", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"example.com/taken":"over"}}}`), metav1.PatchOptions{})
	for name, err := range map[string]error{
		"the user of the network lists secrets": secrets, "the user of the network deletes a pod": deletion,
		"the kubelet lists all secrets": kubeletSecrets, "the kubelet changes another node": otherNode,
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: error = %v, want forbidden", name, err)
		}
	}
}
