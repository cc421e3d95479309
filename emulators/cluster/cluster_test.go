//go:build unix

package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
)

// testCluster is a running cluster with an administrator's client. Each test uses a separate namespace.
type testCluster struct {
	config *rest.Config
	client *kubeclient.Client
}

// connect connects to the cluster of a kubeconfig.
func connect(t *testing.T, kubeconfig string) *testCluster {
	t.Helper()
	return &testCluster{config: clustertest.Config(t, kubeconfig), client: clustertest.Client(t, kubeconfig)}
}

func (c *testCluster) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.client.Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { // pods need the service account
		_, err := c.client.ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func TestCluster_BehavesLikeKubernetes(t *testing.T) {
	t.Parallel()
	c := connect(t, shared.Start(t).Kubeconfig)
	for name, test := range map[string]func(*testing.T, *testCluster){
		"agent runs and is deleted":   testAgent,
		"pod security is enforced":    testPodSecurity,
		"HTTP routes are validated":   testGateway,
		"faults break and heal pods":  testFaults,
		"fault before its namespace":  testFaultBeforeNamespace,
		"runtime classes are checked": testRuntimeClass,
		"volumes expand":              testVolumeExpands,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

func testPodSecurity(t *testing.T, c *testCluster) {
	const namespace = "restricted"
	c.namespace(t, namespace, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	pod := podOf(corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "example/agent:v1", SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
	}}})
	_, err := c.client.Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("creation of a privileged pod: error = %v, want Forbidden by Pod Security", err)
	}
}

func testGateway(t *testing.T, c *testCluster) {
	const namespace = "routed"
	c.namespace(t, namespace, nil)
	if clustertest.Kind() == cluster.Embedded {
		t.Skip("the embedded API server has no custom resources")
	}
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	version := schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}
	routes := client.Resource(version.WithResource("httproutes")).Namespace(namespace)
	create := func(name, host string) error {
		route := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"parentRefs": []any{map[string]any{"name": "edge"}}, "hostnames": []any{host},
		}}}
		route.SetGroupVersionKind(version.WithKind("HTTPRoute"))
		route.SetName(name)
		_, err := routes.Create(t.Context(), route, metav1.CreateOptions{})
		return err
	}
	if err := create("agent", "agent.example.test"); err != nil {
		t.Fatal(err)
	}
	if err := create("wrong", "not a host"); !apierrors.IsInvalid(err) {
		t.Errorf("creation of a route with an invalid host: error = %v, want Invalid", err)
	}
}

func testRuntimeClass(t *testing.T, c *testCluster) {
	const namespace = "sandboxed"
	c.namespace(t, namespace, nil)
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/agent:v1"}}}
	for class, known := range map[string]bool{"gvisor": true, "kata": false} {
		pod := podOf(spec)
		pod.Name, pod.Spec.RuntimeClassName = class, &class
		if _, err := c.client.Pods(namespace).Create(t.Context(), pod,
			metav1.CreateOptions{}); (err == nil) != known {
			t.Errorf("creation of a pod with RuntimeClass %s: error = %v, want success: %t", class, err, known)
		}
	}
}

// TestClose_KeepsState restarts the embedded control plane; TestCluster_RunsImagesAsProcesses the real one, too.
func TestClose_KeepsState(t *testing.T) {
	t.Parallel()
	options := cluster.Options{Dir: t.TempDir(), Kind: cluster.Embedded}
	before := clustertest.Start(t, options)
	connect(t, before.Kubeconfig).namespace(t, "kept", nil)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	after := connect(t, clustertest.Start(t, options).Kubeconfig)
	if _, err := after.client.Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestCluster_DiesWithItsParent kills a parent process, which thus cannot end its cluster.
func TestCluster_DiesWithItsParent(t *testing.T) {
	t.Parallel()
	clustertest.Require(t)
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+t.TempDir())
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the parent printed no kubeconfig: %v; it exited with %v", err, parent.Wait())
	}
	server, err := url.Parse(connect(t, strings.TrimSpace(line)).config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := dial(t.Context(), server.Host); err != nil {
		t.Fatalf("the cluster does not answer: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // reports the kill
	clustertest.Eventually(t, func(ctx context.Context) error {
		if dial(ctx, server.Host) == nil {
			return fmt.Errorf("the API server at %s still listens", server.Host)
		}
		return nil
	})
}

func dial(ctx context.Context, address string) error {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

func TestShared_ClosesWithoutStart(t *testing.T) {
	t.Parallel()
	if err := new(clustertest.Shared).Close(); err != nil {
		t.Errorf("Close of a cluster that no test started: %v", err)
	}
}

func TestKind_RoundTripsAsText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]cluster.Kind{
		"": cluster.Embedded, "embedded": cluster.Embedded, "real": cluster.Real,
	} {
		var kind cluster.Kind
		if err := kind.UnmarshalText([]byte(text)); err != nil || kind != want {
			t.Errorf("kind of %q = %q, %v; want %q", text, kind, err, want)
		}
		if back, err := kind.MarshalText(); err != nil || string(back) != string(want) {
			t.Errorf("text of %q = %q, %v", kind, back, err)
		}
	}
	if err := new(cluster.Kind).UnmarshalText([]byte("fake")); err == nil {
		t.Error("the kind fake is accepted")
	}
}

func TestStart_RefusesOptionsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]cluster.Options{
		"Dir is empty":  {},
		"unknown kind":  {Dir: t.TempDir(), Kind: "fake"},
		"needs a real ": {Dir: t.TempDir(), NodeSocket: "node.sock"},
	} {
		if _, err := cluster.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}

func TestCluster_EndsWithItsControlPlane(t *testing.T) {
	t.Parallel()
	clustertest.RequireKind(t, cluster.Real)
	c, err := cluster.Start(t.Context(), cluster.Options{Kind: cluster.Real, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error of Close = %v, want how the control plane ended", err)
	}
}
