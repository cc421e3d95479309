//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeCases are about patches, concurrent writers and subresources.
func writeCases() map[string]func(*space) {
	return map[string]func(*space){
		"JSON patch":                  testJSONPatch,
		"merge patch":                 testMergePatch,
		"strategic merge patch":       testStrategicPatch,
		"no change":                   testNoChange,
		"conflicting updates":         testConflict,
		"concurrent patches":          testConcurrentPatches,
		"concurrent creations":        testConcurrentCreations,
		"status and spec":             testStatus,
		"scale":                       testScale,
		"binding":                     testBinding,
		"generation":                  testGeneration,
		"strings of a Secret":         testSecretStrings,
		"metadata in the answer only": testMetadataAnswer,
	}
}

func testJSONPatch(s *space) {
	s.create("configmaps", "metadata: {name: a, annotations: {c/d: e}}\ndata: {a: b}")
	a := s.must(call{verb: "JSON", path: "configmaps/a", body: `[
		{op: test, path: /data/a, value: b}, {op: replace, path: /data/a, value: c},
		{op: remove, path: /metadata/annotations/c~1d},
		{op: add, path: /data/f, value: g}, {op: copy, from: /data/f, path: /data/h}, {op: move, from: /data/f, path: /data/i}]`})
	s.want(a, map[string]any{"/data": map[string]string{"a": "c", "h": "g", "i": "g"}, "/metadata/annotations": nil})
}

func testMergePatch(s *space) {
	s.create("pods", "metadata: {name: a, labels: {a: b, c: d}}\n"+podSpec)
	a := s.must(call{verb: "MERGE", path: "pods/a", body: "metadata: {labels: {a: null, e: f}}\n" +
		"spec: {tolerations: [{key: k, operator: Exists}]}"})
	s.want(a, map[string]any{"/metadata/labels": map[string]string{"c": "d", "e": "f"}})
}

// testStrategicPatch merges lists by their keys, and removes with directives.
func testStrategicPatch(s *space) {
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, selector: {matchLabels: {app: a}}, "+
		"template: "+
		"{metadata: {labels: {app: a}}, spec: {containers: [{name: b, image: i, env: [{name: A, value: '1'}, "+
		"{name: B, value: '2'}], ports: [{containerPort: 80, name: p}]}, {name: c, image: j}]}}}")
	a := s.must(call{verb: "STRATEGIC", path: "apps/statefulsets/a", body: "spec: {template: {spec: {containers: [" +
		"{name: c, $patch: delete}, {name: b, env: [{name: B, $patch: delete}, {name: C, value: '3'}], " +
		"ports: [{containerPort: 81, name: q}]}]}}}"})
	const container = "/spec/template/spec/containers/0"
	s.want(a, map[string]any{
		"/spec/template/spec/containers/1": nil, container + "/image": "i",
		container + "/env/0":                 map[string]string{"name": "C", "value": "3"},
		container + "/env/1":                 map[string]string{"name": "A", "value": "1"},
		container + "/env/2":                 nil,
		container + "/ports/0/containerPort": 81, container + "/ports/1/containerPort": 80,
	})
}

// testNoChange sends what an object has already, which writes nothing.
func testNoChange(s *space) {
	before := s.create("configmaps", "metadata: {name: a, labels: {a: b}}\ndata: {a: b}")
	for _, r := range []call{
		{verb: "MERGE", body: "data: {a: b}"},
		{verb: "STRATEGIC", body: "metadata: {labels: {a: b}}"},
		{verb: "JSON", body: "[{op: replace, path: /data/a, value: b}]"},
		{verb: "PUT", body: string(before.body)},
	} {
		r.path = "configmaps/a"
		s.want(s.must(r), map[string]any{"/metadata/resourceVersion": before.at("/metadata/resourceVersion")})
	}
}

func testConflict(s *space) {
	first := s.create("configmaps", "metadata: {name: a}\ndata: {a: b}")
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: c}"})
	conflict := refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonConflict,
		message: `Operation cannot be fulfilled on configmaps "a": the object has been modified`,
	}
	s.refuses(call{verb: "PUT", path: "configmaps/a", body: string(first.body)}, conflict)
	version := first.text("/metadata/resourceVersion")
	for _, verb := range []string{"MERGE", "STRATEGIC"} {
		s.refuses(call{verb: verb, path: "configmaps/a", body: "{metadata: {resourceVersion: '" + version + "'}, " +
			"data: {a: d}}"},
			conflict)
	}
	// Without a version, the last writer wins.
	a := s.must(call{verb: "PUT", path: "configmaps/a", body: "metadata: {name: a}\ndata: {z: z}"})
	s.want(a, map[string]any{"/data": map[string]string{"z": "z"}})
	s.refuses(call{verb: "PUT", path: "configmaps/a", body: "metadata: {name: a, resourceVersion: none}"},
		refusal{code: http.StatusInternalServerError})
}

// concurrently calls run n times and waits.
func concurrently(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}

// testConcurrentPatches checks that no patch of a writer is lost: the server tries again for the client.
func testConcurrentPatches(s *space) {
	s.create("configmaps", "metadata: {name: a}")
	const writers, rounds = 4, 5
	concurrently(writers, func(i int) {
		for round := range rounds {
			verb := []string{"MERGE", "STRATEGIC"}[i%2]
			a := s.send(call{verb: verb, path: "configmaps/a", body: fmt.Sprintf("data: {w%d-%d: 'yes'}", i, round)})
			if err := a.err(); err != nil {
				s.Error(err)
			}
		}
	})
	data, _ := s.get("configmaps/a").at("/data").(map[string]any)
	if len(data) != writers*rounds {
		s.Errorf("%d writes are stored, want %d", len(data), writers*rounds)
	}
}

func testConcurrentCreations(s *space) {
	var mu sync.Mutex
	codes := map[int]int{}
	concurrently(8, func(int) {
		a := s.send(call{verb: "POST", path: "configmaps", body: "metadata: {name: a}"})
		mu.Lock()
		defer mu.Unlock()
		codes[a.code]++
	})
	if codes[http.StatusCreated] != 1 || codes[http.StatusConflict] != 7 {
		s.Errorf("answers to 8 creations: %v, want one success", codes)
	}
}

// testStatus checks that the object and its subresource status change separately.
func testStatus(s *space) {
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	a := s.must(call{verb: "MERGE", path: "pods/a", body: "status: {message: main}"})
	s.want(a, map[string]any{"/status/message": nil})
	a = s.must(call{verb: "STRATEGIC", path: "pods/a/status", body: "{metadata: {labels: {a: b}}, status: " +
		"{message: sub, " +
		"conditions: [{type: example.test/a, status: 'True'}]}, spec: {activeDeadlineSeconds: 7}}"})
	s.want(a, map[string]any{"/status/message": "sub", "/spec/activeDeadlineSeconds": nil})
	read := s.get("pods/a/status")
	s.want(read, map[string]any{"/kind": "Pod", "/status/message": "sub"})
	// A controller may write in between.
	s.eventually("the status can be replaced", func(ctx context.Context) error {
		now, err := s.admin.send(ctx, s.namespace, call{path: "pods/a/status"})
		if err != nil {
			return err
		}
		return s.is(ctx, call{verb: "PUT", path: "pods/a/status", body: string(now.body)}, http.StatusOK)
	})
}

func testScale(s *space) {
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
	scale := s.get("apps/statefulsets/a/scale")
	s.want(scale, map[string]any{
		"/kind": "Scale", "/apiVersion": "autoscaling/v1", "/metadata/name": "a", "/status/selector": "app=a",
		"/metadata/uid": s.get("apps/statefulsets/a").at("/metadata/uid"), "/spec/replicas": nil, "/status/replicas": 0,
	})
	s.want(s.must(call{verb: "MERGE", path: "apps/statefulsets/a/scale", body: "spec: {replicas: 2}"}), map[string]any{
		"/kind": "Scale", "/spec/replicas": 2,
	})
	s.want(s.get("apps/statefulsets/a"), map[string]any{"/spec/replicas": 2, "/metadata/generation": 2})
	s.want(s.must(call{
		verb: "PUT", path: "apps/statefulsets/a/scale",
		body: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a, namespace: '" + s.namespace + "'}, " +
			"spec: {replicas: 0}}",
	}), map[string]any{"/spec/replicas": nil})
	s.want(s.get("apps/statefulsets/a"), map[string]any{"/spec/replicas": 0})
	s.refuses(call{verb: "MERGE", path: "apps/statefulsets/a/scale", body: "spec: {replicas: -1}"},
		invalid("FieldValueInvalid spec.replicas"))
}

// testBinding binds a pod to a node as a scheduler does.
func testBinding(s *space) {
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	node := s.must(call{path: "/api/v1/nodes"}).names()[0]
	body := "{apiVersion: v1, kind: Binding, metadata: {name: a}, target: {apiVersion: v1, kind: Node, name: " +
		"" + node + "}}"
	bound := s.send(call{verb: "POST", path: "pods/a/binding", body: body})
	if bound.code != http.StatusCreated || bound.status().Status != metav1.StatusSuccess {
		s.Errorf("binding is answered %d: %s", bound.code, bound.body)
	}
	s.want(s.get("pods/a"), map[string]any{"/spec/nodeName": node})
	s.refuses(call{verb: "POST", path: "pods/a/binding", body: body}, refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonConflict, message: "is already assigned to node",
	})
}

// testGeneration checks that only changes of the spec count.
func testGeneration(s *space) {
	s.create("networking.k8s.io/networkpolicies", "metadata: {name: a}\nspec: {podSelector: {}}")
	const path = "networking.k8s.io/networkpolicies/a"
	a := s.must(call{verb: "MERGE", path: path, body: "metadata: {labels: {a: b}}"})
	s.want(a, map[string]any{"/metadata/generation": 1})
	a = s.must(call{verb: "MERGE", path: path, body: "spec: {podSelector: {matchLabels: {a: b}}}"})
	s.want(a, map[string]any{"/metadata/generation": 2})
}

func testSecretStrings(s *space) {
	a := s.create("secrets", "metadata: {name: a}\nstringData: {a: text}\ndata: {a: Yg==, c: ZA==}")
	s.want(a, map[string]any{
		"/data": map[string]string{"a": "dGV4dA==", "c": "ZA=="}, "/stringData": nil,
		"/type": "Opaque",
	})
}

// testMetadataAnswer asks for the metadata only of what a write stored, and for the objects of a list.
func testMetadataAnswer(s *space) {
	meta := accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	for _, r := range []call{
		{verb: "POST", path: "configmaps", body: "metadata: {name: a}\ndata: {a: b}"},
		{verb: "MERGE", path: "configmaps/a", body: "data: {a: c}"},
		{verb: "APPLY", path: "configmaps/a", query: "fieldManager=m", body: "{apiVersion: v1, kind: ConfigMap, " +
			"data: {d: e}}"},
	} {
		r.header = meta
		s.want(s.must(r), map[string]any{"/kind": "PartialObjectMetadata", "/metadata/name": "a", "/data": nil})
	}
	// A deletion answers with a Status, which has no metadata.
	gone := s.must(call{verb: "DELETE", path: "configmaps/a"})
	s.want(gone, map[string]any{
		"/kind": "Status", "/status": "Success", "/details/name": "a",
		"/details/kind": "configmaps",
	})
}
