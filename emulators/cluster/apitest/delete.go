//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deleteCases are about deletions, finalizers and the objects that others own.
func deleteCases() map[string]func(*space) {
	return map[string]func(*space){
		"preconditions":            testDeletePreconditions,
		"finalizer":                testFinalizer,
		"answer":                   testDeleteAnswer,
		"collection":               testDeleteCollection,
		"background":               testBackground,
		"orphan":                   testOrphan,
		"foreground":               testForeground,
		"owner that does not live": testMissingOwner,
		"two owners":               testTwoOwners,
		"owner with another UID":   testForeignOwner,
		"graceful deletion":        testGracefulDeletion,
		"pod without a node":       testPodWithoutNode,
		"immediate deletion":       testImmediateDeletion,
		"malformed options":        testDeleteOptions,
	}
}

func testDeletePreconditions(s *space) {
	a := s.create("configmaps", "metadata: {name: a}")
	with := func(field, value string) call {
		return call{
			verb: "DELETE", path: "configmaps/a",
			body: fmt.Sprintf("{apiVersion: v1, kind: DeleteOptions, preconditions: {%s: '%s'}}", field, value),
		}
	}
	conflict := refusal{code: 409, reason: metav1.StatusReasonConflict, message: "the UID in the precondition " +
		"(none) does not match"}
	s.refuses(with("uid", "none"), conflict)
	conflict.message = "the ResourceVersion in the precondition (1) does not match"
	s.refuses(with("resourceVersion", "1"), conflict)
	s.get("configmaps/a")
	s.must(with("uid", a.text("/metadata/uid")))
	s.awaitGone("configmaps/a")
	b := s.create("configmaps", "metadata: {name: a}")
	s.refuses(with("uid", a.text("/metadata/uid")), refusal{code: 409, reason: metav1.StatusReasonConflict})
	s.must(with("resourceVersion", b.text("/metadata/resourceVersion")))
	s.awaitGone("configmaps/a")
}

func testFinalizer(s *space) {
	a := s.create("configmaps", "metadata: {name: a, finalizers: [example.test/wait]}")
	deleted := s.send(call{verb: "DELETE", path: "configmaps/a"})
	s.want(deleted, map[string]any{
		"/kind": "ConfigMap", "/metadata/uid": a.at("/metadata/uid"), "/metadata/deletionGracePeriodSeconds": 0,
	})
	since := deleted.text("/metadata/deletionTimestamp")
	if since == "" {
		s.Errorf("an object with a finalizer is not marked: %s", deleted.body)
	}
	s.want(s.must(call{verb: "DELETE", path: "configmaps/a"}), map[string]any{"/metadata/deletionTimestamp": since})
	s.refuses(call{verb: "POST", path: "configmaps", body: "metadata: {name: a}"}, refusal{
		code: 409, reason: metav1.StatusReasonAlreadyExists, message: `object is being deleted: configmaps "a" already exists`,
	})
	s.want(s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: b}"}), map[string]any{"/data/a": "b"})
	s.refuses(call{verb: "MERGE", path: "configmaps/a", body: "metadata: {finalizers: [example.test/wait, " +
		"example.test/more]}"},
		invalid("FieldValueForbidden metadata.finalizers"))
	last := s.must(call{verb: "MERGE", path: "configmaps/a", body: "metadata: {finalizers: null}"})
	s.want(last, map[string]any{"/kind": "ConfigMap", "/metadata/finalizers": nil})
	s.awaitGone("configmaps/a")
}

func testDeleteAnswer(s *space) {
	a := s.create("configmaps", "metadata: {name: a}")
	gone := s.must(call{verb: "DELETE", path: "configmaps/a"})
	s.want(gone, map[string]any{
		"/kind": "Status", "/status": "Success", "/details/name": "a", "/details/kind": "configmaps", "/code": nil,
		"/details/uid": a.at("/metadata/uid"),
	})
	// A pod that is being deleted is answered as it is.
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	s.want(s.must(call{verb: "DELETE", path: "pods/a"}), map[string]any{"/kind": "Pod", "/metadata/name": "a"})
}

func testDeleteCollection(s *space) {
	s.configs(4)
	a := s.must(call{verb: "DELETE", path: "configmaps", query: "labelSelector=odd%3D1"})
	s.want(a, map[string]any{
		"/kind": "ConfigMapList", "/items/0/metadata/name": "c-001",
		"/items/1/metadata/name": "c-003",
	})
	s.awaitGone("configmaps/c-001")
	s.get("configmaps/c-000")
	s.must(call{verb: "DELETE", path: "configmaps", query: "fieldSelector=metadata.name%3Dc-000"})
	s.awaitGone("configmaps/c-000")
	s.get("configmaps/c-002")
}

// own creates a ConfigMap that owns the ConfigMaps owned and other. fields are further ones of the reference.
func (s *space) own(fields string) {
	s.Helper()
	uid := s.create("configmaps", "metadata: {name: owner}").text("/metadata/uid")
	for _, name := range []string{"owned", "other"} {
		s.create("configmaps", fmt.Sprintf("metadata: {name: %s, ownerReferences: [{apiVersion: v1, kind: ConfigMap, "+
			"name: owner, uid: %s%s}]}", name, uid, fields))
	}
}

func testBackground(s *space) {
	s.own("")
	gone := s.must(call{verb: "DELETE", path: "configmaps/owner", query: "propagationPolicy=Background"})
	s.want(gone, map[string]any{"/kind": "Status"})
	s.awaitGone("configmaps/owned")
	s.awaitGone("configmaps/other")
}

func testOrphan(s *space) {
	s.own("")
	s.must(call{verb: "DELETE", path: "configmaps/owner", body: "{kind: DeleteOptions, apiVersion: v1, " +
		"propagationPolicy: Orphan}"})
	s.awaitGone("configmaps/owner")
	s.want(s.get("configmaps/owned"), map[string]any{
		"/metadata/ownerReferences":   nil,
		"/metadata/deletionTimestamp": nil,
	})
}

// testForeground deletes an owner that waits for what it owns and blocks it.
func testForeground(s *space) {
	s.own(", blockOwnerDeletion: true")
	s.must(call{verb: "MERGE", path: "configmaps/owned", body: "metadata: {finalizers: [example.test/wait]}"})
	a := s.must(call{verb: "DELETE", path: "configmaps/owner", query: "propagationPolicy=Foreground"})
	s.want(a, map[string]any{"/kind": "ConfigMap", "/metadata/finalizers": []string{"foregroundDeletion"}})
	s.awaitGone("configmaps/other")
	s.eventually("the owned object is being deleted", func(ctx context.Context) error {
		owned, err := s.admin.send(ctx, s.namespace, call{path: "configmaps/owned"})
		if err == nil && owned.text("/metadata/deletionTimestamp") == "" {
			err = fmt.Errorf("it is not: %s", owned.body)
		}
		return err
	})
	s.get("configmaps/owner")
	s.must(call{verb: "MERGE", path: "configmaps/owned", body: "metadata: {finalizers: null}"})
	s.awaitGone("configmaps/owned")
	s.awaitGone("configmaps/owner")
}

func testMissingOwner(s *space) {
	s.create("configmaps", "metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: "+
		"none, uid: none}]}")
	s.awaitGone("configmaps/owned")
}

// testTwoOwners checks that an object lives until its last owner is gone.
func testTwoOwners(s *space) {
	first := s.create("configmaps", "metadata: {name: first}").text("/metadata/uid")
	second := s.create("configmaps", "metadata: {name: second}").text("/metadata/uid")
	s.create("configmaps", "metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: "+
		"first, uid: "+
		first+"}, {apiVersion: v1, kind: ConfigMap, name: second, uid: "+second+"}]}")
	s.must(call{verb: "DELETE", path: "configmaps/first", query: "propagationPolicy=Background"})
	s.eventually("the reference to the first owner is gone", func(ctx context.Context) error {
		owned, err := s.admin.send(ctx, s.namespace, call{path: "configmaps/owned"})
		if err != nil {
			return err
		}
		return differences(owned, map[string]any{
			"/metadata/ownerReferences/0/name": "second", "/metadata/ownerReferences/1": nil,
		})
	})
	s.must(call{verb: "DELETE", path: "configmaps/second", query: "propagationPolicy=Background"})
	s.awaitGone("configmaps/owned")
}

func testForeignOwner(s *space) {
	s.create("configmaps", "metadata: {name: owner}")
	s.create("configmaps", "metadata: {name: owned, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: "+
		"owner, uid: former}]}")
	s.awaitGone("configmaps/owned")
	s.get("configmaps/owner")
}

// testGracefulDeletion deletes a pod on a node, which ends it.
func testGracefulDeletion(s *space) {
	s.create("pods", runningPod("a"))
	s.await("pods/a", ready())
	s.must(call{verb: "MERGE", path: "pods/a", body: "metadata: {finalizers: [example.test/wait]}"})
	a := s.must(call{verb: "DELETE", path: "pods/a"})
	s.want(a, map[string]any{"/kind": "Pod", "/metadata/deletionGracePeriodSeconds": 30})
	if a.text("/metadata/deletionTimestamp") == "" {
		s.Errorf("the pod is not marked: %s", a.body)
	}
	s.await("pods/a", map[string]any{"/metadata/deletionGracePeriodSeconds": 0})
	s.must(call{verb: "MERGE", path: "pods/a", body: "metadata: {finalizers: null}"})
	s.awaitGone("pods/a")
}

// testPodWithoutNode deletes a pod that runs nowhere: there is nothing to wait for.
func testPodWithoutNode(s *space) {
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	s.must(call{verb: "DELETE", path: "pods/a"})
	s.refuses(call{path: "pods/a"}, refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound})
}

func testImmediateDeletion(s *space) {
	s.create("pods", runningPod("a"))
	s.await("pods/a", ready())
	s.must(call{verb: "DELETE", path: "pods/a", query: "gracePeriodSeconds=0"})
	s.refuses(call{path: "pods/a"}, refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound})
}

func testDeleteOptions(s *space) {
	s.create("configmaps", "metadata: {name: a}")
	for _, r := range []call{
		{query: "propagationPolicy=None"},
		{body: "{kind: DeleteOptions, apiVersion: v1, orphanDependents: true, propagationPolicy: Orphan}"},
	} {
		r.verb, r.path = "DELETE", "configmaps/a"
		s.refuses(r, refusal{code: 422, reason: metav1.StatusReasonInvalid})
	}
	s.get("configmaps/a")
}

// runningPod returns YAML of a pod that a simulated node runs.
func runningPod(name string) string {
	return "metadata: {name: " + name + ", labels: {app: " + name + "}}\n" +
		"spec: {containers: [{name: main, image: '" + image + "'}]}"
}

// ready returns what a ready pod has.
func ready() map[string]any {
	return map[string]any{"/status/phase": "Running", "/status/containerStatuses/0/ready": true}
}
