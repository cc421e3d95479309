//go:build unix

package apitest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watchCases are about watches of JSON. clients.go has watches of protobuf.
func watchCases() map[string]func(*space) {
	return map[string]func(*space){
		"events":              testWatchEvents,
		"label selector":      testWatchLabels,
		"field selector":      testWatchFields,
		"resumption":          testWatchResumes,
		"initial events":      testInitialEvents,
		"malformed options":   testInitialOptions,
		"metadata":            testWatchMetadata,
		"ancient version":     testWatchExpired,
		"future version":      testFutureVersion,
		"end":                 testWatchEnds,
		"order among writers": testWatchOrder,
		"pods":                testWatchPods,
	}
}

func testWatchEvents(s *space) {
	w := s.watch("configmaps", "resourceVersion="+s.version("configmaps"), nil)
	created := s.create("configmaps", "metadata: {name: a}\ndata: {a: b}")
	changed := s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: c}"})
	s.must(call{verb: "DELETE", path: "configmaps/a"})
	s.want(w.wants("ADDED a").answer(), map[string]any{
		"/kind": "ConfigMap", "/apiVersion": "v1", "/data/a": "b",
		"/metadata/resourceVersion": created.at("/metadata/resourceVersion"),
	})
	s.want(w.wants("MODIFIED a").answer(), map[string]any{
		"/data/a": "c", "/metadata/resourceVersion": changed.at("/metadata/resourceVersion"),
	})
	deleted := w.wants("DELETED a").answer()
	s.want(deleted, map[string]any{"/data/a": "c"})
	// The version of a deletion is new, so that a watch can go on from it.
	if versionOf(s, deleted) <= versionOf(s, changed) {
		s.Errorf("version of the deletion %s, want one above %s", deleted.text("/metadata/resourceVersion"),
			changed.text("/metadata/resourceVersion"))
	}
}

func versionOf(s *space, a answer) uint64 {
	s.Helper()
	n, err := strconv.ParseUint(a.text("/metadata/resourceVersion"), 10, 64)
	if err != nil {
		s.Fatalf("resource version of %s: %v", a.body, err)
	}
	return n
}

// testWatchLabels moves an object into a selection and out of it.
func testWatchLabels(s *space) {
	w := s.watch("configmaps", "labelSelector=watched%3Dyes&resourceVersion="+s.version("configmaps"), nil)
	s.create("configmaps", "metadata: {name: other}")
	s.create("configmaps", "metadata: {name: a}\ndata: {a: '1'}")
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "metadata: {labels: {watched: 'yes'}}"})
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: '2'}"})
	out := s.must(call{verb: "MERGE", path: "configmaps/a", body: "{metadata: {labels: {watched: 'no'}}, data: {a: " +
		"'3'}}"})
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: '4'}"})
	s.must(call{verb: "DELETE", path: "configmaps/a"})
	s.create("configmaps", "metadata: {name: end, labels: {watched: 'yes'}}")
	w.wants("ADDED a", "MODIFIED a")
	// The object is as it was while it was selected, with the version of the change.
	s.want(w.wants("DELETED a").answer(), map[string]any{
		"/metadata/labels/watched": "yes", "/data/a": "2",
		"/metadata/resourceVersion": out.at("/metadata/resourceVersion"),
	})
	w.wants("ADDED end")
}

func testWatchFields(s *space) {
	w := s.watch("configmaps", "fieldSelector=metadata.name%3Db&resourceVersion="+s.version("configmaps"), nil)
	s.create("configmaps", "metadata: {name: a}", "metadata: {name: b}", "metadata: {name: c}")
	s.must(call{verb: "DELETE", path: "configmaps/b"})
	w.wants("ADDED b", "DELETED b")
}

// testWatchResumes begins a watch at every version of a history: nothing is lost or repeated.
func testWatchResumes(s *space) {
	version := s.version("configmaps")
	var history []answer
	for i := range 6 {
		history = append(history, s.create("configmaps", fmt.Sprintf("metadata: {name: c-%d}", i)))
	}
	w := s.watch("configmaps", "resourceVersion="+version, nil)
	for i := range history {
		w.wants(fmt.Sprintf("ADDED c-%d", i))
	}
	for i, after := range history[:len(history)-1] {
		w := s.watch("configmaps", "resourceVersion="+after.text("/metadata/resourceVersion"), nil)
		w.wants(fmt.Sprintf("ADDED c-%d", i+1))
	}
	// Without a version, a watch begins with what exists.
	seen := map[string]bool{}
	for unset := s.watch("configmaps", "labelSelector=!none", nil); len(seen) < len(history)+1; {
		e := unset.next()
		if seen[e.String()] || e.Type != "ADDED" {
			s.Errorf("event %s of the beginning, want one ADDED for each object", e)
		}
		seen[e.String()] = true
	}
}

func testInitialEvents(s *space) {
	s.configs(3)
	const query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=list"
	w := s.watch("configmaps", query, nil)
	got := []string{w.next().String(), w.next().String(), w.next().String()}
	slices.Sort(got)
	if want := []string{"ADDED c-000", "ADDED c-001", "ADDED c-002"}; !slices.Equal(got, want) {
		s.Errorf("initial events %q, want %q", got, want)
	}
	end := w.wants("BOOKMARK").answer()
	s.want(end, map[string]any{
		"/kind": "ConfigMap", "/apiVersion": "v1", "/metadata/annotations/k8s.io~1initial-events-end": "true",
		"/metadata/name": nil,
	})
	if versionOf(s, end) == 0 {
		s.Error("the bookmark has no version")
	}
	s.create("configmaps", "metadata: {name: later, labels: {list: 'yes'}}")
	w.wants("ADDED later")
	from := s.watch("configmaps", query+"&resourceVersion="+end.text("/metadata/resourceVersion"), nil)
	for range 4 {
		if e := from.next(); e.Type != "ADDED" {
			s.Errorf("event %s before the bookmark", e)
		}
	}
	from.wants("BOOKMARK")
}

func testInitialOptions(s *space) {
	for _, query := range []string{
		"watch=true&sendInitialEvents=true", "watch=true&resourceVersionMatch=Exact",
		"sendInitialEvents=true&resourceVersion=10",
	} {
		s.refuses(call{path: "configmaps", query: query}, refusal{code: 422, reason: metav1.StatusReasonInvalid})
	}
}

func testWatchMetadata(s *space) {
	w := s.watch("configmaps", "resourceVersion="+s.version("configmaps"),
		accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"))
	s.create("configmaps", "metadata: {name: a}\ndata: {a: b}")
	s.want(w.wants("ADDED a").answer(), map[string]any{
		"/kind": "PartialObjectMetadata", "/apiVersion": "meta.k8s.io/v1", "/data": nil,
	})
}

// testWatchExpired asks for the first version. A server that has forgotten it says so, and a client lists again.
func testWatchExpired(s *space) {
	s.create("configmaps", "metadata: {name: a}")
	w := s.watch("configmaps", "fieldSelector=metadata.name%3Da&resourceVersion=1", nil)
	first := w.next()
	if first.String() != "ADDED a" {
		if first.String() != "ERROR 410" {
			s.Errorf("first event %s, want the object or ERROR 410", first)
		}
		s.want(first.answer(), map[string]any{"/kind": "Status", "/status": "Failure", "/reason": "Expired"})
		w.ended()
	}
	s.refuses(call{path: "configmaps", query: "watch=true&resourceVersion=none"}, refusal{
		code: http.StatusInternalServerError, message: "resourceVersion: Invalid value",
	})
}

// testFutureVersion asks for a version that the server does not have yet, for which it waits a few seconds.
func testFutureVersion(s *space) {
	for _, query := range []string{
		"", "&resourceVersionMatch=NotOlderThan",
		"&limit=1&resourceVersionMatch=NotOlderThan",
	} {
		s.refuses(call{path: "configmaps", query: "resourceVersion=1000000000" + query}, refusal{
			code: http.StatusGatewayTimeout, reason: metav1.StatusReasonTimeout,
			causes: []string{"ResourceVersionTooLarge"},
		})
	}
}

func testWatchEnds(s *space) {
	s.watch("configmaps", "timeoutSeconds=1&resourceVersion="+s.version("configmaps"), nil).ended()
}

// testWatchOrder compares two watches during concurrent writes, and their versions, which must rise.
func testWatchOrder(s *space) {
	version := s.version("configmaps")
	one := s.watch("configmaps", "resourceVersion="+version, nil)
	const writers, rounds = 6, 10
	concurrently(writers, func(i int) {
		path := fmt.Sprintf("configmaps/w-%d", i)
		s.create("configmaps", fmt.Sprintf("metadata: {name: w-%d}", i))
		for round := range rounds {
			s.must(call{verb: "MERGE", path: path, body: fmt.Sprintf("data: {round: '%d'}", round)})
		}
		s.must(call{verb: "DELETE", path: path})
	})
	two := s.watch("configmaps", "resourceVersion="+version, nil)
	last, rounded := uint64(0), map[string]int{}
	for range writers * (rounds + 2) {
		a, b := one.next(), two.next()
		if a.Type != b.Type || string(a.Object) != string(b.Object) {
			s.Fatalf("one watch has %s, the other %s", a.Object, b.Object)
		}
		if now := versionOf(s, a.answer()); now <= last {
			s.Errorf("version %d after %d", now, last)
		} else {
			last = now
		}
		if a.Type == "MODIFIED" {
			name := a.answer().text("/metadata/name")
			if want := strconv.Itoa(rounded[name]); a.answer().text("/data/round") != want {
				s.Errorf("%s has round %s, want %s", name, a.answer().text("/data/round"), want)
			}
			rounded[name]++
		}
	}
}

// testWatchPods watches the life of a pod across all namespaces.
func testWatchPods(s *space) {
	query := "fieldSelector=metadata.namespace%3D" + s.namespace + "&resourceVersion=" + s.version("pods")
	w := s.watch("/api/v1/pods", query, nil)
	s.create("pods", runningPod("a"))
	w.wants("ADDED a")
	isReady := false
	for !isReady {
		e := w.next()
		isReady = e.Type == "MODIFIED" && differences(e.answer(), ready()) == nil
	}
	s.must(call{verb: "DELETE", path: "pods/a"})
	for e := w.next(); e.Type != "DELETED"; e = w.next() {
		if e.Type != "MODIFIED" || e.answer().text("/metadata/deletionTimestamp") == "" {
			s.Errorf("event %s of the deletion", e)
		}
	}
}
