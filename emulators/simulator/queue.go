package simulator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// queue calls sync with the key of every object that changed, never concurrently for one key, and again after an error.
// It is the event handler of its objects.
type queue struct {
	cache.ResourceEventHandlerFuncs
	log  *slog.Logger
	sync func(ctx context.Context, key string) error
	keys workqueue.TypedRateLimitingInterface[string]
}

func (s *Simulator) newQueue(kind string, sync func(ctx context.Context, key string) error) *queue {
	q := &queue{log: s.options.Log.With("kind", kind), sync: sync}
	limit := workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, 5*time.Second)
	q.keys = workqueue.NewTypedRateLimitingQueue(limit)
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			q.keys.Add(key)
		}
	}
	q.ResourceEventHandlerFuncs = cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add,
	}
	return q
}

// run starts workers that end with ctx.
func (q *queue) run(ctx context.Context, running *sync.WaitGroup, workers int) {
	for range workers {
		running.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	context.AfterFunc(ctx, q.keys.ShutDown)
}

func (q *queue) next(ctx context.Context) bool {
	key, quit := q.keys.Get()
	if quit {
		return false
	}
	defer q.keys.Done(key)
	if err := q.sync(ctx, key); err != nil {
		if ctx.Err() == nil && !apierrors.IsConflict(err) {
			q.log.ErrorContext(ctx, "object not simulated, retrying", "key", key, "error", err)
		}
		q.keys.AddRateLimited(key)
		return true
	}
	q.keys.Forget(key)
	return true
}
