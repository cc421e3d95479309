package kinds

import (
	"strings"

	"agents.example/controlplane/emulators/kubeclient"
)

// SchemaTypes returns the names of the types that the API server serves, and of the two types that stand for unknown
// ones. The schema has the types of their fields, too.
func SchemaTypes() []string {
	groups := []struct {
		name  string // with a version, unless it is v1
		kinds []string
	}{
		{name: "admissionregistration", kinds: []string{
			"ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding",
		}},
		{name: "apps", kinds: []string{"Deployment", "ReplicaSet", "StatefulSet"}},
		{name: "autoscaling", kinds: []string{"Scale"}},
		{name: "autoscaling.v2", kinds: []string{"HorizontalPodAutoscaler"}},
		{name: "core", kinds: []string{
			"ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod",
			"ResourceQuota", "Secret", "Service", "ServiceAccount",
		}},
		{name: "discovery", kinds: []string{"EndpointSlice"}},
		{name: "networking", kinds: []string{"NetworkPolicy"}},
		{name: "policy", kinds: []string{"PodDisruptionBudget"}},
		{name: "node", kinds: []string{"RuntimeClass"}},
		{name: "rbac", kinds: []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
		{name: "scheduling", kinds: []string{"PriorityClass"}},
		{name: "storage", kinds: []string{"StorageClass"}},
	}
	names := []string{"__untyped_atomic_", "__untyped_deduced_"}
	for _, g := range groups {
		group := g.name
		if !strings.Contains(group, ".") {
			group += ".v1"
		}
		for _, kind := range g.kinds {
			names = append(names, "io.k8s.api."+group+"."+kind)
		}
	}
	return append(names, kubeclient.VolumeSnapshot{}.OpenAPIModelName(),
		kubeclient.VolumeSnapshotContent{}.OpenAPIModelName(), kubeclient.VolumeSnapshotClass{}.OpenAPIModelName())
}
