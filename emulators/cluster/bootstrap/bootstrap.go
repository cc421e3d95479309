// Package bootstrap creates the objects that every local cluster starts with, and verifies that the cluster works. It
// only uses the Kubernetes API.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator"
)

// poll is the interval at which Run checks for an object.
const poll = 25 * time.Millisecond

// Options configure Run.
type Options struct {
	CRDs   []string // YAML files of CustomResourceDefinitions
	GVisor bool     // make the RuntimeClass gvisor
	Fence  string   // YAML file of the admission policy that refuses lower generations; empty for none
	// RealNode is true if there is a node that runs containers.
	RealNode bool
}

// Run returns when all objects exist, the custom resources are served, the fence is enforced, and a pod has become
// ready, which exercises the API server, the service account controller, the scheduler and the simulator.
func Run(ctx context.Context, client *kubeclient.Client, o Options) error {
	if o.Fence != "" {
		if _, err := applyFile(ctx, client, o.Fence); err != nil {
			return err
		}
	}
	if o.GVisor {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
		err := until(ctx, "RuntimeClass gvisor", func(ctx context.Context) error {
			_, err := client.RuntimeClasses().Create(ctx, class, metav1.CreateOptions{})
			return ignoreExists(err)
		})
		if err != nil {
			return err
		}
	}
	if o.RealNode {
		if err := grantNetwork(ctx, client); err != nil {
			return err
		}
	}
	// the API server creates the namespace asynchronously
	err := until(ctx, "ConfigMap "+simulator.FaultsConfigMap, func(ctx context.Context) error {
		faults := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: simulator.FaultsConfigMap}}
		_, err := client.ConfigMaps(metav1.NamespaceSystem).Create(ctx, faults, metav1.CreateOptions{})
		return ignoreExists(err)
	})
	if err != nil {
		return err
	}
	if err := establish(ctx, client, o.CRDs); err != nil {
		return err
	}
	if err := runPod(ctx, client); err != nil || o.Fence == "" {
		return err
	}
	return awaitFence(ctx, client)
}

// runPod runs one pod until it is ready, and deletes it.
func runPod(ctx context.Context, client *kubeclient.Client) error {
	pods := client.Pods(metav1.NamespaceSystem)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "readiness-probe"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "registry.k8s.io/pause"}}},
	}
	err := until(ctx, "a pod to become ready", func(ctx context.Context) error {
		probe, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // the one of an earlier run may end in between
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{}) // refused until the namespace has its service account
			return errors.Join(errors.New("the pod was not there"), err)
		case err != nil:
			return err
		case probe.DeletionTimestamp != nil:
			return errors.New("the pod of an earlier run still ends")
		}
		for _, c := range probe.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the pod is %s on node %q", probe.Status.Phase, probe.Spec.NodeName)
	})
	if err != nil {
		return err
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the pod that proved the cluster: %w", err)
	}
	return nil
}

// until calls attempt until it succeeds or ctx ends; the caller chooses the timeout.
func until(ctx context.Context, what string, attempt func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		last = attempt(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, errors.Join(err, last))
	}
	return nil
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
