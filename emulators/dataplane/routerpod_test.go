//go:build unix

package dataplane_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/kubeclient"
)

func TestMain(m *testing.M) {
	clustertest.Prepare()
	os.Exit(m.Run())
}

// image is the image of the router's pod.
const image = "agents.localhost/platform@sha256:" + "1111111111111111111111111111111111111111111111111111111111111111"

// The namespace and labels of the router, as in terraform/cell.
const (
	gateway   = "agent-gateway"
	ofRouters = "app.kubernetes.io/name=agent-router"
)

// pods is a network in which every address leads to one server.
type pods struct {
	server *httptest.Server

	mu     sync.Mutex
	dialed []string
}

func newPods(t *testing.T) *pods {
	p := &pods{server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		fmt.Fprint(w, req.Host, " ", string(body))
	}))}
	t.Cleanup(p.server.Close)
	return p
}

func (p *pods) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	p.dialed = append(p.dialed, address)
	p.mu.Unlock()
	return new(net.Dialer).DialContext(ctx, network, p.server.Listener.Addr().String())
}

// last is the address of the last connection.
func (p *pods) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dialed) == 0 {
		return ""
	}
	return p.dialed[len(p.dialed)-1]
}

// routerPod returns the only pod of the router that is not being deleted.
func routerPod(ctx context.Context, c *kubeclient.Client) (*corev1.Pod, error) {
	all, err := c.Pods(gateway).List(ctx, metav1.ListOptions{LabelSelector: ofRouters})
	if err != nil {
		return nil, err
	}
	var found []*corev1.Pod
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			found = append(found, &all.Items[i])
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d pods of the router, want 1", len(found))
	}
	return found[0], nil
}

// ask sends a request to an agent's hostname by way of the router.
func ask(ctx context.Context, r *dataplane.Router) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.Addr+"/", strings.NewReader("hello"))
	if err != nil {
		return "", err
	}
	req.Host, req.Close = "bot.local", true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // the body is read
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// The pods of this cluster run no container, so the test serves in their place.
func TestStartRouterPod(t *testing.T) {
	k := clustertest.Start(t, cluster.Options{})
	c := clustertest.Client(t, k.Kubeconfig)
	t.Run("says why its pod is not ready", func(t *testing.T) { testReasons(t, k, c) })
	t.Run("forwards to a pod that is ready", func(t *testing.T) { testForwarding(t, k, c) })
}

// The faults follow each other without a pod that is ready, so that every start waits.
func testReasons(t *testing.T, k *cluster.Cluster, c *kubeclient.Client) {
	declare := func(fault cluster.Fault) {
		t.Helper()
		_, err := c.ConfigMaps(cluster.FaultsNamespace).Patch(context.WithoutCancel(t.Context()),
			cluster.FaultsConfigMap, types.MergePatchType, cluster.FaultPatch(gateway, fault),
			metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	defer declare("")
	for _, row := range []struct {
		fault cluster.Fault
		want  string
	}{
		{cluster.ImagePull, "ImagePull"},
		{cluster.CrashLoop, "exit code 1"},
		{cluster.Unschedulable, "is not scheduled"},
	} {
		declare(row.fault)
		timeout := errors.New("too slow")
		clustertest.Eventually(t, func(ctx context.Context) error { // the pod may have no reason in time
			ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, timeout)
			defer cancel()
			_, err := dataplane.StartRouterPod(ctx, dataplane.RouterPodOptions{
				Kubeconfig: k.Kubeconfig, Domain: "local", Image: image, Dial: newPods(t).dial,
			})
			if !errors.Is(err, timeout) || !strings.Contains(err.Error(), row.want) {
				return fmt.Errorf("%s: error %w, want the timeout and %q", row.fault, err, row.want)
			}
			return nil
		})
	}
}

func testForwarding(t *testing.T, k *cluster.Cluster, c *kubeclient.Client) {
	network := newPods(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := dataplane.StartRouterPod(ctx, dataplane.RouterPodOptions{
		Kubeconfig: k.Kubeconfig, Domain: "local", Image: image, Dial: network.dial,
		Notifier: netip.MustParseAddrPort("10.99.0.20:8080"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := ask(ctx, r); err == nil {
			t.Error("the router answers after its end")
		}
	}()
	checkObjects(t, c)
	answers := func(ctx context.Context) error { return checkAnswer(ctx, c, network, r) }
	clustertest.Eventually(t, answers)
	first, err := routerPod(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Pods(gateway).Delete(ctx, first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, answers)
	second, err := routerPod(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if first.Status.PodIP == second.Status.PodIP {
		t.Errorf("both pods have the address %s, want two addresses", first.Status.PodIP)
	}
}

// checkAnswer checks that a request to the router is answered by its pod.
func checkAnswer(ctx context.Context, c *kubeclient.Client, network *pods, r *dataplane.Router) error {
	pod, err := routerPod(ctx, c)
	if err != nil {
		return err
	}
	got, err := ask(ctx, r)
	if err != nil {
		return err
	}
	if want := "bot.local hello"; got != want {
		return fmt.Errorf("answer %q, want %q", got, want)
	}
	if got, want := network.last(), net.JoinHostPort(pod.Status.PodIP, "8080"); got != want {
		return fmt.Errorf("connected to %s, want %s", got, want)
	}
	return nil
}

// checkObjects checks that the pod is the one of a real cell, behind its network policies.
func checkObjects(t *testing.T, c *kubeclient.Client) {
	t.Helper()
	deployed, err := c.Deployments(gateway).Get(t.Context(), "agent-router", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := deployed.Spec.Template.Spec
	if got := pod.Containers[0].Image; got != image || pod.ServiceAccountName != "agent-router" {
		t.Errorf("image %s and account %s, want %s and agent-router", got, pod.ServiceAccountName, image)
	}
	var urls []string
	for _, e := range pod.Containers[0].Env {
		if e.Name == "NOTIFIER_URL" {
			urls = append(urls, e.Value)
		}
	}
	if want := []string{"http://10.99.0.20:8080"}; !slices.Equal(urls, want) {
		t.Errorf("the router asks the notifier at %q, want %q", urls, want)
	}
	admitted, err := c.NetworkPolicies(gateway).Get(t.Context(), "agent-router", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := admitted.Spec.Egress[len(admitted.Spec.Egress)-1]
	if to := last.To[0].IPBlock; to == nil || to.CIDR != "10.99.0.20/32" || last.Ports[0].Port.IntValue() != 8080 {
		t.Errorf("the last rule for what the router may reach is %+v, want the notifier's address", last)
	}
	for _, policy := range []string{"default-deny", "agent-router", "dns"} {
		_, err := c.NetworkPolicies(gateway).Get(t.Context(), policy, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
		}
	}
	notifier, err := c.Deployments(gateway).List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name!=agent-router"})
	if err != nil {
		t.Fatal(err)
	}
	if len(notifier.Items) != 0 { // none of the notifier, which runs elsewhere
		t.Errorf("%d other Deployments are applied, want none", len(notifier.Items))
	}
}
