package kubeclient

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The kinds of the client. An empty namespace means all namespaces, to list and to watch.

// Namespaces returns the client of Namespaces of the cluster.
func (c *Client) Namespaces() Kind[*corev1.Namespace, *corev1.NamespaceList] {
	return kindOf[corev1.Namespace, corev1.NamespaceList](c, resource{corev1.SchemeGroupVersion, "namespaces", "Namespace"}, "")
}

// Nodes returns the client of Nodes of the cluster.
func (c *Client) Nodes() Kind[*corev1.Node, *corev1.NodeList] {
	return kindOf[corev1.Node, corev1.NodeList](c, resource{corev1.SchemeGroupVersion, "nodes", "Node"}, "")
}

// PersistentVolumes returns the client of PersistentVolumes of the cluster.
func (c *Client) PersistentVolumes() Kind[*corev1.PersistentVolume, *corev1.PersistentVolumeList] {
	return kindOf[corev1.PersistentVolume, corev1.PersistentVolumeList](c, resource{corev1.SchemeGroupVersion, "persistentvolumes", "PersistentVolume"}, "")
}

// Pods returns the client of Pods in a namespace.
func (c *Client) Pods(namespace string) Kind[*corev1.Pod, *corev1.PodList] {
	return kindOf[corev1.Pod, corev1.PodList](c, resource{corev1.SchemeGroupVersion, "pods", "Pod"}, namespace)
}

// Services returns the client of Services in a namespace.
func (c *Client) Services(namespace string) Kind[*corev1.Service, *corev1.ServiceList] {
	return kindOf[corev1.Service, corev1.ServiceList](c, resource{corev1.SchemeGroupVersion, "services", "Service"}, namespace)
}

// ConfigMaps returns the client of ConfigMaps in a namespace.
func (c *Client) ConfigMaps(namespace string) Kind[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return kindOf[corev1.ConfigMap, corev1.ConfigMapList](c, resource{corev1.SchemeGroupVersion, "configmaps", "ConfigMap"}, namespace)
}

// Secrets returns the client of Secrets in a namespace.
func (c *Client) Secrets(namespace string) Kind[*corev1.Secret, *corev1.SecretList] {
	return kindOf[corev1.Secret, corev1.SecretList](c, resource{corev1.SchemeGroupVersion, "secrets", "Secret"}, namespace)
}

// ServiceAccounts returns the client of ServiceAccounts in a namespace.
func (c *Client) ServiceAccounts(namespace string) Kind[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
	return kindOf[corev1.ServiceAccount, corev1.ServiceAccountList](c, resource{corev1.SchemeGroupVersion, "serviceaccounts", "ServiceAccount"}, namespace)
}

// PersistentVolumeClaims returns the client of PersistentVolumeClaims in a namespace.
func (c *Client) PersistentVolumeClaims(namespace string) Kind[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
	return kindOf[corev1.PersistentVolumeClaim, corev1.PersistentVolumeClaimList](c, resource{corev1.SchemeGroupVersion, "persistentvolumeclaims", "PersistentVolumeClaim"}, namespace)
}

// ResourceQuotas returns the client of ResourceQuotas in a namespace.
func (c *Client) ResourceQuotas(namespace string) Kind[*corev1.ResourceQuota, *corev1.ResourceQuotaList] {
	return kindOf[corev1.ResourceQuota, corev1.ResourceQuotaList](c, resource{corev1.SchemeGroupVersion, "resourcequotas", "ResourceQuota"}, namespace)
}

// Events returns the client of Events in a namespace.
func (c *Client) Events(namespace string) Kind[*corev1.Event, *corev1.EventList] {
	return kindOf[corev1.Event, corev1.EventList](c, resource{corev1.SchemeGroupVersion, "events", "Event"}, namespace)
}

// StatefulSets returns the client of StatefulSets in a namespace.
func (c *Client) StatefulSets(namespace string) Kind[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return kindOf[appsv1.StatefulSet, appsv1.StatefulSetList](c, resource{appsv1.SchemeGroupVersion, "statefulsets", "StatefulSet"}, namespace)
}

// Deployments returns the client of Deployments in a namespace.
func (c *Client) Deployments(namespace string) Kind[*appsv1.Deployment, *appsv1.DeploymentList] {
	return kindOf[appsv1.Deployment, appsv1.DeploymentList](c, resource{appsv1.SchemeGroupVersion, "deployments", "Deployment"}, namespace)
}

// EndpointSlices returns the client of EndpointSlices in a namespace.
func (c *Client) EndpointSlices(namespace string) Kind[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return kindOf[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](c, resource{discoveryv1.SchemeGroupVersion, "endpointslices", "EndpointSlice"}, namespace)
}

// NetworkPolicies returns the client of NetworkPolicies in a namespace.
func (c *Client) NetworkPolicies(namespace string) Kind[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
	return kindOf[networkingv1.NetworkPolicy, networkingv1.NetworkPolicyList](c, resource{networkingv1.SchemeGroupVersion, "networkpolicies", "NetworkPolicy"}, namespace)
}

// RuntimeClasses returns the client of RuntimeClasses of the cluster.
func (c *Client) RuntimeClasses() Kind[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] {
	return kindOf[nodev1.RuntimeClass, nodev1.RuntimeClassList](c, resource{nodev1.SchemeGroupVersion, "runtimeclasses", "RuntimeClass"}, "")
}

// StorageClasses returns the client of StorageClasses of the cluster.
func (c *Client) StorageClasses() Kind[*storagev1.StorageClass, *storagev1.StorageClassList] {
	return kindOf[storagev1.StorageClass, storagev1.StorageClassList](c, resource{storagev1.SchemeGroupVersion, "storageclasses", "StorageClass"}, "")
}

// Roles returns the client of Roles in a namespace.
func (c *Client) Roles(namespace string) Kind[*rbacv1.Role, *rbacv1.RoleList] {
	return kindOf[rbacv1.Role, rbacv1.RoleList](c, resource{rbacv1.SchemeGroupVersion, "roles", "Role"}, namespace)
}

// RoleBindings returns the client of RoleBindings in a namespace.
func (c *Client) RoleBindings(namespace string) Kind[*rbacv1.RoleBinding, *rbacv1.RoleBindingList] {
	return kindOf[rbacv1.RoleBinding, rbacv1.RoleBindingList](c, resource{rbacv1.SchemeGroupVersion, "rolebindings", "RoleBinding"}, namespace)
}

// ClusterRoles returns the client of ClusterRoles of the cluster.
func (c *Client) ClusterRoles() Kind[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList] {
	return kindOf[rbacv1.ClusterRole, rbacv1.ClusterRoleList](c, resource{rbacv1.SchemeGroupVersion, "clusterroles", "ClusterRole"}, "")
}

// ClusterRoleBindings returns the client of ClusterRoleBindings of the cluster.
func (c *Client) ClusterRoleBindings() Kind[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList] {
	return kindOf[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](c, resource{rbacv1.SchemeGroupVersion, "clusterrolebindings", "ClusterRoleBinding"}, "")
}
