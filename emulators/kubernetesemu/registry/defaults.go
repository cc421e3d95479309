package registry

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// set sets what has no value.
func set[T comparable](p *T, value T) {
	if *p == *new(T) {
		*p = value
	}
}

// setPointer sets what points to no value.
func setPointer[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// setDefaults completes an object with what Kubernetes assumes where a client says nothing, for the kinds that agents
// and the programs of a cell have. old is the object before a change, or nil.
func (r *Registry) setDefaults(o, old runtime.Object) {
	switch o := o.(type) {
	case *corev1.Namespace:
		defaultNamespace(o, old == nil)
	case *corev1.Pod:
		defaultPod(o, old == nil)
	case *appsv1.StatefulSet:
		defaultStatefulSet(o)
	case *appsv1.Deployment:
		defaultDeployment(o)
	case *appsv1.ReplicaSet:
		setPointer(&o.Spec.Replicas, 1)
		defaultPodSpec(&o.Spec.Template.Spec)
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		r.defaultService(o, before)
	case *corev1.PersistentVolumeClaim:
		before, _ := old.(*corev1.PersistentVolumeClaim)
		r.defaultClaim(o, before)
	case *corev1.PersistentVolume:
		set(&o.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		setPointer(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		set(&o.Status.Phase, corev1.VolumePending)
	case *corev1.Secret:
		defaultSecret(o)
	case *networkingv1.NetworkPolicy:
		defaultNetworkPolicy(o)
	case *discoveryv1.EndpointSlice:
		for i := range o.Ports {
			setPointer(&o.Ports[i].Name, "")
			setPointer(&o.Ports[i].Protocol, corev1.ProtocolTCP)
		}
	case *storagev1.StorageClass:
		setPointer(&o.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		setPointer(&o.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	case *rbacv1.ClusterRoleBinding:
		defaultSubjects(&o.RoleRef, o.Subjects)
	case *rbacv1.RoleBinding:
		defaultSubjects(&o.RoleRef, o.Subjects)
	}
}

func defaultNamespace(o *corev1.Namespace, isNew bool) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[corev1.LabelMetadataName] = o.Name
	if isNew && !slices.Contains(o.Spec.Finalizers, corev1.FinalizerKubernetes) {
		o.Spec.Finalizers = append(o.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	set(&o.Status.Phase, corev1.NamespaceActive)
}

func defaultStatefulSet(o *appsv1.StatefulSet) {
	setPointer(&o.Spec.Replicas, 1)
	setPointer(&o.Spec.RevisionHistoryLimit, 10)
	set(&o.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	set(&o.Spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if o.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		setPointer(&o.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		setPointer(&o.Spec.UpdateStrategy.RollingUpdate.Partition, 0)
	}
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	setPointer(&o.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	set(&o.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, retain)
	set(&o.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, retain)
	defaultPodSpec(&o.Spec.Template.Spec)
	for i := range o.Spec.VolumeClaimTemplates {
		c := &o.Spec.VolumeClaimTemplates[i]
		c.APIVersion, c.Kind = corev1.SchemeGroupVersion.String(), "PersistentVolumeClaim"
		setPointer(&c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		set(&c.Status.Phase, corev1.ClaimPending)
	}
}

func defaultDeployment(o *appsv1.Deployment) {
	setPointer(&o.Spec.Replicas, 1)
	setPointer(&o.Spec.RevisionHistoryLimit, 10)
	setPointer(&o.Spec.ProgressDeadlineSeconds, 600)
	set(&o.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if o.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		quarter := intstr.FromString("25%")
		setPointer(&o.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		setPointer(&o.Spec.Strategy.RollingUpdate.MaxSurge, quarter)
		setPointer(&o.Spec.Strategy.RollingUpdate.MaxUnavailable, quarter)
	}
	defaultPodSpec(&o.Spec.Template.Spec)
}

func (r *Registry) defaultService(o, old *corev1.Service) {
	set(&o.Spec.Type, corev1.ServiceTypeClusterIP)
	set(&o.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		set(&p.Protocol, corev1.ProtocolTCP)
		set(&p.TargetPort, intstr.FromInt32(p.Port))
	}
	if o.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	setPointer(&o.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	setPointer(&o.Spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(o.Spec.IPFamilies) == 0 {
		o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer || o.Spec.Type == corev1.ServiceTypeNodePort {
		set(&o.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if old != nil {
		set(&o.Spec.ClusterIP, old.Spec.ClusterIP)
	}
	if o.Spec.ClusterIP == "" {
		o.Spec.ClusterIP = r.freeClusterIP()
	}
	o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
}

// freeClusterIP returns an address from 10.96.0.0/16 that no service has.
func (r *Registry) freeClusterIP() string {
	used := r.clusterIPs()
	for {
		address := netip.AddrFrom4([4]byte{10, 96, byte(rand.IntN(256)), byte(2 + rand.IntN(252))}).String()
		if _, taken := used[address]; !taken {
			return address
		}
	}
}

// clusterIPs returns the services by their addresses.
func (r *Registry) clusterIPs() map[string]*corev1.Service {
	used := map[string]*corev1.Service{}
	for _, o := range r.Store.List(r.Catalog.Core("Service"), "") {
		service := o.(*corev1.Service)
		used[service.Spec.ClusterIP] = service
	}
	return used
}

// validateClusterIP refuses a new service with the address of another one.
func (r *Registry) validateClusterIP(o *corev1.Service) field.ErrorList {
	if _, taken := r.clusterIPs()[o.Spec.ClusterIP]; !taken || o.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), o.Spec.ClusterIPs,
		"failed to allocate IP "+o.Spec.ClusterIP+": provided IP is already allocated")}
}

const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

func (r *Registry) defaultClaim(o, old *corev1.PersistentVolumeClaim) {
	setPointer(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	set(&o.Status.Phase, corev1.ClaimPending)
	defaultDataSource(&o.Spec)
	switch {
	case old != nil:
		if o.Spec.StorageClassName == nil {
			o.Spec.StorageClassName = old.Spec.StorageClassName
		}
		set(&o.Spec.VolumeName, old.Spec.VolumeName)
	case o.Spec.StorageClassName == nil:
		for _, c := range r.Store.List(r.Catalog.Kind(storagev1.SchemeGroupVersion.WithKind("StorageClass")), "") {
			if m := store.Meta(c); m.GetAnnotations()[annotationDefaultClass] == "true" {
				setPointer(&o.Spec.StorageClassName, m.GetName())
			}
		}
	}
}

// defaultDataSource drops a source that can be none, and makes both fields for it the same.
func defaultDataSource(o *corev1.PersistentVolumeClaimSpec) {
	if s := o.DataSource; s != nil {
		group := ""
		if s.APIGroup != nil {
			group = *s.APIGroup
		}
		isSnapshot := s.Kind == "VolumeSnapshot" && group == kubeclient.SnapshotVersion.Group
		if s.Kind != "PersistentVolumeClaim" && !isSnapshot {
			o.DataSource = nil
		}
	}
	switch s, r := o.DataSource, o.DataSourceRef; {
	case s != nil && r == nil:
		o.DataSourceRef = &corev1.TypedObjectReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name}
	case s == nil && r != nil && (r.Namespace == nil || *r.Namespace == ""):
		o.DataSource = &corev1.TypedLocalObjectReference{APIGroup: r.APIGroup, Kind: r.Kind, Name: r.Name}
	}
}

func defaultSecret(o *corev1.Secret) {
	set(&o.Type, corev1.SecretTypeOpaque)
	for k, v := range o.StringData {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		o.Data[k] = []byte(v)
	}
	o.StringData = nil
}

func defaultNetworkPolicy(o *networkingv1.NetworkPolicy) {
	if len(o.Spec.PolicyTypes) == 0 {
		o.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(o.Spec.Egress) > 0 {
			o.Spec.PolicyTypes = append(o.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	for i := range o.Spec.Ingress {
		defaultPorts(o.Spec.Ingress[i].Ports)
	}
	for i := range o.Spec.Egress {
		defaultPorts(o.Spec.Egress[i].Ports)
	}
}

func defaultPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		setPointer(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

func defaultSubjects(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	set(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if subjects[i].Kind != rbacv1.ServiceAccountKind {
			set(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}
