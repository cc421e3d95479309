package gke

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// quietTime is the age from which a silent pod, or a workload without a pod, is unusual. The events of a younger one
// are not read.
const quietTime = 3 * time.Second

// CheckReady implements provisioning.Cluster. The desired pod is the one that has the hash of the agent's present
// configuration, is not being deleted, and is Ready. It reads the pod and, if the pod does not say why it is not Ready,
// the events about it.
func (c *Clusters) CheckReady(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	b, err := c.blueprint(a, provisioning.RuntimeInput{})
	if err != nil {
		return err
	}
	v, err := client.verdict(ctx, a.Namespace(), desired{hash: b.config, memoryMiB: b.plan.MemoryLimitMiB})
	if err != nil || v.ready {
		return err
	}
	if err := client.judgeSource(ctx, a, v.failure); err != nil {
		return err
	}
	if v.failure.Permanent {
		slog.WarnContext(ctx, "the agent's pod is not ready", "agent_id", a.ID, "cell", a.Cell, "code", v.failure.Code,
			"said", v.said)
	}
	return v.failure
}

// verdict judges the pod of a namespace.
func (c *client) verdict(ctx context.Context, namespace string, d desired) (verdict, error) {
	t := core("Pod", namespace, podName)
	pod := &corev1.Pod{}
	err := c.get(ctx, t, pod)
	switch {
	case apierrors.IsNotFound(err):
		pod = nil
	case err != nil:
		return verdict{}, explain(err, t)
	}
	v := d.judge(pod)
	if pod != nil && v.failure != nil {
		v.failure.Since, v.failure.Ended = since(pod), endedContainers(pod)
	}
	if !v.silent && !v.unready || pod != nil && time.Since(pod.CreationTimestamp.Time) < quietTime {
		return v, nil
	}
	explained, err := c.trouble(ctx, namespace, pod, v)
	if err != nil || explained == nil {
		return v, err
	}
	explained.failure.Repairable, explained.failure.Since = v.failure.Repairable, v.failure.Since
	explained.failure.Ended = v.failure.Ended
	return *explained, nil
}
