package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

// openAPI returns a part of the description of the API: as much as tells kubectl that the server checks fields. The
// types of fields are not described.
func (s *Server) openAPI(path []string) any {
	type object = map[string]any
	if len(path) == 0 || path[0] != "v3" {
		return nil
	}
	if len(path) == 1 {
		paths := object{}
		for _, gv := range s.groupVersions() {
			prefix := prefixOf(gv)
			paths[prefix] = object{"serverRelativeURL": "/openapi/v3/" + prefix}
		}
		return object{"paths": paths}
	}
	paths := object{}
	for _, k := range s.catalog.Kinds {
		prefix := prefixOf(k.GroupVersion())
		if prefix != strings.Join(path[1:], "/") {
			continue
		}
		operation := object{
			"x-kubernetes-group-version-kind": object{"group": k.Group, "version": k.Version, "kind": k.Kind},
			"parameters": []any{
				object{"name": "dryRun", "in": "query"},
				object{"name": "fieldManager", "in": "query"},
				object{"name": "fieldValidation", "in": "query"},
				object{"name": "force", "in": "query"},
			},
			"responses": object{"200": object{"description": "OK"}},
		}
		paths["/"+prefix+pathOf(k)+"/{name}"] = object{"patch": operation}
	}
	if len(paths) == 0 {
		return nil
	}
	return object{
		"openapi": "3.0.0", "info": object{"title": "Kubernetes", "version": release}, "paths": paths,
		"components": object{"schemas": object{}},
	}
}

// prefixOf returns the first part of the paths of a version of a group.
func prefixOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// pathOf returns the path of the objects of a kind in its group.
func pathOf(k *kinds.Kind) string {
	if k.Namespaced {
		return "/namespaces/{namespace}/" + k.Plural
	}
	return "/" + k.Plural
}
