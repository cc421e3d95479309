// Package gateway emulates the data plane: the Gateway that routes hostnames to agents, and the agents themselves, as
// far as the control plane depends on their image. It watches the cluster: it serves a hostname when an HTTPRoute
// claims it and the pod behind it is ready, and it accepts the credentials that the pod was started with. It does not
// know the control plane.
package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Options configure Start.
type Options struct {
	// Addr is the address to listen on; empty is a free port on the loopback interface.
	Addr string
	// Kubeconfig is the file that gives access to the cluster.
	Kubeconfig string
	// KeysURL serves the public keys that verify dashboard links. Without it the gateway refuses every link.
	KeysURL string
}

// Gateway is a running gateway.
type Gateway struct {
	// Addr is the address on which it listens.
	Addr string

	server  *http.Server
	client  kubernetes.Interface
	pods    cache.SharedIndexInformer
	routes  cache.SharedIndexInformer
	stop    context.CancelFunc
	started sync.WaitGroup
	links   links

	counters counters

	mu sync.RWMutex
	// environments holds, for each running pod, the environment its container was started with.
	environments map[types.UID]map[string]string
}

// Indexes of routes and pods.
const (
	byHostname  = "hostname"
	byNamespace = cache.NamespaceIndex
)

// Start watches the cluster and serves. ctx bounds the start.
func Start(ctx context.Context, o Options) (*Gateway, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("gateway: read the kubeconfig: %w", err)
	}
	config.QPS = -1
	g := &Gateway{
		environments: map[types.UID]map[string]string{},
		links:        links{keysURL: o.KeysURL, redeemed: map[string]time.Time{}, sessions: map[string]string{}},
	}
	if err := g.watchCluster(ctx, config); err != nil {
		return nil, err
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		g.stop()
		g.started.Wait()
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.Addr = listener.Addr().String()
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	g.started.Go(func() { _ = g.server.Serve(listener) }) // ends with ErrServerClosed
	return g, nil
}

// Close stops serving and watching.
func (g *Gateway) Close() error {
	err := g.server.Close()
	g.stop()
	g.started.Wait()
	return err
}

// routeResource is the resource that claims hostnames.
func routeResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
}

func (g *Gateway) watchCluster(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.client, g.stop = client, stop
	g.pods = informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	g.routes = dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0).ForResource(routeResource()).Informer()
	if err := g.routes.AddIndexers(cache.Indexers{byHostname: hostnames}); err != nil {
		stop()
		return fmt.Errorf("gateway: %w", err)
	}
	if _, err := g.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { g.rememberEnvironment(run, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { g.rememberEnvironment(run, o.(*corev1.Pod)) },
		DeleteFunc: g.forgetPod,
	}); err != nil {
		stop()
		return fmt.Errorf("gateway: %w", err)
	}
	g.started.Go(func() { g.pods.RunWithContext(run) })
	g.started.Go(func() { g.routes.RunWithContext(run) })
	if !cache.WaitForCacheSync(ctx.Done(), g.pods.HasSynced, g.routes.HasSynced) {
		stop()
		g.started.Wait()
		return fmt.Errorf("gateway: read routes and pods from the cluster: %w", ctx.Err())
	}
	return nil
}

// rememberEnvironment stores the environment of a container that has started. Later changes reach only the next pod.
func (g *Gateway) rememberEnvironment(ctx context.Context, pod *corev1.Pod) {
	g.mu.RLock()
	_, known := g.environments[pod.UID]
	g.mu.RUnlock()
	if known || !ready(pod) || len(pod.Spec.Containers) == 0 {
		return
	}
	env := map[string]string{}
	for _, source := range pod.Spec.Containers[0].EnvFrom {
		if err := g.readEnvironment(ctx, pod.Namespace, source, env); err != nil {
			return // the namespace is being deleted
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.environments[pod.UID] = env
}

func (g *Gateway) readEnvironment(ctx context.Context, namespace string, source corev1.EnvFromSource,
	env map[string]string,
) error {
	if ref := source.ConfigMapRef; ref != nil {
		m, err := g.client.CoreV1().ConfigMaps(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for k, v := range m.Data {
			env[k] = v
		}
	}
	if ref := source.SecretRef; ref != nil {
		s, err := g.client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for k, v := range s.Data {
			env[k] = string(v)
		}
	}
	return nil
}

func (g *Gateway) forgetPod(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		g.counters.forget(pod.UID)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.environments, pod.UID)
	}
}

func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
