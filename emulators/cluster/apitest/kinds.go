//go:build unix

package apitest

import "strings"

// kind is a kind of objects that the project uses, with what the cases of verbs need.
type kind struct {
	// collection is the path of the objects; {ns} stands for the namespace.
	collection string
	apiVersion string
	kind       string
	// spec is YAML of the fields besides apiVersion, kind and metadata.
	spec string
	// finalizer is one that the server adds.
	finalizer string
	// generation is that of a new object; 0 means that objects of the kind have none.
	generation int
	// custom is true for custom resources.
	custom bool
}

// kinds returns the kinds that clients write. Pods, claims and workloads, which controllers act upon, are among them.
func kinds() map[string]kind {
	const rbac, admission = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
	const snapshots = "snapshot.storage.k8s.io"
	return map[string]kind{
		"configmaps": {collection: "configmaps", apiVersion: "v1", kind: "ConfigMap", spec: "data: {a: b}"},
		"secrets":    {collection: "secrets", apiVersion: "v1", kind: "Secret", spec: "data: {a: Yg==}\ntype: Opaque"},
		"serviceaccounts": {
			collection: "serviceaccounts", apiVersion: "v1", kind: "ServiceAccount",
			spec: "automountServiceAccountToken: false",
		},
		"services": {
			collection: "services", apiVersion: "v1", kind: "Service",
			spec: "spec: {clusterIP: None, selector: {app: none}, ports: [{name: http, port: 80}]}",
		},
		"pods": {collection: "pods", apiVersion: "v1", kind: "Pod", spec: podSpec, generation: 1},
		"persistentvolumeclaims": {
			collection: "persistentvolumeclaims", apiVersion: "v1", kind: "PersistentVolumeClaim",
			spec:      "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
			finalizer: "kubernetes.io/pvc-protection",
		},
		"resourcequotas": {collection: "resourcequotas", apiVersion: "v1", kind: "ResourceQuota", spec: "spec: " +
			"{hard: {pods: '2'}}"},
		"events": {
			collection: "events", apiVersion: "v1", kind: "Event",
			spec: "involvedObject: {kind: Pod, namespace: '{ns}', name: a}\nreason: Test\nmessage: m\ntype: Normal",
		},
		"statefulsets": {
			collection: "apps/statefulsets", apiVersion: "apps/v1", kind: "StatefulSet", generation: 1,
			spec: "spec: {replicas: 0, serviceName: a, " + template + "}",
		},
		"deployments": {
			collection: "apps/deployments", apiVersion: "apps/v1", kind: "Deployment", generation: 1,
			spec: "spec: {replicas: 0, " + template + "}",
		},
		"networkpolicies": {
			collection: "networking.k8s.io/networkpolicies", apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy",
			spec: "spec: {podSelector: {}, policyTypes: [Ingress, Egress]}", generation: 1,
		},
		"endpointslices": {
			collection: "discovery.k8s.io/endpointslices", apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice",
			spec:       "addressType: IPv4\nendpoints: [{addresses: [10.1.2.3]}]\nports: [{name: http, port: 80}]",
			generation: 1,
		},
		"roles": {
			collection: rbac + "/roles", apiVersion: rbac + "/v1", kind: "Role",
			spec: "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]",
		},
		"rolebindings": {
			collection: rbac + "/rolebindings", apiVersion: rbac + "/v1", kind: "RoleBinding",
			spec: "roleRef: {apiGroup: " + rbac + ", kind: Role, name: none}\nsubjects: []",
		},
		"namespaces": {
			collection: "/api/v1/namespaces", apiVersion: "v1", kind: "Namespace", spec: "spec: {}",
		},
		"clusterroles": {
			collection: "/apis/" + rbac + "/v1/clusterroles", apiVersion: rbac + "/v1", kind: "ClusterRole",
			spec: "rules: []",
		},
		"clusterrolebindings": {
			collection: "/apis/" + rbac + "/v1/clusterrolebindings", apiVersion: rbac + "/v1",
			kind: "ClusterRoleBinding",
			spec: "roleRef: {apiGroup: " + rbac + ", kind: ClusterRole, name: none}\nsubjects: []",
		},
		"runtimeclasses": {
			collection: "/apis/node.k8s.io/v1/runtimeclasses", apiVersion: "node.k8s.io/v1", kind: "RuntimeClass",
			spec: "handler: a",
		},
		"priorityclasses": {
			collection: "/apis/scheduling.k8s.io/v1/priorityclasses", apiVersion: "scheduling.k8s.io/v1",
			kind: "PriorityClass",
			spec: "value: 7", generation: 1,
		},
		"storageclasses": {
			collection: "/apis/storage.k8s.io/v1/storageclasses", apiVersion: "storage.k8s.io/v1", kind: "StorageClass",
			spec: "provisioner: example.test/none",
		},
		"volumesnapshotclasses": {
			collection: "/apis/" + snapshots + "/v1/volumesnapshotclasses", apiVersion: snapshots + "/v1",
			kind: "VolumeSnapshotClass", custom: true, generation: 1,
			spec: "driver: example.test\ndeletionPolicy: Delete",
		},
		"volumesnapshotcontents": {
			collection: "/apis/" + snapshots + "/v1/volumesnapshotcontents", apiVersion: snapshots + "/v1",
			kind: "VolumeSnapshotContent", custom: true, generation: 1,
			spec: "spec: {driver: example.test, deletionPolicy: Retain, source: {snapshotHandle: a}, " +
				"volumeSnapshotRef: {namespace: '{ns}', name: none}}",
		},
		"validatingadmissionpolicies": {
			collection: "/apis/" + admission + "/v1/validatingadmissionpolicies", apiVersion: admission + "/v1",
			kind: "ValidatingAdmissionPolicy", generation: 1,
			spec: "spec: {matchConstraints: {resourceRules: [{apiGroups: [none.example.test], apiVersions: [v1], " +
				"operations: [CREATE], resources: [none]}]}, validations: [{expression: 'true'}]}",
		},
		"validatingadmissionpolicybindings": {
			collection: "/apis/" + admission + "/v1/validatingadmissionpolicybindings", apiVersion: admission + "/v1",
			kind: "ValidatingAdmissionPolicyBinding", generation: 1,
			spec: "spec: {policyName: none, validationActions: [Deny]}",
		},
	}
}

const (
	// image runs nowhere: pods of unknown images are simulated.
	image = "example/agent:v1"
	// podSpec cannot be scheduled, so that only the case writes the pod.
	podSpec  = "spec: {nodeSelector: {none: none}, containers: [{name: main, image: 'example/agent:v1'}]}"
	template = "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, " + podSpec + "}"
)

// object returns YAML of an object with a name and labels such as "{a: b}".
func (k kind) object(name, labels string) string {
	return "apiVersion: " + k.apiVersion + "\nkind: " + k.kind + "\nmetadata: {name: " + name + ", labels: " + labels +
		"}\n" + k.spec + "\n"
}

// everywhere is the path of the collection in all namespaces.
func (k kind) everywhere() string {
	return strings.Replace(expand(k.collection, "{ns}"), "/namespaces/{ns}", "", 1)
}
