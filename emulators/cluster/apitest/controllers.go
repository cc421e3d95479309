//go:build unix

package apitest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agents.example/controlplane/emulators/cluster"
)

// controllerCases are about what controllers make of objects.
func controllerCases() map[string]func(*space) {
	return map[string]func(*space){
		"stateful set": testStatefulSet, "revisions of a stateful set": testRevisions,
		"replacement of a pod":     testRollingUpdate,
		"scale to zero":            testScaleToZero,
		"claims of a stateful set": testClaimsStay,
		"deployment":               testDeployment,
		"endpoints":                testEndpoints,
		"claim without a pod":      testUnusedClaim,
		"claim grows":              testClaimGrows,
		"claim in use":             testClaimInUse,
		"claim ends unbound":       testClaimEndsUnbound,
		"addresses of services":    testServiceAddresses,
		"unschedulable":            testUnschedulable,
		"scheduling":               testScheduling,
		"missing claim":            testMissingClaim,
	}
}

func testStatefulSet(s *space) {
	s.create("apps/statefulsets", agentSet("replicas: 2, "))
	set := s.await("apps/statefulsets/a", map[string]any{
		"/status/replicas": 2, "/status/readyReplicas": 2, "/status/availableReplicas": 2, "/status/currentReplicas": 2,
		"/status/updatedReplicas": 2, "/status/observedGeneration": 1, "/status/collisionCount": 0,
	})
	revision := set.text("/status/updateRevision")
	s.want(set, map[string]any{"/status/currentRevision": revision})
	pod := s.await("pods/a-1", ready())
	s.want(pod, map[string]any{
		"/metadata/labels/app": "a", "/metadata/labels/controller-revision-hash": revision,
		"/metadata/labels/apps.kubernetes.io~1pod-index":       "1",
		"/metadata/labels/statefulset.kubernetes.io~1pod-name": "a-1",
		"/metadata/labels/topology.kubernetes.io~1zone": s.get("/api/v1/nodes/" + pod.text("/spec/nodeName")).
			at("/metadata/labels/topology.kubernetes.io~1zone"),
		"/metadata/generateName": "a-",
		"/metadata/ownerReferences": []map[string]any{{
			"apiVersion": "apps/v1", "blockOwnerDeletion": true, "controller": true, "kind": "StatefulSet", "name": "a",
			"uid": set.at("/metadata/uid"),
		}},
		"/spec/hostname": "a-1", "/spec/subdomain": "a", "/spec/volumes/0/persistentVolumeClaim/claimName": "data-a-1",
		"/status/containerStatuses/0/restartCount": 0, "/status/containerStatuses/0/image": image,
		"/spec/serviceAccountName": "default", "/spec/tolerations/0/key": "node.kubernetes.io/not-ready",
	})
	for _, field := range []string{
		"/status/podIP", "/status/hostIP", "/status/startTime", "/spec/nodeName",
		"/status/podIPs/0/ip",
	} {
		if pod.text(field) == "" {
			s.Errorf("a ready pod has no %s", field)
		}
	}
	for _, condition := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
		if conditionOf(pod, condition) != "True" {
			s.Errorf("condition %s of a ready pod is %q", condition, conditionOf(pod, condition))
		}
	}
	claim := s.get("persistentvolumeclaims/data-a-0")
	s.want(claim, map[string]any{
		"/status/phase": "Bound", "/status/capacity/storage": "1Gi", "/status/accessModes": []string{"ReadWriteOnce"},
		"/metadata/labels": map[string]string{"app": "a"}, "/metadata/ownerReferences": nil,
	})
	s.want(s.get("/api/v1/persistentvolumes/"+claim.text("/spec/volumeName")), map[string]any{
		"/spec/claimRef/namespace": s.namespace, "/spec/claimRef/name": "data-a-0",
		"/spec/claimRef/uid":     claim.at("/metadata/uid"),
		"/spec/capacity/storage": "1Gi", "/status/phase": "Bound", "/spec/persistentVolumeReclaimPolicy": "Delete",
		"/spec/storageClassName": claim.at("/spec/storageClassName"),
	})
}

func testRevisions(s *space) {
	s.create("apps/statefulsets", agentSet("replicas: 1, "))
	revision := s.await("apps/statefulsets/a",
		map[string]any{"/status/observedGeneration": 1}).text("/status/updateRevision")
	revisions := s.get("apps/controllerrevisions")
	s.want(revisions, map[string]any{"/items/0/metadata/name": revision, "/items/0/revision": 1, "/items/1": nil})
}

// conditionOf returns the status of a condition, with its reason if it has one.
func conditionOf(a answer, name string) string {
	list, _ := a.at("/status/conditions").([]any)
	for i := range list {
		at := fmt.Sprintf("/status/conditions/%d", i)
		if a.text(at+"/type") != name {
			continue
		}
		if reason := a.text(at + "/reason"); reason != "" {
			return a.text(at+"/status") + " " + reason
		}
		return a.text(at + "/status")
	}
	return ""
}

// testRollingUpdate changes a template: the pod is replaced, with its name and volume.
func testRollingUpdate(s *space) {
	s.create("apps/statefulsets", agentSet(""))
	before := s.await("pods/a-0", ready())
	changed := s.must(call{verb: "STRATEGIC", path: "apps/statefulsets/a", body: "spec: {template: {spec: " +
		"{containers: " +
		"[{name: main, env: [{name: A, value: b}]}]}}}"})
	s.want(changed, map[string]any{"/metadata/generation": 2})
	s.await("apps/statefulsets/a", map[string]any{
		"/status/observedGeneration": 2, "/status/readyReplicas": 1, "/status/updatedReplicas": 1,
		"/status/currentReplicas": 1,
	})
	after := s.await("pods/a-0", ready())
	s.want(after, map[string]any{
		"/spec/containers/0/env/0/value":            "b",
		"/metadata/labels/controller-revision-hash": s.get("apps/statefulsets/a").at("/status/currentRevision"),
	})
	if after.text("/metadata/uid") == before.text("/metadata/uid") {
		s.Error("the pod was not replaced")
	}
	if claims := s.get("persistentvolumeclaims").names(); !slices.Equal(claims, []string{"data-a-0"}) {
		s.Errorf("claims %q, want that of the former pod", claims)
	}
	// A pod that is deleted returns.
	s.must(call{verb: "DELETE", path: "pods/a-0"})
	s.eventually("the pod has returned", func(ctx context.Context) error {
		pod, err := s.admin.send(ctx, s.namespace, call{path: "pods/a-0"})
		if err == nil && pod.text("/metadata/uid") == after.text("/metadata/uid") {
			err = errors.New("it is the deleted one")
		}
		return errors.Join(err, differences(pod, ready()))
	})
}

func testScaleToZero(s *space) {
	s.create("apps/statefulsets", agentSet(""))
	s.await("pods/a-0", ready())
	s.must(call{verb: "MERGE", path: "apps/statefulsets/a/scale", body: "spec: {replicas: 0}"})
	s.awaitGone("pods/a-0")
	s.await("apps/statefulsets/a", map[string]any{
		"/status/replicas": 0, "/status/readyReplicas": nil, "/status/observedGeneration": 2,
	})
	s.want(s.get("persistentvolumeclaims/data-a-0"), map[string]any{"/status/phase": "Bound"})
}

// testClaimsStay deletes a StatefulSet: its pods go, its claims stay.
func testClaimsStay(s *space) {
	s.create("apps/statefulsets", agentSet(""))
	s.await("pods/a-0", ready())
	s.must(call{verb: "DELETE", path: "apps/statefulsets/a"})
	s.awaitGone("pods/a-0")
	s.want(s.get("persistentvolumeclaims/data-a-0"), map[string]any{"/status/phase": "Bound"})
}

func testDeployment(s *space) {
	s.create("apps/deployments", "metadata: {name: a}\nspec: {replicas: 2, selector: {matchLabels: {app: a}}, "+
		"template: "+
		"{metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: '"+image+"'}]}}}")
	d := s.await("apps/deployments/a", map[string]any{
		"/status/readyReplicas": 2, "/status/updatedReplicas": 2, "/status/availableReplicas": 2,
		"/status/observedGeneration": 1,
	})
	sets := s.get("apps/replicasets")
	s.want(sets, map[string]any{
		"/items/1": nil, "/items/0/metadata/ownerReferences/0/uid": d.at("/metadata/uid"),
		"/items/0/status/readyReplicas": 2,
	})
	s.must(call{verb: "MERGE", path: "apps/deployments/a", body: "spec: {template: {metadata: {annotations: {a: b}}}}"})
	s.await("apps/deployments/a", map[string]any{
		"/status/observedGeneration": 2, "/status/updatedReplicas": 2, "/status/readyReplicas": 2,
		"/status/replicas": 2,
	})
	s.must(call{verb: "DELETE", path: "apps/deployments/a", query: "propagationPolicy=Background"})
	s.eventually("the pods are gone", func(ctx context.Context) error {
		pods, err := s.admin.send(ctx, s.namespace, call{path: "pods"})
		if err == nil && len(pods.names()) > 0 {
			err = fmt.Errorf("pods %q", pods.names())
		}
		return err
	})
}

// setFault sets the fault of the namespace; "null" removes it.
func (s *space) setFault(fault cluster.Fault) {
	s.Helper()
	s.must(call{
		verb: "MERGE", path: "/api/v1/namespaces/{ns}",
		body: fmt.Sprintf("metadata: {annotations: {%q: %s}}", cluster.FaultAnnotation, fault),
	})
}

// testUnschedulable sets the fault of a namespace, and removes it.
func testUnschedulable(s *space) {
	s.setFault(cluster.Unschedulable)
	s.create("pods", runningPod("a"))
	s.eventually("the pod is unschedulable", func(ctx context.Context) error {
		pod, err := s.admin.send(ctx, s.namespace, call{path: "pods/a"})
		if err == nil && pod.text("/spec/nodeName") != "" { // the nodes did not know of the fault yet
			s.must(call{verb: "DELETE", path: "pods/a", query: "gracePeriodSeconds=0"})
			s.awaitGone("pods/a")
			s.create("pods", runningPod("a"))
		}
		if got := conditionOf(pod, "PodScheduled"); err == nil && got != "False Unschedulable" {
			err = fmt.Errorf("condition PodScheduled is %q", got)
		}
		return err
	})
	s.want(s.get("pods/a"), map[string]any{"/status/phase": "Pending", "/spec/nodeName": nil})
	s.eventually("an event says so", func(ctx context.Context) error {
		events, err := s.admin.send(ctx, s.namespace, call{
			path: "events", query: "fieldSelector=involvedObject.name%3Da%2Creason%3DFailedScheduling",
		})
		if err == nil && len(events.names()) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	s.setFault("null")
	s.await("pods/a", ready())
}

// testScheduling creates pods that only one node, and no node, has the labels and the resources for.
func testScheduling(s *space) {
	node := s.must(call{path: "/api/v1/nodes"}).names()[0]
	pod := func(name, fields string) string {
		return "metadata: {name: " + name + "}\nspec: {" + fields + "containers: [{name: main, image: i, " +
			"resources: {requests: {cpu: '%s'}}}]}"
	}
	s.create("pods", fmt.Sprintf(pod("chosen", "nodeSelector: {kubernetes.io/hostname: "+node+"}, "), "1"))
	s.create("pods", fmt.Sprintf(pod("large", ""), "100000"), fmt.Sprintf(pod("nowhere", "nodeSelector: {none: "+
		"none}, "), "1"))
	s.want(s.await("pods/chosen", ready()), map[string]any{"/spec/nodeName": node})
	for _, name := range []string{"large", "nowhere"} {
		s.eventually(name+" is unschedulable", func(ctx context.Context) error {
			pod, err := s.admin.send(ctx, s.namespace, call{path: "pods/" + name})
			if got := conditionOf(pod, "PodScheduled"); err == nil && got != "False Unschedulable" {
				err = fmt.Errorf("condition PodScheduled is %q", got)
			}
			return err
		})
	}
}
