package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	namespaceWorkers = 20
	// The wait between two attempts on a namespace that is not empty yet. One attempt is about a hundred requests.
	namespaceRetryMin, namespaceRetryMax = 100 * time.Millisecond, 2 * time.Second
)

// RunNamespaceDeletion empties and finalizes deleted namespaces until ctx ends.
//
// It runs the code of namespace-controller with other delays. The original waits 5 s for the other API servers of the
// cluster to learn of the deletion, and then half of the pods' grace periods, at least another 5 s; both are constants.
// Here there is one API server and pods end immediately, so a namespace is gone in well under a second.
func RunNamespaceDeletion(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a metadata client: %w", err)
	}
	deleter := deletion.NewNamespacedResourcesDeleter(ctx, client.CoreV1().Namespaces(), metadataClient,
		client.CoreV1(),
		client.Discovery().ServerPreferredNamespacedResources, corev1.FinalizerKubernetes)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](namespaceRetryMin, namespaceRetryMax))
	defer queue.ShutDown()

	factory := informers.NewSharedInformerFactory(client, 0)
	enqueue := func(object any) {
		if namespace, ok := object.(*corev1.Namespace); ok && namespace.DeletionTimestamp != nil {
			queue.Add(namespace.Name)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }}
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()

	var workers sync.WaitGroup
	for range namespaceWorkers {
		workers.Go(func() {
			for deleteNext(ctx, queue, deleter) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	workers.Wait()
	return nil
}

// deleteNext works on one namespace and reports whether there may be more.
func deleteNext(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string],
	deleter deletion.NamespacedResourcesDeleterInterface,
) bool {
	name, quit := queue.Get()
	if quit {
		return false
	}
	defer queue.Done(name)
	err := deleter.Delete(ctx, name)
	if err == nil {
		queue.Forget(name)
		return true
	}
	if _, remain := errors.AsType[*deletion.ResourcesRemainingError](err); !remain {
		klog.ErrorS(err, "Namespace not deleted yet", "namespace", name)
	}
	queue.AddRateLimited(name)
	return true
}
