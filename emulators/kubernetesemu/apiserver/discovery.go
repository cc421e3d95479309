package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"agents.example/controlplane/emulators/kubernetesemu/kinds"
)

// release is the release of Kubernetes whose behavior this server has.
const release = "v1.35.4"

// discover answers which API there is.
func (s *Server) discover(c *call) error {
	parts := strings.Split(strings.Trim(c.URL.Path, "/"), "/")
	var o any
	switch {
	case c.Method != http.MethodGet:
		return errNoPath()
	case len(parts) == 1 && parts[0] == "version":
		o = version.Info{
			Major: "1", Minor: "35", GitVersion: release + "-embedded", GoVersion: runtime.Version(),
			Compiler: runtime.Compiler,
			Platform: runtime.GOOS + "/" + runtime.GOARCH,
		}
	case len(parts) == 1 && parts[0] == "api":
		o = &metav1.APIVersions{TypeMeta: typeOf("APIVersions"), Versions: []string{"v1"}}
	case len(parts) == 1 && parts[0] == "apis":
		o = s.groups()
	case len(parts) == 2 && parts[0] == "apis":
		for _, g := range s.groups().Groups {
			if g.Name == parts[1] {
				g.TypeMeta = typeOf("APIGroup")
				o = &g
			}
		}
	case len(parts) == 2 && parts[0] == "api":
		o = s.resourceList(schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		o = s.resourceList(schema.GroupVersion{Group: parts[1], Version: parts[2]})
	case parts[0] == "openapi":
		o = s.openAPI(parts[1:])
	}
	if o == nil {
		return errNoPath()
	}
	c.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(c.w).Encode(o)
}

// typeOf returns the type of an answer about the API. Some clients do not know the version of such answers by name.
func typeOf(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }

// groupVersions returns all versions of groups, ordered.
func (s *Server) groupVersions() []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, k := range s.catalog.Kinds {
		all = append(all, k.GroupVersion())
	}
	for r := range reviewKinds() {
		all = append(all, r.GroupVersion())
	}
	slices.SortFunc(all, func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

func (s *Server) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: typeOf("APIGroupList")}
	for _, gv := range s.groupVersions() {
		if gv.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
	}
	return list
}

// resourceList returns the resources of a version of a group, or nil if there is none.
func (s *Server) resourceList(gv schema.GroupVersion) any {
	if !slices.Contains(s.groupVersions(), gv) {
		return nil
	}
	list := &metav1.APIResourceList{TypeMeta: typeOf("APIResourceList"), GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for _, k := range s.catalog.Kinds {
		if k.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, resourcesOf(k)...)
		}
	}
	for r, kind := range reviewKinds() {
		if r.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Resource, SingularName: strings.ToLower(kind), Kind: kind, Verbs: metav1.Verbs{"create"},
			})
		}
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// resourcesOf describes the resource of a kind and its subresources.
func resourcesOf(k *kinds.Kind) []metav1.APIResource {
	r := metav1.APIResource{
		Name: k.Plural, SingularName: strings.ToLower(k.Kind), Namespaced: k.Namespaced, Kind: k.Kind,
		Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
	}
	if k.Group == "" && k.Kind == "Namespace" {
		r.Verbs = slices.DeleteFunc(r.Verbs, func(verb string) bool { return verb == "deletecollection" })
	}
	if k.ShortName != "" {
		r.ShortNames = []string{k.ShortName}
	}
	switch k.Kind {
	case "Pod", "Service", "StatefulSet", "Deployment", "ReplicaSet":
		r.Categories = []string{"all"}
	}
	all := []metav1.APIResource{r}
	add := func(name, group, version, kind string, verbs ...string) {
		all = append(all, metav1.APIResource{
			Name: k.Plural + "/" + name, Namespaced: k.Namespaced, Group: group, Version: version, Kind: kind,
			Verbs: verbs,
		})
	}
	if k.Status {
		add("status", "", "", k.Kind, "get", "patch", "update")
	}
	if k.Scale {
		add("scale", "autoscaling", "v1", "Scale", "get", "patch", "update")
	}
	switch {
	case k.Group != "":
	case k.Kind == "Pod":
		add("log", "", "", "Pod", "get")
		add("exec", "", "", "PodExecOptions", "create", "get")
		add("attach", "", "", "PodAttachOptions", "create", "get")
		add("portforward", "", "", "PodPortForwardOptions", "create", "get")
		add("binding", "", "", "Binding", "create")
		add("eviction", "policy", "v1", "Eviction", "create")
	case k.Kind == "Namespace":
		add("finalize", "", "", "Namespace", "update")
	case k.Kind == "ServiceAccount":
		add("token", "authentication.k8s.io", "v1", "TokenRequest", "create")
	}
	return all
}
