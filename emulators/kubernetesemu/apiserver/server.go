// Package apiserver serves the API of the embedded Kubernetes over HTTP, in the formats and with the errors of
// Kubernetes' API server. It does not decide what is stored; package registry does.
package apiserver

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"io"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/registry"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Options configure New; all are required.
type Options struct {
	Catalog  *kinds.Catalog
	Registry *registry.Registry
	// Kubelets reaches the kubelets of nodes as the API server.
	Kubelets http.RoundTripper
	// AccountKey signs the tokens of service accounts.
	AccountKey *ecdsa.PrivateKey
	// Stopping ends watches and streams.
	Stopping context.Context //nolint:containedctx // it is the server's life
}

// Server is an http.Handler.
type Server struct {
	catalog  *kinds.Catalog
	registry *registry.Registry
	kubelets http.RoundTripper
	tokens   *tokens
	pages    *store.Pages
	stopping context.Context //nolint:containedctx // see Options
}

// New returns a server.
func New(o Options) (*Server, error) {
	t, err := newTokens(o.AccountKey)
	if err != nil {
		return nil, err
	}
	return &Server{
		catalog: o.Catalog, registry: o.Registry, kubelets: o.Kubelets, tokens: t, pages: store.NewPages(),
		stopping: o.Stopping,
	}, nil
}

// call is a request to the API.
type call struct {
	*http.Request
	w          http.ResponseWriter
	accept     accept
	acceptable bool // the client reads the format of accept
	user       authenticationv1.UserInfo
	target     target
	verb       string
	check      func(o, old runtime.Object) error // whether the user may write an object
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Request: r, w: w}
	c.accept, c.acceptable = s.negotiate(r, false)
	w.Header().Set("Cache-Control", "no-cache, private")
	if err := s.serve(c); err != nil {
		c.accept.writeError(w, err)
	}
}

func (s *Server) serve(c *call) (err error) {
	if c.user, err = s.authenticate(c.Request); err != nil {
		return err
	}
	var isResource bool
	if c.target, isResource = s.parseTarget(c.URL.Path); !isResource {
		return s.serveOther(c)
	}
	c.verb = c.target.verb(c.Request)
	c.check = func(o, old runtime.Object) error { return s.checkRights(c, o, old) }
	if c.target.key.Name == "" && c.verb != "create" { // a rule about one name covers a list of that name
		c.target.named, _ = onlyName(c.URL.Query().Get("fieldSelector"))
	}
	if !s.allows(&c.user, attributesOf(c.target, c.verb)) {
		return forbid(c)
	}
	if c.target.kind == nil {
		return s.serveReview(c)
	}
	if c.target.kind.Custom {
		c.accept, c.acceptable = s.negotiate(c.Request, true)
	}
	return s.serveObjects(c)
}

// serveOther serves what is not about objects.
func (s *Server) serveOther(c *call) error {
	if !s.allowsPath(&c.user, c.Method, c.URL.Path) {
		return apierrors.NewForbidden(metav1.SchemeGroupVersion.WithResource("").GroupResource(), "",
			//nolint:staticcheck // Kubernetes' text
			fmt.Errorf("User %q cannot %s path %q", c.user.Username, verbOfPath(c.Method), c.URL.Path))
	}
	switch c.URL.Path {
	case "/readyz", "/healthz", "/livez":
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(c.w, "ok")
		return nil
	}
	return s.discover(c)
}

// serveObjects serves a request about stored objects.
func (s *Server) serveObjects(c *call) error {
	if !c.acceptable && c.target.subresource != "log" {
		return errNotAcceptable()
	}
	if serve, ok := s.subresource(c); ok {
		return serve(c)
	}
	switch c.target.subresource {
	case "":
		if c.target.key.Name == "" && (c.verb == "update" || c.verb == "patch") {
			return apierrors.NewMethodNotSupported(c.target.resource, c.verb)
		}
	case "status":
		if !c.target.kind.Status {
			return errNoPath()
		}
	case "scale":
		if !c.target.kind.Scale {
			return errNoPath()
		}
	default:
		return errNoPath()
	}
	switch c.verb {
	case "get":
		return s.get(c)
	case "list":
		return s.list(c)
	case "watch":
		return s.watch(c)
	case "create":
		return s.create(c)
	case "update":
		return s.update(c)
	case "patch":
		return s.patch(c)
	case "delete":
		return s.delete(c)
	case "deletecollection":
		return s.deleteCollection(c)
	}
	return apierrors.NewMethodNotSupported(c.target.resource, c.Method)
}

// errNoPath is the answer for paths that the API does not have.
func errNoPath() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}
