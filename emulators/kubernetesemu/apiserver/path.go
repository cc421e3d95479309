package apiserver

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// target is what the path of a request names.
type target struct {
	kind        *kinds.Kind
	resource    schema.GroupResource // of kind, or of a review, which is no stored object
	version     string
	key         store.Key
	subresource string
	named       string // the only name that a list or a watch selects; may be empty
}

// parseTarget returns what a path names. It reports false for paths that are not about objects.
func (s *Server) parseTarget(path string) (t target, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return t, false
	}
	if parts[0] == "namespaces" && len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
		t.key.Namespace, parts = parts[1], parts[2:]
	}
	t.resource, t.version = schema.GroupResource{Group: gv.Group, Resource: parts[0]}, gv.Version
	t.kind = s.catalog.Resource(gv.WithResource(parts[0]))
	if len(parts) > 1 {
		t.key.Name = parts[1]
	}
	t.subresource = strings.Join(parts[min(len(parts), 2):], "/")
	if t.kind != nil && !t.kind.Namespaced && t.key.Namespace != "" {
		return t, false
	}
	return t, true
}

// verb returns what a request does, as roles call it.
func (t target) verb(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case isTrue(r.URL.Query().Get("watch")):
			return "watch"
		case t.key.Name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if t.key.Name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return ""
}

func isTrue(parameter string) bool { return parameter == "true" || parameter == "1" }
