package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// attributes are what roles decide by.
type attributes struct {
	verb, group, resource, subresource, namespace, name string
}

func attributesOf(t target, verb string) attributes {
	a := attributes{
		verb: verb, group: t.resource.Group, resource: t.resource.Resource, subresource: t.subresource,
		namespace: t.key.Namespace, name: cmp.Or(t.key.Name, t.named),
	}
	if t.resource.Group == "" && t.resource.Resource == "namespaces" {
		a.namespace = t.key.Name // roles in a namespace are about the namespace itself, too
	}
	return a
}

// path returns the resource with its subresource, as roles write it.
func (a attributes) path() string {
	if a.subresource == "" {
		return a.resource
	}
	return a.resource + "/" + a.subresource
}

// forbid returns the error of a call that no role of its user allows.
func forbid(c *call) error {
	a := attributesOf(c.target, c.verb)
	where := "at the cluster scope"
	if a.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.namespace)
	}
	//nolint:staticcheck // Kubernetes' text
	return apierrors.NewForbidden(c.target.resource, c.target.key.Name, fmt.Errorf(
		"User %q cannot %s resource %q in API group %q %s", c.user.Username, a.verb, a.path(), a.group, where))
}

// allows reports whether a role of the user allows a request.
func (s *Server) allows(user *authenticationv1.UserInfo, a attributes) bool {
	return a.allowedBy(s.rulesOf(user, a.namespace))
}

// allowsLocked does what allows does for the user of a call; the store is locked.
func (s *Server) allowsLocked(c *call, a attributes) bool {
	return a.allowedBy(s.rulesLocked(&c.user, a.namespace))
}

func (a attributes) allowedBy(rules []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return has(rule.Verbs, a.verb) && has(rule.APIGroups, a.group) && hasResource(rule.Resources, a) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.name))
	})
}

func has(values []string, value string) bool {
	return slices.Contains(values, "*") || slices.Contains(values, value)
}

func hasResource(resources []string, a attributes) bool {
	return has(resources, a.path()) || a.subresource != "" && slices.Contains(resources, "*/"+a.subresource)
}

// allowsPath reports whether a user may read a path that is not about objects.
func (s *Server) allowsPath(user *authenticationv1.UserInfo, method, path string) bool {
	return slices.ContainsFunc(s.rulesOf(user, ""), func(rule rbacv1.PolicyRule) bool {
		return has(rule.Verbs, verbOfPath(method)) && slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool {
			prefix, open := strings.CutSuffix(url, "*")
			return path == url || open && strings.HasPrefix(path, prefix)
		})
	})
}

func verbOfPath(method string) string {
	if method == http.MethodHead {
		return "get"
	}
	return strings.ToLower(method)
}

// rulesOf returns the rules of all roles that a user has in a namespace, or in the cluster where that is empty.
func (s *Server) rulesOf(user *authenticationv1.UserInfo, namespace string) []rbacv1.PolicyRule {
	s.registry.Store.RLock()
	defer s.registry.Store.RUnlock()
	return s.rulesLocked(user, namespace)
}

// rulesLocked does what rulesOf does; the store is locked.
func (s *Server) rulesLocked(user *authenticationv1.UserInfo, namespace string) []rbacv1.PolicyRule {
	if slices.Contains(user.Groups, groupMasters) {
		return []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		}
	}
	rules := commonRules(user)
	list := func(kind, namespace string) []runtime.Object {
		return s.registry.Store.List(s.catalog.Kind(rbacv1.SchemeGroupVersion.WithKind(kind)), namespace)
	}
	for _, o := range list("ClusterRoleBinding", "") {
		if b := o.(*rbacv1.ClusterRoleBinding); isSubject(b.Subjects, user, "") {
			rules = append(rules, s.roleRules(b.RoleRef, "")...)
		}
	}
	if namespace == "" {
		return rules
	}
	for _, o := range list("RoleBinding", namespace) {
		if b := o.(*rbacv1.RoleBinding); isSubject(b.Subjects, user, namespace) {
			rules = append(rules, s.roleRules(b.RoleRef, namespace)...)
		}
	}
	return rules
}

// roleRules returns the rules of a role; the store is locked.
func (s *Server) roleRules(ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	kind := s.catalog.Kind(rbacv1.SchemeGroupVersion.WithKind(ref.Kind))
	if kind == nil {
		return nil
	}
	key := store.Key{Name: ref.Name}
	if kind.Namespaced {
		key.Namespace = namespace
	}
	return rulesOf(s.registry.Store.Get(kind, key))
}

// rulesOf returns the rules of a role of either kind; none without a role.
func rulesOf(role runtime.Object) []rbacv1.PolicyRule {
	switch role := role.(type) {
	case *rbacv1.ClusterRole:
		return role.Rules
	case *rbacv1.Role:
		return role.Rules
	}
	return nil
}

func isSubject(subjects []rbacv1.Subject, user *authenticationv1.UserInfo, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.UserKind:
			return s.Name == user.Username
		case rbacv1.GroupKind:
			return slices.Contains(user.Groups, s.Name)
		case rbacv1.ServiceAccountKind:
			in := s.Namespace
			if in == "" {
				in = namespace
			}
			return user.Username == accountPrefix+in+":"+s.Name
		}
		return false
	})
}

// commonRules are those of the roles that every cluster grants to everyone: discovery, and reviews of themselves.
func commonRules(user *authenticationv1.UserInfo) []rbacv1.PolicyRule {
	public := rbacv1.PolicyRule{
		Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez", "/readyz", "/version", "/version/"},
	}
	if !slices.Contains(user.Groups, groupAuthenticated) {
		return []rbacv1.PolicyRule{public}
	}
	return []rbacv1.PolicyRule{
		public,
		{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*",
		}},
		{
			Verbs: []string{"create"}, APIGroups: []string{authorizationv1.GroupName},
			Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
		},
		{Verbs: []string{"create"}, APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"selfsubjectreviews"}},
	}
}
