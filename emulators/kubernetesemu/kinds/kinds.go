// Package kinds lists the kinds of objects that the embedded Kubernetes has, and merges their fields.
//
// Types, codecs, schemas and merging are those of Kubernetes' libraries. Each kind has one version. Clients cannot
// define custom resources; snapshots of volumes, which are such in other clusters, look like them.
package kinds

import (
	"reflect"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubeclient"
)

// Kind is a kind of objects. Kinds are compared by their addresses.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	ShortName  string // of kubectl; may be empty
	Namespaced bool
	Status     bool // has the subresource status
	Scale      bool // has the subresource scale
	Generation bool // metadata.generation counts changes of the specification
	Custom     bool // is a custom resource in other clusters: it has neither protobuf nor strategic merge patches

	object, list func() runtime.Object
	managers     map[string]manager // by subresource
}

// Resource returns the kind's name in paths and errors.
func (k *Kind) Resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}

// New returns an empty object.
func (k *Kind) New() runtime.Object {
	o := k.object()
	o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return o
}

// NewList returns an empty list of objects.
func (k *Kind) NewList() runtime.Object {
	l := k.list()
	l.GetObjectKind().SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
	return l
}

// trait is a property of a kind.
type trait uint8

const (
	namespaced trait = 1 << iota
	status
	scale
	generation
	custom
)

// object is a pointer to an object or a list of objects.
type object[T any] interface {
	*T
	runtime.Object
}

// define describes the kind whose objects are of type T, and whose lists are of type L.
func define[T, L any, O object[T], M object[L]](gv schema.GroupVersion, shortName string, traits trait) *Kind {
	name := reflect.TypeFor[T]().Name()
	return &Kind{
		GroupVersionKind: gv.WithKind(name), Plural: plural(name), ShortName: shortName,
		Namespaced: traits&namespaced != 0, Status: traits&status != 0, Scale: traits&scale != 0,
		Generation: traits&generation != 0, Custom: traits&custom != 0,
		object: func() runtime.Object { return O(new(T)) }, list: func() runtime.Object { return M(new(L)) },
	}
}

func plural(kind string) string {
	lower := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(lower, "s"):
		return lower + "es"
	case strings.HasSuffix(lower, "y"):
		return strings.TrimSuffix(lower, "y") + "ies"
	}
	return lower + "s"
}

// define all kinds. Controllers delete the objects of a namespace in this order.
func defineAll() []*Kind {
	core, apps, rbac := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion
	policies, snapshots := admissionregistrationv1.SchemeGroupVersion, kubeclient.SnapshotVersion
	workload := namespaced | status | scale | generation
	return []*Kind{
		define[appsv1.Deployment, appsv1.DeploymentList](apps, "deploy", workload),
		define[appsv1.ReplicaSet, appsv1.ReplicaSetList](apps, "rs", workload),
		define[appsv1.StatefulSet, appsv1.StatefulSetList](apps, "sts", workload),
		define[corev1.Pod, corev1.PodList](core, "po", namespaced|status|generation),
		define[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](core, "pvc", namespaced|status),
		define[kubeclient.VolumeSnapshot, kubeclient.VolumeSnapshotList](
			snapshots, "vs", namespaced|status|generation|custom),
		define[corev1.Service, corev1.ServiceList](core, "svc", namespaced|status),
		define[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](
			discoveryv1.SchemeGroupVersion, "", namespaced|generation),
		define[corev1.ConfigMap, corev1.ConfigMapList](core, "cm", namespaced),
		define[corev1.Secret, corev1.SecretList](core, "", namespaced),
		define[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](
			networkingv1.SchemeGroupVersion, "netpol", namespaced|generation),
		define[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](
			autoscalingv2.SchemeGroupVersion, "hpa", namespaced|status),
		define[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](
			policyv1.SchemeGroupVersion, "pdb", namespaced|status|generation),
		define[corev1.ResourceQuota, corev1.ResourceQuotaList](core, "quota", namespaced|status),
		define[corev1.LimitRange, corev1.LimitRangeList](core, "limits", namespaced),
		define[rbacv1.RoleBinding, rbacv1.RoleBindingList](rbac, "", namespaced),
		define[rbacv1.Role, rbacv1.RoleList](rbac, "", namespaced),
		define[corev1.ServiceAccount, corev1.ServiceAccountList](core, "sa", namespaced),
		define[corev1.Event, corev1.EventList](core, "ev", namespaced),

		define[corev1.Namespace, corev1.NamespaceList](core, "ns", status),
		define[corev1.Node, corev1.NodeList](core, "no", status),
		define[corev1.PersistentVolume, corev1.PersistentVolumeList](core, "pv", status),
		define[kubeclient.VolumeSnapshotContent, kubeclient.VolumeSnapshotContentList](
			snapshots, "vsc", status|generation|custom),
		define[kubeclient.VolumeSnapshotClass, kubeclient.VolumeSnapshotClassList](
			snapshots, "vsclass", generation|custom),
		define[nodev1.RuntimeClass, nodev1.RuntimeClassList](nodev1.SchemeGroupVersion, "", 0),
		define[schedulingv1.PriorityClass, schedulingv1.PriorityClassList](schedulingv1.SchemeGroupVersion, "pc", generation),
		define[storagev1.StorageClass, storagev1.StorageClassList](storagev1.SchemeGroupVersion, "sc", 0),
		define[rbacv1.ClusterRole, rbacv1.ClusterRoleList](rbac, "", 0),
		define[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](rbac, "", 0),
		define[admissionregistrationv1.ValidatingAdmissionPolicy,
			admissionregistrationv1.ValidatingAdmissionPolicyList](policies, "", status|generation),
		define[admissionregistrationv1.ValidatingAdmissionPolicyBinding,
			admissionregistrationv1.ValidatingAdmissionPolicyBindingList](policies, "", generation),
	}
}
