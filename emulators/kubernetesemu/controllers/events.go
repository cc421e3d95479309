package controllers

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

const (
	// eventLife is how long an event is kept after it happened last.
	eventLife = time.Hour
	// eventSweep is how often old events are removed.
	eventSweep = 10 * time.Minute
	// eventRepeat is how soon the same event counts again.
	eventRepeat = time.Second
)

// warn records an event about an object. The same event again raises its count.
func (c *Controllers) warn(about runtime.Object, reason, message string) {
	m, k := store.Meta(about), c.catalog.Of(about)
	sum := sha256.Sum256([]byte(string(m.GetUID()) + "\x00" + reason + "\x00" + message))
	key := store.Key{Namespace: m.GetNamespace(), Name: m.GetName() + "." + hex.EncodeToString(sum[:8])}
	now := metav1.Now()
	source := controller(corev1.DefaultSchedulerName)
	if reason != failedScheduling {
		source = statefulSets
	}
	if old, ok := read[*corev1.Event](c, key); ok {
		if now.Sub(old.LastTimestamp.Time) >= eventRepeat {
			_ = change(c, source, old, "", func(e *corev1.Event) { e.Count, e.LastTimestamp = e.Count+1, now })
		}
		return
	}
	_ = create(c, source, &corev1.Event{ // an event may get lost, as in Kubernetes
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: k.GroupVersion().String(), Kind: k.Kind, Namespace: m.GetNamespace(), Name: m.GetName(),
			UID:             m.GetUID(),
			ResourceVersion: m.GetResourceVersion(),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: string(source)}, ReportingController: string(source),
	})
}

// removeExpiredEvents removes the events of all namespaces that are older than eventLife, and comes back later.
func (c *Controllers) removeExpiredEvents() error {
	defer c.queue.AddAfter(task{controller: expiredEvents}, eventSweep)
	for _, e := range list[*corev1.Event](c, metav1.NamespaceAll) {
		last := e.LastTimestamp.Time
		if last.IsZero() {
			last = e.CreationTimestamp.Time
		}
		if time.Since(last) < eventLife {
			continue
		}
		if err := remove(c, expiredEvents, e, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
