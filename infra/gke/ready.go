package gke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// When the cluster's events are asked why nothing happens: the first look, and the most time between two. They are
// looked at only while the pod itself doesn't say.
const (
	firstLook   = 3 * time.Second
	longestLook = 30 * time.Second
)

// AwaitReady implements provisioning.Cluster. The desired pod is the one that carries the hash of the agent's present
// configuration, is not being deleted, and is Ready.
//
// When ctx's deadline passes, the error is both: the *PodFailure that is the best present explanation, and ctx's error.
// When ctx is canceled nothing is said about the pod.
func (c *Clusters) AwaitReady(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	b, err := c.blueprint(a, provisioning.RuntimeInput{})
	if err != nil {
		return err
	}
	w := wait{
		client: client, desired: desired{hash: configHash(a), memoryMiB: b.plan.MemoryLimitMiB},
		namespace: a.Namespace(),
	}
	err = w.ready(ctx)
	var failure *provisioning.PodFailure
	if errors.As(err, &failure) {
		slog.WarnContext(ctx, "the agent's pod is not ready", "agent_id", a.ID, "cell", a.Cell, "code", failure.Code,
			"said", w.last.said)
	}
	return err
}

// wait is one waiting for the agent's pod.
type wait struct {
	client    *client
	desired   desired
	namespace string
	last      verdict
}

func (w *wait) ready(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	states := w.client.follow(following, core("Pod", w.namespace, podName))
	pause := firstLook
	look := time.NewTimer(pause)
	defer look.Stop()
	for {
		select {
		case s, open := <-states:
			if !open {
				return w.ended(ctx)
			}
			if s.err != nil {
				return explain(s.err, core("Pod", w.namespace, podName))
			}
			if done, err := w.see(s); done || err != nil {
				return err
			}
		case <-look.C:
			if err := w.askEvents(ctx); err != nil {
				return err
			}
			pause = min(2*pause, longestLook)
			look.Reset(pause)
		}
	}
}

// see judges a state of the pod.
func (w *wait) see(s state) (done bool, err error) {
	var pod *corev1.Pod
	if s.object != nil {
		pod = &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(s.object.Object, pod); err != nil {
			return false, unavailable(fmt.Errorf("read the pod: %w", err))
		}
	}
	next := w.desired.judge(pod)
	if next.silent && w.last.event && w.last.pod == next.pod {
		return false, nil // what the events told of this pod says more than its silence
	}
	w.last = next
	return next.ready, w.certain()
}

// certain is the failure that waiting does not help against.
func (w *wait) certain() error {
	if f := w.last.failure; f != nil && f.Permanent {
		return f
	}
	return nil
}

// askEvents looks for what controllers say about a pod that doesn't speak for itself, because it isn't there, or is
// still being made.
func (w *wait) askEvents(ctx context.Context) error {
	if !w.last.silent {
		return nil
	}
	told, err := w.client.trouble(ctx, w.namespace, w.last.pod)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil //nolint:nilerr // the end of ctx is told elsewhere
	case err != nil:
		return err
	}
	if told != nil {
		told.pod = w.last.pod
		w.last = *told
	}
	return w.certain()
}

// ended is the error of a wait that ctx ended.
func (w *wait) ended(ctx context.Context) error {
	cause := ctx.Err()
	if !errors.Is(cause, context.DeadlineExceeded) || w.last.failure == nil {
		return fmt.Errorf("wait for the agent's pod: %w", cause)
	}
	return fmt.Errorf("%w (%w)", w.last.failure, cause)
}
