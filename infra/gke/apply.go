package gke

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// quotaWait is the first wait for a quota that isn't worked out yet; it doubles, within callTimeout in all.
	quotaWait = 20 * time.Millisecond
	// maxRaisedWait bounds each wait for a quota without room, whose raised limits may not count yet.
	maxRaisedWait = time.Second
)

// Apply implements provisioning.Cluster. One object is one request. Nothing is read of an agent that was never ready:
// its first provision costs as many requests as it has objects.
func (c *Clusters) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	input provisioning.RuntimeInput,
) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	b, err := c.blueprint(a, input)
	if err != nil {
		return err
	}
	if stage == agent.StageStorage {
		if err := client.prepareSource(ctx, &b); err != nil {
			return err
		}
	}
	objects, err := b.objects(stage)
	if err != nil {
		return err
	}
	var secret *metav1.PartialObjectMetadata
	for _, o := range objects {
		if plain, ok := o.(*corev1.ConfigMap); ok {
			own(secret, plain)
		}
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && a.KeepsVolume() {
			if err := client.requireVolume(ctx, claim); err != nil {
				return err
			}
		}
		now, err := client.apply(ctx, o)
		if err != nil {
			return err
		}
		if _, ok := o.(*corev1.Secret); ok {
			secret = now
		}
	}
	return nil
}

// apply brings one object to its desired state and returns the metadata of what it has become. Errors: as explain says.
func (c *client) apply(ctx context.Context, o object) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t := targetOf(o)
	now, err := c.applyOnce(ctx, o)
	for wait := quotaWait; quotaPending(err, wait); wait *= 2 {
		select {
		case <-ctx.Done():
			return nil, explain(err, t)
		case <-time.After(wait):
			now, err = c.applyOnce(ctx, o)
		}
	}
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && apierrors.IsInvalid(err) {
		return c.applyKept(ctx, claim, err)
	}
	return now, explain(err, t)
}

func (c *client) applyOnce(ctx context.Context, o object) (*metav1.PartialObjectMetadata, error) {
	body, err := encode(o)
	if err != nil {
		return nil, err
	}
	now, err := c.patch(ctx, targetOf(o), body)
	if err != nil {
		return nil, err
	}
	if _, ok := o.(*corev1.Namespace); ok && now.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the namespace %s takes no new objects: %w", now.Name, terminating())
	}
	return now, nil
}
