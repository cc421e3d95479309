//go:build unix

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/terraform/cell"
)

// GatePodOptions configure StartGatePod. All are required but AllowedRanges.
type GatePodOptions struct {
	// Kubeconfig is an administrator's.
	Kubeconfig string
	// Image is the reference of an image that the cluster's nodes can pull and that has the program /ko-app/gate.
	Image string
	// Address is the address of the gate's Service.
	Address string
	// Project and Topic are where counts are published, and CASecret is the version of the secret from which the CAs of
	// agents follow.
	Project, Topic, CASecret string
	// PubSub and Secrets are the addresses of the emulators in the network of pods.
	PubSub, Secrets netip.AddrPort
	// AllowedRanges has the hosts that agents may reach in addition to public ones.
	AllowedRanges string
}

// StartGatePod runs the gate as a pod of the cluster, from the same objects as in a cell of Google Cloud, and returns
// when it is ready. It runs after StartRouterPod, which makes the namespace and its network policies.
func StartGatePod(ctx context.Context, o GatePodOptions) error {
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := cellwatch.Client(config, dataplane.GateName, cellwatch.Core())
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	values := cell.Values{
		Environment: Environment, Image: o.Image, GateAddress: o.Address, Project: o.Project, EgressTopic: o.Topic,
		GateSecret: o.CASecret,
	}
	some := func(object *unstructured.Unstructured) bool {
		if !runsGate(object) {
			return false
		}
		if object.GetKind() == "Deployment" {
			setVariables(object, map[string]string{
				"PUBSUB_EMULATOR_HOST": o.PubSub.String(), "SECRET_MANAGER_EMULATOR_HOST": o.Secrets.String(),
				"ALLOWED_RANGES": o.AllowedRanges,
			})
		}
		return true
	}
	if err := applyCell(ctx, o.Kubeconfig, values, some); err != nil {
		return err
	}
	ready := func() bool {
		var pods corev1.PodList
		err := client.Get().Namespace(cell.GatewayNamespace).Resource("pods").VersionedParams(
			&metav1.ListOptions{LabelSelector: labelName + "=" + dataplane.GateName}, metav1.ParameterCodec).
			Do(ctx).Into(&pods)
		return err == nil && slices.ContainsFunc(pods.Items, podReady)
	}
	if err := awaitTrue(ctx, ready); err != nil {
		return errors.Join(fmt.Errorf("wait for a pod of the gate: %w", context.Cause(ctx)),
			explain(ctx, config, dataplane.GateName))
	}
	return nil
}

// labelName is the label of a pod with the name of its program.
const labelName = "app.kubernetes.io/name"

// runsGate reports whether an object is one that the gate's pod needs: it, its Service and its rights.
func runsGate(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "ServiceAccount":
		return o.GetName() == cell.GateAccount(Environment)
	case "ClusterRole", "ClusterRoleBinding", "Service", "Deployment":
		return o.GetName() == dataplane.GateName
	default:
		return false
	}
}

// setVariables sets variables of a Deployment's container; those without a value go.
func setVariables(o *unstructured.Unstructured, variables map[string]string) {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, _ := unstructured.NestedSlice(o.Object, path...) // it has one
	c := containers[0].(map[string]any)
	env, _, _ := unstructured.NestedSlice(c, "env")
	env = slices.DeleteFunc(env, func(e any) bool {
		_, replaced := variables[fmt.Sprint(e.(map[string]any)["name"])]
		return replaced
	})
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if value := variables[name]; value != "" {
			env = append(env, map[string]any{"name": name, "value": value})
		}
	}
	c["env"] = env
	_ = unstructured.SetNestedSlice(o.Object, containers, path...)
}

// podReady reports whether a pod takes connections.
func podReady(pod corev1.Pod) bool { //nolint:gocritic // the type of slices.ContainsFunc
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
