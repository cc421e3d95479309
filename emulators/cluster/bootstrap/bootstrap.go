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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator"
	"agents.example/controlplane/emulators/simulator/realnode"
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

// grantNetwork lets the user of the node's network read what the network depends on, and nothing else.
func grantNetwork(ctx context.Context, client *kubeclient.Client) error {
	read := []string{"list", "watch"}
	meta := metav1.ObjectMeta{Name: realnode.NetworkUser}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "namespaces", "nodes", "services"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: read},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: realnode.NetworkUser}},
	}
	return until(ctx, "the rights of "+realnode.NetworkUser, func(ctx context.Context) error {
		_, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		if ignoreExists(err) != nil {
			return err
		}
		_, err = client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

// generation is the annotation that the admission policy of Options.Fence compares.
const generation = "agents.example/generation"

// awaitFence waits until the API server enforces the fence: it must refuse to lower the generation of an object.
func awaitFence(ctx context.Context, client *kubeclient.Client) error {
	maps := client.ConfigMaps(metav1.NamespaceSystem)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "fence-probe", Annotations: map[string]string{generation: "2"},
	}}
	if _, err := maps.Create(ctx, probe, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("create the object that proves the fence: %w", err)
	}
	probe.Annotations[generation] = "1"
	err := until(ctx, "the fence", func(ctx context.Context) error {
		_, err := maps.Update(ctx, probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(errors.New("the API server accepts a lower generation"), err)
	})
	if err != nil {
		return err
	}
	if err := maps.Delete(ctx, probe.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the object that proved the fence: %w", err)
	}
	return nil
}
