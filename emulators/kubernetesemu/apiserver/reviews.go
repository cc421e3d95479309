package apiserver

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reviewKinds are the kinds of questions to the API, by their resources. They are answered and not stored.
func reviewKinds() map[schema.GroupVersionResource]string {
	access, identity := authorizationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion
	return map[schema.GroupVersionResource]string{
		access.WithResource("selfsubjectaccessreviews"): "SelfSubjectAccessReview",
		access.WithResource("selfsubjectrulesreviews"):  "SelfSubjectRulesReview",
		access.WithResource("subjectaccessreviews"):     "SubjectAccessReview",
		identity.WithResource("selfsubjectreviews"):     "SelfSubjectReview",
		identity.WithResource("tokenreviews"):           "TokenReview",
	}
}

// serveReview answers a question.
func (s *Server) serveReview(c *call) error {
	gvr := c.target.resource.WithVersion(c.target.version)
	kind, ok := reviewKinds()[gvr]
	if !ok || c.target.subresource != "" || c.target.key.Name != "" {
		return errNoPath()
	}
	if c.verb != "create" {
		return apierrors.NewMethodNotSupported(c.target.resource, c.Method)
	}
	_, body, err := c.writeRequest()
	if err != nil {
		return err
	}
	o, err := s.catalog.Scheme.New(gvr.GroupVersion().WithKind(kind))
	if err != nil {
		return err
	}
	o.GetObjectKind().SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	if o, err = s.decode(c, o, body); err != nil {
		return err
	}
	s.review(c, o)
	return c.answer(http.StatusCreated, o)
}

// review completes a question with its answer.
func (s *Server) review(c *call, o runtime.Object) {
	switch o := o.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		o.Status = s.access(&c.user, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		user := authenticationv1.UserInfo{Username: o.Spec.User, Groups: o.Spec.Groups, UID: o.Spec.UID}
		o.Status = s.access(&user, o.Spec.ResourceAttributes, o.Spec.NonResourceAttributes)
	case *authorizationv1.SelfSubjectRulesReview:
		o.Status = rulesStatus(s.rulesOf(&c.user, o.Spec.Namespace))
	case *authenticationv1.SelfSubjectReview:
		o.Status.UserInfo = c.user
	case *authenticationv1.TokenReview:
		user, err := s.userOfToken(o.Spec.Token, o.Spec.Audiences)
		o.Status = authenticationv1.TokenReviewStatus{Authenticated: err == nil, User: user}
		if err != nil {
			o.Status.Error = err.Error()
		}
	}
}

func (s *Server) access(user *authenticationv1.UserInfo, about *authorizationv1.ResourceAttributes,
	path *authorizationv1.NonResourceAttributes,
) authorizationv1.SubjectAccessReviewStatus {
	allowed := false
	switch {
	case about != nil:
		allowed = s.allows(user, attributes{
			about.Verb, about.Group, about.Resource, about.Subresource, about.Namespace, about.Name,
		})
	case path != nil:
		allowed = s.allowsPath(user, path.Verb, path.Path)
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}
}

func rulesStatus(rules []rbacv1.PolicyRule) authorizationv1.SubjectRulesReviewStatus {
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	for _, r := range rules {
		if len(r.Resources) > 0 {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if len(r.NonResourceURLs) > 0 {
			status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
				Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs,
			})
		}
	}
	return status
}
