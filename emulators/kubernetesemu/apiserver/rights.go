package apiserver

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/auth/rbac/validation"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// onlyName returns the name that a field selector demands of an object.
func onlyName(selector string) (string, bool) {
	parsed, err := fields.ParseSelector(selector)
	if err != nil {
		return "", false
	}
	return parsed.RequiresExactMatch("metadata.name")
}

// checkRights refuses an object that the user of a call may not write, although they may write such objects: an apply
// that creates, and rights that the user does not have. The store is locked, for writing.
func (s *Server) checkRights(c *call, o, old runtime.Object) error {
	if old == nil && c.verb == "patch" {
		create := *c
		create.verb = "create"
		if !s.allowsLocked(c, attributesOf(c.target, "create")) {
			return forbid(&create)
		}
	}
	var granted []rbacv1.PolicyRule
	switch o := o.(type) {
	case *rbacv1.Role:
		if before, ok := old.(*rbacv1.Role); ok && equality.Semantic.DeepEqual(before.Rules, o.Rules) {
			return nil
		}
		granted = o.Rules
	case *rbacv1.ClusterRole:
		if before, ok := old.(*rbacv1.ClusterRole); ok && equality.Semantic.DeepEqual(before.Rules, o.Rules) {
			return nil
		}
		granted = o.Rules
	case *rbacv1.RoleBinding:
		granted = s.roleRules(o.RoleRef, o.Namespace)
	case *rbacv1.ClusterRoleBinding:
		granted = s.roleRules(o.RoleRef, "")
	default:
		return nil
	}
	if s.allowsLocked(c, attributesOf(c.target, "escalate")) || s.allowsLocked(c, attributesOf(c.target, "bind")) {
		return nil
	}
	if covered, missing := validation.Covers(s.rulesLocked(&c.user, store.Meta(o).GetNamespace()), granted); !covered {
		return apierrors.NewForbidden(c.target.resource, c.target.key.Name, fmt.Errorf(
			"user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%v",
			c.user.Username, c.user.Groups, missing))
	}
	return nil
}
