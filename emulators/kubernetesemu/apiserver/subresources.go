package apiserver

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// subresource returns what serves a subresource that is no part of its object.
func (s *Server) subresource(c *call) (serve func(*call) error, ok bool) {
	if c.target.kind.Group != "" {
		return nil, false
	}
	switch c.Method + " " + c.target.kind.Plural + "/" + c.target.subresource {
	case "GET pods/log":
		return s.serveLog, true
	case "GET pods/exec", "POST pods/exec":
		return s.connect("exec"), true
	case "GET pods/attach", "POST pods/attach":
		return s.connect("attach"), true
	case "GET pods/portforward", "POST pods/portforward":
		return s.connect("portForward"), true
	case "POST pods/binding":
		return s.bind, true
	case "POST pods/eviction":
		return s.evict, true
	case "PUT namespaces/finalize":
		return s.finalize, true
	case "POST serviceaccounts/token":
		return s.createToken, true
	}
	return nil, false
}

// bind assigns a pod to a node.
func (s *Server) bind(c *call) error {
	binding := &corev1.Binding{}
	binding.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Binding"))
	q, _, err := s.readObject(c, binding)
	if err != nil {
		return err
	}
	if err := s.registry.Bind(q, binding.Target.Name); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, success())
}

// evict deletes a pod. Budgets of disruption do not exist here.
func (s *Server) evict(c *call) error {
	eviction := &policyv1.Eviction{}
	eviction.SetGroupVersionKind(policyv1.SchemeGroupVersion.WithKind("Eviction"))
	q, _, err := s.readObject(c, eviction)
	if err != nil {
		return err
	}
	options := metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	q.Subresource = ""
	if _, _, err := s.registry.Delete(q, options); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, success())
}

// finalize changes the finalizers of a namespace.
func (s *Server) finalize(c *call) error {
	q, o, err := s.readObject(c, c.target.kind.New())
	if err != nil {
		return err
	}
	wanted := o.(*corev1.Namespace)
	o, err = s.registry.Update(q, func(live runtime.Object) (runtime.Object, error) {
		n := live.(*corev1.Namespace)
		n.Spec.Finalizers = wanted.Spec.Finalizers
		if wanted.ResourceVersion != "" {
			n.ResourceVersion = wanted.ResourceVersion
		}
		return n, nil
	})
	return c.reply(o, err)
}

// createToken issues a token of a service account.
func (s *Server) createToken(c *call) error {
	_, body, err := c.writeRequest()
	if err != nil {
		return err
	}
	o, err := s.registry.Get(c.target.kind, c.target.key)
	if err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{}
	request.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	if _, err := s.decode(c, request, body); err != nil {
		return err
	}
	if err := s.tokens.issue(o.(*corev1.ServiceAccount), request); err != nil {
		return err
	}
	return c.answer(http.StatusCreated, request)
}

func success() *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: metav1.SchemeGroupVersion.Version},
		Status:   metav1.StatusSuccess, Code: http.StatusCreated,
	}
}
