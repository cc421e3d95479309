//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verbCases returns a case for each kind: all verbs, one after the other.
func verbCases() map[string]func(*space) {
	cases := map[string]func(*space){}
	for resource, k := range kinds() {
		cases[resource] = func(s *space) { testVerbs(s, resource, k) }
	}
	return cases
}

func testVerbs(s *space, resource string, k kind) {
	k.spec = strings.ReplaceAll(k.spec, "{ns}", s.namespace)
	name := s.namespace + "-a"
	path := k.collection + "/" + name
	labels := "{case: " + s.namespace + ", run: one}"
	notFound := refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound}
	s.refuses(call{path: path}, notFound)

	created := s.send(call{verb: "POST", path: k.collection, body: k.object(name, labels)})
	if created.code != http.StatusCreated {
		s.Fatalf("creation is answered %d: %s", created.code, created.body)
	}
	// A case that fails must not leave objects of the cluster.
	s.Cleanup(func() { _, _ = s.admin.send(context.Background(), s.namespace, call{verb: "DELETE", path: path}) })
	s.want(created, map[string]any{
		"/kind": k.kind, "/apiVersion": k.apiVersion, "/metadata/name": name, "/metadata/labels/run": "one",
		"/metadata/deletionTimestamp": nil, "/metadata/selfLink": nil,
	})
	if k.generation > 0 {
		s.want(created, map[string]any{"/metadata/generation": k.generation})
	}
	if k.finalizer != "" {
		s.want(created, map[string]any{"/metadata/finalizers": []string{k.finalizer}})
	}
	for _, field := range []string{"/metadata/uid", "/metadata/resourceVersion", "/metadata/creationTimestamp"} {
		if created.text(field) == "" {
			s.Errorf("the created object has no %s", field)
		}
	}
	exists := refusal{code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, message: "already exists"}
	s.want(s.refusedAs(call{verb: "POST", path: k.collection, body: k.object(name, labels)}, exists), map[string]any{
		"/details/name": name, "/details/kind": resource,
	})

	testReads(s, k, name)
	testWrites(s, k, path, name)

	s.deleteAll(k)
	s.awaitGone(path)
	s.refuses(call{verb: "DELETE", path: path}, notFound)
	s.refuses(call{verb: "MERGE", path: path, body: "metadata: {labels: {run: two}}"}, notFound)
}

// refusedAs returns the Status of a refusal as an object that want can look into.
func (s *space) refusedAs(r call, want refusal) answer {
	s.Helper()
	a := s.refuses(r, want)
	a.code = http.StatusOK
	return a
}

func testReads(s *space, k kind, name string) {
	selectors := map[string]bool{
		"labelSelector=case%3D" + s.namespace:                                             true,
		"labelSelector=case%3D" + s.namespace + "%2Crun+in+(one%2Cthree)%2C!no":           true,
		"labelSelector=case%3D" + s.namespace + "%2Crun!%3Done":                           false,
		"fieldSelector=metadata.name%3D" + name:                                           true,
		"fieldSelector=metadata.name!%3D" + name + "&labelSelector=case%3D" + s.namespace: false,
	}
	for query, found := range selectors {
		for _, path := range []string{k.collection, k.everywhere()} {
			list := s.must(call{path: path, query: query})
			s.want(list, map[string]any{
				"/kind": k.kind + "List", "/apiVersion": k.apiVersion,
			})
			if list.text("/metadata/continue") != "" {
				s.Error("a list of all objects goes on")
			}
			if list.text("/metadata/resourceVersion") == "" {
				s.Error("a list has no resourceVersion")
			}
			if names := list.names(); found != (len(names) == 1 && names[0] == name) || !found && len(names) != 0 {
				s.Errorf("%s?%s has %q, want %s: %t", path, query, names, name, found)
			}
			// The kind of items is left out, except for custom resources.
			item := map[string]any{"/items/0/kind": nil, "/items/0/apiVersion": nil}
			if k.custom && found {
				item = map[string]any{"/items/0/kind": k.kind, "/items/0/apiVersion": k.apiVersion}
			}
			s.want(list, item)
		}
	}
	const as = "application/json;as=PartialObjectMetadata"
	meta := s.must(call{path: k.collection + "/" + name, header: accept(as + ";g=meta.k8s.io;v=v1")})
	s.want(meta, map[string]any{
		"/kind": "PartialObjectMetadata", "/apiVersion": "meta.k8s.io/v1", "/metadata/name": name, "/spec": nil,
		"/data": nil,
	})
	list := s.must(call{
		path: k.collection, query: "labelSelector=case%3D" + s.namespace, header: accept(as +
			"List;g=meta.k8s.io;v=v1"),
	})
	s.want(list, map[string]any{"/kind": "PartialObjectMetadataList", "/items/0/metadata/name": name})
}

// accept returns the header of a call for a representation.
func accept(contentType string) map[string]string { return map[string]string{"Accept": contentType} }

func testWrites(s *space, k kind, path, name string) {
	s.must(call{verb: "MERGE", path: path, body: "metadata: {annotations: {merged: '1'}}"})
	strategic := call{verb: "STRATEGIC", path: path, body: "metadata: {annotations: {strategic: '1'}}"}
	if k.custom {
		s.refuses(strategic, refusal{
			code: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType,
		})
		strategic.verb = "MERGE"
	}
	s.must(strategic)
	patched := s.must(call{verb: "JSON", path: path, body: "[{op: add, path: /metadata/annotations/json, value: '1'}]"})
	s.want(patched, map[string]any{
		"/metadata/annotations/merged": "1", "/metadata/annotations/strategic": "1", "/metadata/annotations/json": "1",
	})
	// A controller may write in between, which a client answers with a new attempt.
	s.eventually("the object can be updated", func(ctx context.Context) error {
		before, err := s.admin.send(ctx, s.namespace, call{path: path})
		if err != nil {
			return err
		}
		body := strings.Replace(string(before.body), `"merged":"1"`, `"merged":"2"`, 1)
		updated, err := s.admin.send(ctx, s.namespace, call{verb: "PUT", path: path, body: body})
		if err == nil && updated.err() == nil && updated.text("/metadata/annotations/merged") != "2" {
			s.Errorf("the updated object is %s", updated.body)
		}
		return errorOf(updated, err)
	})
	object := "apiVersion: " + k.apiVersion + "\nkind: " + k.kind +
		"\nmetadata: {name: " + name + ", annotations: {applied: '1'}}\n"
	applied := s.apply("tester", path, object)
	s.want(applied, map[string]any{"/metadata/annotations/applied": "1", "/metadata/annotations/merged": "2"})
	entry := `"manager":"tester","operation":"Apply","apiVersion":"` + k.apiVersion + `"`
	if k.custom { // whose fields are sorted
		entry = `"manager":"tester","operation":"Apply"`
	}
	if !strings.Contains(string(applied.body), entry) {
		s.Errorf("managedFields do not name the manager of an apply: %s", applied.body)
	}
}

// errorOf returns the error of a request or of its answer.
func errorOf(a answer, err error) error {
	if err != nil {
		return err
	}
	return a.err()
}

// deleteAll deletes the objects of the case: together, or one by one for namespaces, which have no such verb.
func (s *space) deleteAll(k kind) {
	s.Helper()
	query := "labelSelector=case%3D" + s.namespace
	if k.kind != "Namespace" {
		s.must(call{verb: "DELETE", path: k.collection, query: query})
		return
	}
	s.refuses(call{verb: "DELETE", path: k.collection, query: query}, refusal{
		code: http.StatusMethodNotAllowed, reason: metav1.StatusReasonMethodNotAllowed,
	})
	a := s.must(call{verb: "DELETE", path: fmt.Sprintf("%s/%s-a", k.collection, s.namespace)})
	s.want(a, map[string]any{"/status/phase": "Terminating", "/kind": "Namespace"})
}
