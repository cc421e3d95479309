//go:build unix

package dataplane

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/terraform/cell"
)

// Environment is the environment of a local cloud. Names of agents' secrets begin with it.
const Environment = "local"

// Accounts of the cell's own programs, whose rights terraform/cell grants.
const (
	RouterAccount   = "system:serviceaccount:" + cell.GatewayNamespace + ":agent-router"
	NotifierAccount = "system:serviceaccount:" + cell.GatewayNamespace + ":agent-notifier-" + Environment
	GateAccount     = "system:serviceaccount:" + cell.GatewayNamespace + ":agent-gate-" + Environment
)

// GrantAccess applies those objects of terraform/cell that say who may do what in the cluster. callers are the users
// that functions call the cluster as, by need, and gate is the address of the gate. The programs of the cell do not run
// in the local cluster.
func GrantAccess(ctx context.Context, kubeconfig, domain, gate string, callers map[string][]string) error {
	values := cell.Values{Domain: domain, Environment: Environment, Callers: callers, GateAddress: gate}
	return applyCell(ctx, kubeconfig, values, grants)
}

// Images are the images that a deployment lets agents' pods run.
type Images struct {
	// Platform is the control plane's image, Agent that of agents, which may be empty.
	Platform, Agent string
	// Registries are the beginnings of references that custom images may have.
	Registries []string
}

// AdmitImages lets agents' pods run images. A deployment does so before its services start. It keeps what the
// operator's tool has written.
func AdmitImages(ctx context.Context, kubeconfig string, i Images) error {
	return applyCell(ctx, kubeconfig,
		cell.Values{Image: i.Platform, AgentImage: i.Agent, Registries: i.Registries},
		func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
}

// applyCell applies some of the objects of terraform/cell. some may change those that it chooses.
func applyCell(ctx context.Context, kubeconfig string, values cell.Values,
	some func(*unstructured.Unstructured) bool,
) error {
	objects, err := cell.Objects(values)
	if err != nil {
		return fmt.Errorf("render the cell's objects: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	for _, o := range objects {
		if !some(o) {
			continue
		}
		if err := apply(ctx, client, o); err != nil {
			return fmt.Errorf("apply %s %s of terraform/cell: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// grants reports whether an object is about access, or says how snapshots are taken.
func grants(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "VolumeSnapshotClass":
		return true
	default:
		return false
	}
}

func apply(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	at := client.Resource(resource)
	options := metav1.PatchOptions{FieldManager: "terraform", Force: new(true)}
	if namespace := o.GetNamespace(); namespace != "" {
		_, err = at.Namespace(namespace).Patch(ctx, o.GetName(), types.ApplyYAMLPatchType, body, options)
		return err
	}
	_, err = at.Patch(ctx, o.GetName(), types.ApplyYAMLPatchType, body, options)
	return err
}

// Impersonate writes a kubeconfig with which its user has the rights of an account. admin is the kubeconfig of an
// administrator. It returns the file's path.
func Impersonate(admin, account, file string) (string, error) {
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		return "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = account
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return file, nil
}
