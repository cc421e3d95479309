package controllers

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bootstrap creates the objects that every cluster has.
func (c *Controllers) Bootstrap() error {
	for _, name := range []string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
	} {
		if err := create(c, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	admin := metav1.ObjectMeta{Name: "cluster-admin"}
	err := create(c, namespaces, &rbacv1.ClusterRole{ObjectMeta: admin, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}})
	if err != nil {
		return err
	}
	view := []string{"get", "list", "watch"}
	err = create(c, namespaces, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: view, APIGroups: []string{""}, Resources: []string{
			"configmaps", "endpoints", "events", "limitranges", "namespaces", "persistentvolumeclaims", "pods",
			"pods/log", "pods/status",
			"resourcequotas", "serviceaccounts", "services",
		}},
		{Verbs: view, APIGroups: []string{"apps", "discovery.k8s.io", "networking.k8s.io"}, Resources: []string{"*"}},
	}})
	if err != nil {
		return err
	}
	return create(c, namespaces, &rbacv1.ClusterRoleBinding{
		ObjectMeta: admin,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: admin.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:masters"}},
	})
}
