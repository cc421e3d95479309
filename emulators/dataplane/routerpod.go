//go:build unix

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/terraform/cell"
)

// routerName is the name of the router's Deployment and Service, and metricsPort the port of its metrics.
const (
	routerName  = "agent-router"
	metricsPort = "9090"
	// notifierURL is the router's variable with the URL of the notifier.
	notifierURL = "NOTIFIER_URL"
)

// RouterPodOptions configure StartRouterPod. All but Notifier are required.
type RouterPodOptions struct {
	// Kubeconfig is an administrator's.
	Kubeconfig string
	// Domain is the parent of the hostnames of the cell's agents.
	Domain string
	// Image is the reference of an image that the cluster's nodes can pull and that has the program /ko-app/router.
	Image string
	// Notifier is the address of the cell's notifier in the network of pods, which is no pod here; invalid if requests
	// wake no agent.
	Notifier netip.AddrPort
	// Dial connects to addresses in the network of pods, as the load balancer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// StartRouterPod runs the router as a pod of the cluster, from the same objects as in a cell of Google Cloud, and
// returns when it is ready. Agents' network policies admit only such a pod. The Router serves on the loopback interface
// as the load balancer does: it forwards connections to a pod that is ready. ctx bounds the start. Close leaves the pod
// to the cluster.
//
// There is one pod: the cluster has neither a controller of HorizontalPodAutoscalers nor one of PodDisruptionBudgets.
func StartRouterPod(ctx context.Context, o RouterPodOptions) (*Router, error) {
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	values := cell.Values{Domain: o.Domain, Environment: Environment, Image: o.Image}
	some := func(object *unstructured.Unstructured) bool {
		if !runsRouter(object) {
			return false
		}
		if object.GetName() == routerName {
			useNotifier(object, o.Notifier)
		}
		return true
	}
	if err := applyCell(ctx, o.Kubeconfig, values, some); err != nil {
		return nil, err
	}
	b, err := newBalancer(config, o.Dial)
	if err != nil {
		return nil, err
	}
	r, err := b.start(ctx, config)
	if err != nil {
		return nil, errors.Join(err, explain(ctx, config, routerName))
	}
	return r, nil
}

// runsRouter reports whether an object is one that the router's pod needs: it, its rights and its network policies.
func runsRouter(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "NetworkPolicy":
		return o.GetNamespace() == cell.GatewayNamespace
	case "Namespace":
		return o.GetName() == cell.GatewayNamespace
	case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "Service", "Deployment":
		return o.GetName() == routerName
	default:
		return false
	}
}

// useNotifier changes the router's Deployment and network policy so that it asks the notifier at an address.
func useNotifier(o *unstructured.Unstructured, at netip.AddrPort) {
	switch o.GetKind() {
	case "NetworkPolicy":
		egress, _, _ := unstructured.NestedSlice(o.Object, "spec", "egress") // it is one
		if at.IsValid() {
			egress = append(egress, map[string]any{
				"to": []any{map[string]any{
					"ipBlock": map[string]any{"cidr": netip.PrefixFrom(at.Addr(), at.Addr().BitLen()).String()},
				}},
				"ports": []any{map[string]any{"protocol": "TCP", "port": int64(at.Port())}},
			})
		}
		_ = unstructured.SetNestedSlice(o.Object, egress, "spec", "egress")
	case "Deployment":
		url := ""
		if at.IsValid() {
			url = "http://" + at.String()
		}
		setVariables(o, map[string]string{notifierURL: url})
	}
}

// explainTime bounds the request that explains why a start took too long.
const explainTime = 30 * time.Second

// explain says why no pod of a program is ready.
func explain(ctx context.Context, config *rest.Config, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	var pods corev1.PodList
	client, err := cellwatch.Client(config, name, cellwatch.Core())
	if err == nil {
		of := metav1.ListOptions{LabelSelector: labelName + "=" + name}
		err = client.Get().Namespace(cell.GatewayNamespace).Resource("pods").
			VersionedParams(&of, metav1.ParameterCodec).Do(ctx).Into(&pods)
	}
	if err != nil {
		return fmt.Errorf("list the pods of %s: %w", name, err)
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("%s has no pod; see the Events in namespace %s", name, cell.GatewayNamespace)
	}
	var reasons []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		reasons = append(reasons, fmt.Errorf("pod %s %s", pod.Name, waitingReason(pod)))
	}
	return errors.Join(reasons...)
}

// waitingReason says what a pod that is not ready waits for.
func waitingReason(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			reason := "waits: " + strings.TrimSpace(w.Reason+" "+w.Message)
			if t := c.LastTerminationState.Terminated; t != nil {
				reason += fmt.Sprintf(" (it ended with %s, exit code %d)", t.Reason, t.ExitCode)
			}
			return reason
		}
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("ended with %s, exit code %d", t.Reason, t.ExitCode)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "is not scheduled: " + c.Message
		}
	}
	return "is " + strings.ToLower(string(pod.Status.Phase)) + " and not ready"
}

// start starts watching and serving, and waits until a pod is ready.
func (b *balancer) start(ctx context.Context, config *rest.Config) (_ *Router, err error) {
	handler, err := b.metrics(config)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	end := func() {
		stop()
		parts.Wait()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	parts.Go(func() { b.watch(running) })
	if err := awaitTrue(ctx, func() bool { return b.choose() != "" }); err != nil {
		return nil, fmt.Errorf("wait for a pod of the router: %w", context.Cause(ctx))
	}
	traffic, err := listen(ctx, "")
	if err != nil {
		return nil, err
	}
	parts.Go(func() { b.serve(running, traffic) })
	metrics, err := listen(ctx, "")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: drainTime}
	parts.Go(func() { _ = server.Serve(metrics) }) // it returns when the server is closed
	parts.Go(func() {
		<-running.Done()
		_ = server.Close()
	})
	return &Router{
		Addr: traffic.Addr().String(), Metrics: "http://" + metrics.Addr().String() + "/metrics",
		Part: Part{close: func() error { end(); return nil }},
	}, nil
}

// metrics returns a handler that forwards to the metrics of a pod through the API server. The router's network policy
// admits only Managed Prometheus to them, and the node, from which the API server's requests come.
func (b *balancer) metrics(config *rest.Config) (http.Handler, error) {
	host, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			pod := "/api/v1/namespaces/" + cell.GatewayNamespace + "/pods/" + b.podName() + ":" + metricsPort
			r.SetURL(&url.URL{Scheme: host.Scheme, Host: host.Host, Path: pod + "/proxy"})
		},
	}, nil
}
