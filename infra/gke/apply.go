package gke

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// quotaWait is the first wait for a quota that isn't worked out yet; it doubles, within callTimeout in all.
const quotaWait = 20 * time.Millisecond

// Apply implements provisioning.Cluster. One object is one request, and nothing is read: a first provision costs as
// many requests as the agent has objects.
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
	objects, err := b.objects(stage)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := client.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// apply brings one object to its desired state. Errors: as explain says.
func (c *client) apply(ctx context.Context, o object) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t := targetOf(o)
	err := c.applyOnce(ctx, o)
	for wait := quotaWait; quotaPending(err); wait *= 2 {
		select {
		case <-ctx.Done():
			return explain(err, t)
		case <-time.After(wait):
			err = c.applyOnce(ctx, o)
		}
	}
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok && apierrors.IsInvalid(err) {
		changed, readErr := c.keepVolume(ctx, claim)
		if readErr != nil && !apierrors.IsNotFound(readErr) {
			return explain(readErr, t)
		}
		if changed {
			err = c.applyOnce(ctx, claim)
		}
	}
	return explain(err, t)
}

func (c *client) applyOnce(ctx context.Context, o object) error {
	body, err := encode(o)
	if err != nil {
		return err
	}
	now, err := c.patch(ctx, targetOf(o), body)
	if err != nil {
		return err
	}
	if now.GetDeletionTimestamp() != nil && now.GetKind() == "Namespace" {
		return fmt.Errorf("the namespace %s takes no new objects: %w", now.GetName(), terminating())
	}
	return nil
}
