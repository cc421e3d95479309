package bootstrap

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator/realnode"
)

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
