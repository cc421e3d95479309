//go:build unix

package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discoveryCases are about what a server says of itself, and the tables that kubectl prints.
func discoveryCases() map[string]func(*space) {
	return map[string]func(*space){
		"versions and groups":  testGroups,
		"resources":            testResources,
		"aggregated discovery": testAggregatedDiscovery,
		"health and version":   testHealth,
		"unknown paths":        testUnknownPaths,
		"OpenAPI":              testOpenAPI,
		"table of pods":        testPodTable,
		"tables":               testTables,
		"watch of a table":     testTableWatch,
	}
}

func testGroups(s *space) {
	s.want(s.get("/api"), map[string]any{"/kind": "APIVersions", "/versions": []string{"v1"}})
	groups := s.get("/apis")
	s.want(groups, map[string]any{"/kind": "APIGroupList", "/apiVersion": "v1"})
	var list metav1.APIGroupList
	if err := json.Unmarshal(groups.body, &list); err != nil {
		s.Fatal(err)
	}
	for _, name := range []string{
		"apps", "authorization.k8s.io", "authentication.k8s.io", "networking.k8s.io", "discovery.k8s.io",
		"node.k8s.io", "storage.k8s.io", "scheduling.k8s.io", rbacGroup, "admissionregistration.k8s.io",
	} {
		i := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == name })
		if i < 0 {
			s.Errorf("there is no group %s", name)
			continue
		}
		if !slices.ContainsFunc(list.Groups[i].Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == "v1" }) {
			s.Errorf("group %s has no v1: %+v", name, list.Groups[i])
		}
	}
	s.want(s.get("/apis/apps"), map[string]any{
		"/kind": "APIGroup", "/name": "apps", "/preferredVersion/groupVersion": "apps/v1",
	})
}

// resourcesOf returns the resources of a group and version by their names.
func (s *space) resourcesOf(path string) map[string]metav1.APIResource {
	s.Helper()
	var list metav1.APIResourceList
	if err := json.Unmarshal(s.get(path).body, &list); err != nil {
		s.Fatal(err)
	}
	resources := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		resources[r.Name] = r
	}
	return resources
}

func testResources(s *space) {
	all := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	for resource, k := range kinds() {
		path, _, _ := strings.Cut(expand(k.everywhere(), ""), "/"+resource)
		got := s.resourcesOf(path)[resource]
		verbs := slices.Sorted(slices.Values(got.Verbs))
		want := all
		if k.kind == "Namespace" { // has no deletion of a collection
			want = slices.DeleteFunc(slices.Clone(all), func(verb string) bool { return verb == "deletecollection" })
		}
		if got.Kind != k.kind || got.Namespaced == strings.HasPrefix(k.collection, "/") || !slices.Equal(verbs, want) {
			s.Errorf("resource %s of %s is %+v", resource, path, got)
		}
	}
	core, apps := s.resourcesOf("/api/v1"), s.resourcesOf("/apis/apps/v1")
	for name, kind := range map[string]string{
		"pods/log": "Pod", "pods/status": "Pod", "pods/binding": "Binding", "pods/exec": "PodExecOptions",
		"pods/portforward": "PodPortForwardOptions", "namespaces/finalize": "Namespace",
		"serviceaccounts/token":         "TokenRequest",
		"persistentvolumeclaims/status": "PersistentVolumeClaim",
	} {
		if core[name].Kind != kind {
			s.Errorf("subresource %s is %+v", name, core[name])
		}
	}
	scale := apps["statefulsets/scale"]
	if scale.Kind != "Scale" || scale.Group != "autoscaling" || scale.Version != "v1" {
		s.Errorf("subresource scale is %+v", scale)
	}
	if pods := core["pods"]; !slices.Equal(pods.ShortNames, []string{"po"}) || pods.SingularName != "pod" ||
		!slices.Equal(pods.Categories, []string{"all"}) {
		s.Errorf("names of pods: %+v", pods)
	}
}

func testAggregatedDiscovery(s *space) {
	const form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for path, group := range map[string]string{"/api": "", "/apis": "apps"} {
		a := s.must(call{path: path, header: accept(form + ",application/json")})
		if got := a.header.Get("Content-Type"); got != form {
			s.Errorf("%s has the type %q, want %q", path, got, form)
		}
		s.want(a, map[string]any{"/kind": "APIGroupDiscoveryList", "/apiVersion": "apidiscovery.k8s.io/v2"})
		if want := fmt.Sprintf(`"metadata":{"name":%q`, group); group != "" && !strings.Contains(string(a.body), want) {
			s.Errorf("%s does not have the group %s", path, group)
		}
		if !strings.Contains(string(a.body), `"responseKind":{"group":`) {
			s.Errorf("%s has no kinds of resources", path)
		}
	}
}

func testHealth(s *space) {
	s.awaitHealth()
	version := s.get("/version")
	if version.text("/major") != "1" || !strings.HasPrefix(version.text("/gitVersion"),
		"v1.") || version.text("/minor") == "" {
		s.Errorf("version %s", version.body)
	}
}

func testUnknownPaths(s *space) {
	for _, r := range []call{
		{path: "none"},
		{path: "/api/v2"},
		{path: "/apis/none.example.test/v1"},
		{path: "/apis/apps/v2/statefulsets"},
		{path: "apps/none"},
		{path: "pods/a/none"},
		post("none", "metadata: {name: a}"),
		{verb: "MERGE", path: "apps/none/a", body: "{}"},
	} {
		if a := s.send(r); a.code != http.StatusNotFound {
			s.Errorf("%s %s is answered %d", r.verb, r.path, a.code)
		}
	}
}

// testOpenAPI checks that kubectl finds the schemas by which it validates and explains.
func testOpenAPI(s *space) {
	v3 := s.get("/openapi/v3")
	for _, path := range []string{"api~1v1", "apis~1apps~1v1"} {
		document := v3.text("/paths/" + path + "/serverRelativeURL")
		if document == "" {
			s.Errorf("OpenAPI has no %s", path)
			continue
		}
		at, query, _ := strings.Cut(document, "?")
		if a := s.must(call{path: at, query: query}); a.at("/components/schemas") == nil {
			s.Errorf("%s has no schemas", document)
		}
	}
	v2 := s.must(call{path: "/openapi/v2"})
	if v2.at("/definitions/io.k8s.api.core.v1.Pod") == nil {
		s.Error("OpenAPI v2 does not define Pod")
	}
	const protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	binary := s.must(call{path: "/openapi/v2", header: accept(protobuf)})
	if len(binary.body) == 0 || binary.body[0] == '{' {
		s.Errorf("OpenAPI v2 as protobuf is %.40q", binary.body)
	}
}

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

// table reads a path as a table.
func (s *space) table(path, query string) (columns []string, rows map[string]map[string]any) {
	s.Helper()
	a := s.must(call{path: path, query: query, header: accept(asTable)})
	s.want(a, map[string]any{"/kind": "Table", "/apiVersion": "meta.k8s.io/v1"})
	var t struct {
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct {
			Cells  []any
			Object metav1.PartialObjectMetadata
		}
	}
	if err := json.Unmarshal(a.body, &t); err != nil {
		s.Fatal(err)
	}
	rows = map[string]map[string]any{}
	for _, column := range t.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	for _, row := range t.Rows {
		if row.Object.Kind != "PartialObjectMetadata" || len(row.Cells) != len(columns) {
			s.Errorf("row %+v of %s with columns %q", row, path, columns)
			continue
		}
		rows[row.Object.Name] = map[string]any{}
		for i, cell := range row.Cells {
			rows[row.Object.Name][columns[i]] = cell
		}
	}
	return columns, rows
}

func testPodTable(s *space) {
	s.create("pods", runningPod("a"), "metadata: {name: b}\n"+podSpec)
	pod := s.await("pods/a", ready())
	columns, rows := s.table("pods", "")
	want := []string{"Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"}
	if !slices.Equal(columns, want) {
		s.Errorf("columns of pods %q, want %q", columns, want)
	}
	for name, cells := range map[string]map[string]any{
		"a": {
			"Name": "a", "Ready": "1/1", "Status": "Running", "Restarts": "0", "IP": pod.text("/status/podIP"),
			"Node": pod.text("/spec/nodeName"),
		},
		"b": {"Name": "b", "Ready": "0/1", "Status": "Pending", "Restarts": "0", "IP": "<none>", "Node": "<none>"},
	} {
		for column, cell := range cells {
			if rows[name][column] != cell {
				s.Errorf("%s of pod %s is %v, want %v", column, name, rows[name][column], cell)
			}
		}
		if age, _ := rows[name]["Age"].(string); !strings.HasSuffix(age, "s") {
			s.Errorf("age of pod %s is %v", name, rows[name]["Age"])
		}
	}
	if _, one := s.table("pods/a", "includeObject=Metadata"); len(one) != 1 {
		s.Errorf("table of one pod: %v", one)
	}
	s.must(call{verb: "MERGE", path: "pods/b", body: "metadata: {finalizers: [example.test/wait]}"})
	s.must(call{verb: "DELETE", path: "pods/b"})
	if _, rows := s.table("pods", ""); rows["b"]["Status"] != "Terminating" {
		s.Errorf("status of a pod that is being deleted: %v", rows["b"]["Status"])
	}
	s.must(call{verb: "MERGE", path: "pods/b", body: "metadata: {finalizers: null}"})
}

func testTables(s *space) {
	s.create("configmaps", "metadata: {name: a}\ndata: {a: b, c: d}")
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
	s.create("services", "metadata: {name: a}\nspec: {clusterIP: None, ports: [{port: 80}]}")
	for path, want := range map[string]struct {
		columns []string
		cells   map[string]any
	}{
		"configmaps": {columns: []string{"Name", "Data", "Age"}, cells: map[string]any{"Data": float64(2)}},
		"apps/statefulsets": {
			columns: []string{"Name", "Ready", "Age", "Containers", "Images"},
			cells:   map[string]any{"Ready": "0/0", "Containers": "main", "Images": image},
		},
		"services": {
			columns: []string{"Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"},
			cells: map[string]any{
				"Type": "ClusterIP", "Cluster-IP": "None", "External-IP": "<none>",
				"Port(s)": "80/TCP",
			},
		},
	} {
		columns, rows := s.table(path, "")
		if !slices.Equal(columns, want.columns) {
			s.Errorf("columns of %s %q, want %q", path, columns, want.columns)
		}
		for column, cell := range want.cells {
			if rows["a"][column] != cell {
				s.Errorf("%s of %s is %v, want %v", column, path, rows["a"][column], cell)
			}
		}
	}
	_, namespaces := s.table("/api/v1/namespaces", "fieldSelector=metadata.name%3D"+s.namespace)
	if namespaces[s.namespace]["Status"] != "Active" {
		s.Errorf("row of the namespace: %v", namespaces)
	}
}

func testTableWatch(s *space) {
	w := s.watch("configmaps", "resourceVersion="+s.version("configmaps"), accept(asTable))
	s.create("configmaps", "metadata: {name: a}")
	event := w.next()
	s.want(event.answer(), map[string]any{
		"/kind": "Table", "/columnDefinitions/0/name": "Name", "/rows/0/cells/0": "a",
		"/rows/0/object/metadata/name": "a",
	})
	s.must(call{verb: "DELETE", path: "configmaps/a"})
	event = w.next()
	if event.Type != "DELETED" {
		s.Errorf("event %s, want the deletion", event.Type)
	}
	s.want(event.answer(), map[string]any{"/kind": "Table", "/columnDefinitions": nil, "/rows/0/cells/0": "a"})
}
