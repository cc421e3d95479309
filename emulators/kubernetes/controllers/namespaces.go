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
	// Between two looks at a namespace that is not empty yet. One look is some hundred requests.
	namespaceRetryMin, namespaceRetryMax = 100 * time.Millisecond, 2 * time.Second
)

// RunNamespaceDeletion empties and finalizes deleted namespaces until ctx ends.
//
// It does what namespace-controller does, with that controller's own code, at other times. The original waits 5 s
// before it looks at a deleted namespace, for the other API servers of the cluster to hear of it, and then half of what
// the deleted pods' grace periods allow, at least another 5 s. Both are constants. Here are no other API servers, and
// pods end at once, so that a namespace is gone in well under a second.
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

// deleteNext works on one namespace and reports whether there can be more.
func deleteNext(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string],
	deleter deletion.NamespacedResourcesDeleterInterface) bool {
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
