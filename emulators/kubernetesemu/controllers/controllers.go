// Package controllers brings the embedded Kubernetes to what its objects ask for: it empties deleted namespaces,
// collects garbage, keeps the pods of workloads and the endpoints of services, binds claims, counts quotas and
// schedules pods. It runs no pods; package simulator does.
package controllers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/registry"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const (
	// workers is how many tasks are done concurrently. The store's lock orders their writes anyway.
	workers = 4
	// retryMin and retryMax bound the wait before a failed task is done again. It doubles.
	retryMin, retryMax = 5 * time.Millisecond, 2 * time.Second
)

// Options configure New.
type Options struct {
	// CA is the certificate of the API server's authority, which every namespace has in a ConfigMap.
	CA string
	// Refuse returns why a node does not take a pod; empty if it does. It may be nil.
	Refuse func(pod *corev1.Pod, node string) (reason string)
}

// Controllers are the controllers of one cluster.
type Controllers struct {
	registry *registry.Registry
	catalog  *kinds.Catalog
	options  Options
	queue    workqueue.TypedRateLimitingInterface[task]
	owners   owners
	nodes    nodes
}

// task is an object that a controller looks at.
type task struct {
	controller controller
	kind       *kinds.Kind // of an object; the controllers of one kind leave it out
	key        store.Key
}

// controller names a controller, as the users and events of Kubernetes do.
type controller string

const (
	namespaces    controller = "namespace-controller"
	garbage       controller = "generic-garbage-collector"
	statefulSets  controller = "statefulset-controller"
	replicaSets   controller = "replicaset-controller"
	deployments   controller = "deployment-controller"
	endpoints     controller = "endpointslice-controller"
	claims        controller = "persistent-volume-binder"
	volumes       controller = "pv-protection-controller"
	quotas        controller = "resourcequota-controller"
	scheduler     controller = "default-scheduler"
	expiredEvents controller = "event-expiry"
)

// New returns the controllers of a registry, whose store passes its changes to Observe.
func New(r *registry.Registry, o Options) *Controllers {
	return &Controllers{
		registry: r, catalog: r.Catalog, options: o, owners: owners{}, nodes: newNodes(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[task](retryMin, retryMax)),
	}
}

// Run works until ctx ends.
func (c *Controllers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	c.queue.AddAfter(task{controller: expiredEvents}, eventSweep)
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
}

// next does one task and reports whether there may be more.
func (c *Controllers) next(ctx context.Context) bool {
	t, quit := c.queue.Get()
	if quit {
		return false
	}
	defer c.queue.Done(t)
	err := c.do(t)
	switch {
	case err == nil, ctx.Err() != nil:
		c.queue.Forget(t)
	default:
		if !apierrors.IsConflict(err) {
			slog.Debug("controller retries", "controller", t.controller, "namespace", t.key.Namespace,
				"name", t.key.Name, "error", err)
		}
		c.queue.AddRateLimited(t)
	}
	return true
}

func (c *Controllers) do(t task) error {
	switch t.controller {
	case namespaces:
		return c.syncNamespace(t.key.Name)
	case garbage:
		return c.collect(t.kind, t.key)
	case statefulSets:
		return c.syncStatefulSet(t.key)
	case replicaSets:
		return c.syncReplicaSet(t.key)
	case deployments:
		return c.syncDeployment(t.key)
	case endpoints:
		return c.syncEndpoints(t.key)
	case claims:
		return c.syncClaim(t.key)
	case volumes:
		return c.syncVolume(t.key)
	case quotas:
		return c.syncQuotas(t.key.Namespace)
	case scheduler:
		return c.schedule(t.key)
	case expiredEvents:
		return c.removeExpiredEvents()
	}
	return nil
}

func (c *Controllers) add(name controller, key store.Key) {
	c.queue.Add(task{controller: name, key: key})
}

// as returns a request of a controller.
func (c *Controllers) as(name controller, k *kinds.Kind, key store.Key, subresource string) registry.Request {
	account := "system:serviceaccount:" + metav1.NamespaceSystem + ":" + string(name)
	return registry.Request{
		User: authenticationv1.UserInfo{
			Username: account, Groups: []string{
				"system:serviceaccounts", "system:serviceaccounts:" + metav1.NamespaceSystem, "system:authenticated",
			},
		},
		Kind: k, Key: key, Subresource: subresource, Manager: "kube-controller-manager",
	}
}

// read returns an object, which must not be changed; it reports false where there is none.
func read[T runtime.Object](c *Controllers, key store.Key) (found T, ok bool) {
	k := c.catalog.Of(*new(T))
	c.registry.Store.RLock()
	defer c.registry.Store.RUnlock()
	found, ok = c.registry.Store.Get(k, key).(T)
	return found, ok
}

// list returns the objects of a namespace, which must not be changed.
func list[T runtime.Object](c *Controllers, namespace string) []T {
	k := c.catalog.Of(*new(T))
	c.registry.Store.RLock()
	defer c.registry.Store.RUnlock()
	objects := c.registry.Store.List(k, namespace)
	all := make([]T, 0, len(objects))
	for _, o := range objects {
		all = append(all, o.(T))
	}
	return all
}

// create creates an object; that it exists is no error.
func create[T runtime.Object](c *Controllers, name controller, o T) error {
	m := store.Meta(o)
	q := c.as(name, c.catalog.Of(o), store.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, "")
	if _, err := c.registry.Create(q, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// change changes an object if it still has the uid. That it is gone is no error.
func change[T runtime.Object](c *Controllers, name controller, now T, subresource string, f func(T)) error {
	m := store.Meta(now)
	q := c.as(name, c.catalog.Of(now), store.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, subresource)
	_, err := c.registry.Update(q, func(live runtime.Object) (runtime.Object, error) {
		if typed, ok := live.(T); ok && store.Meta(live).GetUID() == m.GetUID() {
			f(typed)
		}
		return live, nil
	})
	return ignoreGone(err)
}

// remove begins the deletion of an object if it still has the uid. That it is gone is no error.
func remove(c *Controllers, name controller, o runtime.Object, options metav1.DeleteOptions) error {
	m := store.Meta(o)
	uid := m.GetUID()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	q := c.as(name, c.catalog.Of(o), store.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, "")
	_, _, err := c.registry.Delete(q, options)
	return ignoreGone(err)
}

// ignoreGone drops the errors for objects that are gone, or are others of the same name: their changes follow.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Bootstrap creates the objects that every cluster has.
func (c *Controllers) Bootstrap() error {
	for _, name := range []string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
	} {
		if err := create(c, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	admin := metav1.ObjectMeta{Name: "cluster-admin"}
	err := create(c, namespaces, &rbacv1.ClusterRole{ObjectMeta: admin, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}})
	if err != nil {
		return err
	}
	view := []string{"get", "list", "watch"}
	err = create(c, namespaces, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: view, APIGroups: []string{""}, Resources: []string{
			"configmaps", "endpoints", "events", "limitranges", "namespaces", "persistentvolumeclaims", "pods",
			"pods/log", "pods/status",
			"resourcequotas", "serviceaccounts", "services",
		}},
		{Verbs: view, APIGroups: []string{"apps", "discovery.k8s.io", "networking.k8s.io"}, Resources: []string{"*"}},
	}})
	if err != nil {
		return err
	}
	return create(c, namespaces, &rbacv1.ClusterRoleBinding{
		ObjectMeta: admin,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: admin.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:masters"}},
	})
}
