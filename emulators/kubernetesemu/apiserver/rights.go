package apiserver

import (
	"fmt"
	"strings"

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
	granted, anyway, ok := s.granted(c, o, old)
	if !ok || s.allowsLocked(c, anyway) {
		return nil
	}
	if covered, missing := validation.Covers(s.rulesLocked(&c.user, store.Meta(o).GetNamespace()), granted); !covered {
		return apierrors.NewForbidden(c.target.resource, c.target.key.Name, fmt.Errorf(
			"user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%v",
			c.user.Username, c.user.Groups, missing))
	}
	return nil
}

// granted returns the rights that writing an object grants, and the right that allows to grant them without having
// them. It reports false where nothing new is granted.
func (s *Server) granted(c *call, o, old runtime.Object) (granted []rbacv1.PolicyRule, anyway attributes, ok bool) {
	switch o := o.(type) {
	case *rbacv1.Role, *rbacv1.ClusterRole:
		granted = rulesOf(o)
		return granted, attributesOf(c.target, "escalate"), !equality.Semantic.DeepEqual(rulesOf(old), granted)
	case *rbacv1.RoleBinding:
		return s.roleRules(o.RoleRef, o.Namespace), bind(o.RoleRef, o.Namespace), true
	case *rbacv1.ClusterRoleBinding:
		return s.roleRules(o.RoleRef, ""), bind(o.RoleRef, ""), true
	default:
		return nil, attributes{}, false
	}
}

// bind is the right to give others the rights of a role, in a namespace or everywhere.
func bind(role rbacv1.RoleRef, namespace string) attributes {
	return attributes{
		verb: "bind", group: role.APIGroup, resource: strings.ToLower(role.Kind) + "s",
		namespace: namespace, name: role.Name,
	}
}
