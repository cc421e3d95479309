//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/netip"

	"agents.example/controlplane/emulators/cluster"
)

// claim returns YAML of a claim of 1 GiB.
func claim(name string) string {
	return "metadata: {name: " + name + "}\n" + kinds()["persistentvolumeclaims"].spec
}

// claimingPod returns YAML of a pod that uses a claim.
func claimingPod(name, claim string) string {
	return "metadata: {name: " + name + "}\nspec: {containers: [{name: main, image: '" + image +
		"'}], volumes: [{name: data, persistentVolumeClaim: {claimName: " + claim + "}}]}"
}

// testUnusedClaim checks that the default class waits for a pod.
func testUnusedClaim(s *space) {
	c := s.create("persistentvolumeclaims", claim("a"))
	if c.text("/spec/storageClassName") == "" {
		s.Errorf("the claim got no default class: %s", c.body)
	}
	s.want(c, map[string]any{"/spec/volumeMode": "Filesystem", "/status/phase": "Pending"})
	s.want(s.get("/apis/storage.k8s.io/v1/storageclasses/"+c.text("/spec/storageClassName")), map[string]any{
		"/volumeBindingMode": "WaitForFirstConsumer", "/allowVolumeExpansion": true, "/reclaimPolicy": "Delete",
		"/metadata/annotations/storageclass.kubernetes.io~1is-default-class": "true",
	})
	s.create("pods", claimingPod("first", "a"))
	s.await("pods/first", ready())
	bound := s.await("persistentvolumeclaims/a", map[string]any{"/status/phase": "Bound"})
	s.must(call{verb: "DELETE", path: "pods/first"})
	s.awaitGone("pods/first")
	s.must(call{verb: "DELETE", path: "persistentvolumeclaims/a"})
	s.awaitGone("persistentvolumeclaims/a")
	s.awaitGone("/api/v1/persistentvolumes/" + bound.text("/spec/volumeName"))
}

func testClaimGrows(s *space) {
	s.create("persistentvolumeclaims", claim("a"))
	s.create("pods", claimingPod("a", "a"))
	s.await("persistentvolumeclaims/a", map[string]any{"/status/phase": "Bound"})
	size := func(storage string) call {
		return call{
			verb: "MERGE", path: "persistentvolumeclaims/a", body: "spec: {resources: {requests: {storage: " +
				"" + storage + "}}}",
		}
	}
	s.must(size("3Gi"))
	grown := s.await("persistentvolumeclaims/a", map[string]any{"/status/capacity/storage": "3Gi"})
	s.want(s.get("/api/v1/persistentvolumes/"+grown.text("/spec/volumeName")),
		map[string]any{"/spec/capacity/storage": "3Gi"})
	s.refuses(size("2Gi"), invalid("FieldValueForbidden spec.resources.requests.storage"))
}

// testClaimInUse deletes a claim that a pod uses, which stays until the pod has ended.
func testClaimInUse(s *space) {
	s.create("persistentvolumeclaims", claim("a"))
	s.create("pods", claimingPod("a", "a"))
	s.await("pods/a", ready())
	deleted := s.must(call{verb: "DELETE", path: "persistentvolumeclaims/a"})
	s.want(deleted, map[string]any{
		"/kind":                "PersistentVolumeClaim",
		"/metadata/finalizers": []string{"kubernetes.io/pvc-protection"},
	})
	s.get("persistentvolumeclaims/a")
	s.must(call{verb: "DELETE", path: "pods/a"})
	s.awaitGone("persistentvolumeclaims/a")
}

// testClaimEndsUnbound deletes a claim before it is bound to the volume that was made for it.
func testClaimEndsUnbound(s *space) {
	const name = "persistentvolumeclaims/a"
	uid := s.create("persistentvolumeclaims", claim("a")).text("/metadata/uid")
	s.must(call{verb: "MERGE", path: name, body: "metadata: {finalizers: [example.test/wait]}"})
	s.must(call{verb: "DELETE", path: name})
	volume := "/api/v1/persistentvolumes/" + s.namespace
	s.create("/api/v1/persistentvolumes", "metadata: {name: "+s.namespace+"}\n"+
		"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, "+
		"hostPath: {path: /tmp}, claimRef: {namespace: "+s.namespace+", name: a, uid: "+uid+"}}")
	s.must(call{verb: "MERGE", path: name, body: "metadata: {finalizers: null}"})
	s.awaitGone(name)
	s.await(volume, map[string]any{"/status/phase": "Released"})
	s.must(call{verb: "DELETE", path: volume})
	s.awaitGone(volume)
}

// testMissingClaim creates the claim after the pod.
func testMissingClaim(s *space) {
	s.create("pods", claimingPod("a", "late"))
	s.eventually("the pod waits", func(ctx context.Context) error {
		pod, err := s.admin.send(ctx, s.namespace, call{path: "pods/a"})
		if got := conditionOf(pod, "PodScheduled"); err == nil && got != "False Unschedulable" {
			err = fmt.Errorf("condition PodScheduled is %q", got)
		}
		return err
	})
	s.create("persistentvolumeclaims", claim("late"))
	s.await("pods/a", ready())
}

// testServiceAddresses checks which Services get an address, and that each gets another one.
func testServiceAddresses(s *space) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "b"} {
		a := s.create("services", "metadata: {name: "+name+"}\nspec: {selector: {a: b}, ports: [{port: 80}]}")
		s.want(a, map[string]any{
			"/spec/type": "ClusterIP", "/spec/sessionAffinity": "None", "/spec/ports/0/targetPort": 80,
			"/spec/ports/0/protocol": "TCP", "/spec/clusterIPs/0": a.at("/spec/clusterIP"),
			"/spec/ipFamilies":     []string{"IPv4"},
			"/spec/ipFamilyPolicy": "SingleStack", "/spec/internalTrafficPolicy": "Cluster",
			"/status/loadBalancer": map[string]any{},
		})
		ip, err := netip.ParseAddr(a.text("/spec/clusterIP"))
		if err != nil || !ip.Is4() || seen[ip.String()] {
			s.Errorf("address %q of a Service, want a new one", a.text("/spec/clusterIP"))
		}
		seen[ip.String()] = true
	}
	s.want(s.create("services", "metadata: {name: c}\nspec: {clusterIP: None, ports: [{port: 80}]}"), map[string]any{
		"/spec/clusterIP": "None", "/spec/clusterIPs": []string{"None"},
	})
	s.refuses(call{
		verb: "POST", path: "services", body: "metadata: {name: d}\nspec: {ports: [{port: 80}], clusterIP: " +
			s.get("services/a").text("/spec/clusterIP") + "}",
	}, invalid("FieldValueInvalid spec.clusterIPs"))
	// An update without the address keeps it.
	before := s.get("services/a").text("/spec/clusterIP")
	s.want(s.must(call{verb: "PUT", path: "services/a", body: "metadata: {name: a}\nspec: {ports: [{port: " +
		"81}]}"}), map[string]any{
		"/spec/clusterIP": before, "/spec/ports/0/port": 81, "/spec/selector": nil,
	})
}

// testEndpoints follows the slices of a headless Service while its pods come, fail and go.
func testEndpoints(s *space) {
	s.create("services", "metadata: {name: a, labels: {owner: test}, annotations: {note: a}}\nspec: {clusterIP: "+
		"None, selector: "+
		"{app: a}, ports: [{name: http, port: 80, targetPort: main}]}")
	s.create("pods", "metadata: {name: a, labels: {app: a}}\nspec: {hostname: h, subdomain: a, containers: [{name: "+
		"main, image: '"+
		image+"', ports: [{name: main, containerPort: 8080}]}]}")
	pod := s.await("pods/a", ready())
	slice := s.awaitEndpoint(true)
	s.want(slice, map[string]any{
		"/items/0/addressType": "IPv4", "/items/0/metadata/labels/owner": "test",
		"/items/0/metadata/labels/kubernetes.io~1service-name":             "a",
		"/items/0/metadata/labels/endpointslice.kubernetes.io~1managed-by": "endpointslice-controller.k8s.io",
		"/items/0/metadata/labels/service.kubernetes.io~1headless":         "",
		"/items/0/metadata/generateName":                                   "a-",
		"/items/0/metadata/ownerReferences/0/name":                         "a",
		"/items/0/ports":                     []map[string]any{{"name": "http", "port": 8080, "protocol": "TCP"}},
		"/items/0/endpoints/0/addresses":     []any{pod.at("/status/podIP")},
		"/items/0/endpoints/0/nodeName":      pod.at("/spec/nodeName"),
		"/items/0/endpoints/0/hostname":      "h",
		"/items/0/endpoints/0/conditions":    map[string]bool{"ready": true, "serving": true, "terminating": false},
		"/items/0/endpoints/0/targetRef/uid": pod.at("/metadata/uid"),
		"/items/0/endpoints/1":               nil,
	})
	s.setFault(cluster.CrashLoop)
	s.awaitEndpoint(false)
	s.setFault("null")
	s.awaitEndpoint(true)
	s.must(call{verb: "DELETE", path: "pods/a"})
	s.eventually("there is no endpoint", func(ctx context.Context) error {
		list, err := s.admin.send(ctx, s.namespace, call{
			path:  "discovery.k8s.io/endpointslices",
			query: "labelSelector=owner%3Dtest",
		})
		if err == nil && (len(list.names()) != 1 || list.at("/items/0/endpoints/0") != nil) {
			err = fmt.Errorf("slices %s", list.body)
		}
		return err
	})
	s.must(call{verb: "DELETE", path: "services/a"})
	s.awaitGone("discovery.k8s.io/endpointslices/" + slice.names()[0])
}

// awaitEndpoint waits until the Service has one slice with one endpoint, which is ready or not.
func (s *space) awaitEndpoint(ready bool) answer {
	s.Helper()
	var list answer
	s.eventually(fmt.Sprintf("the endpoint is ready: %t", ready), func(ctx context.Context) error {
		var err error
		list, err = s.admin.send(ctx, s.namespace, call{
			path:  "discovery.k8s.io/endpointslices",
			query: "labelSelector=owner%3Dtest",
		})
		if err != nil {
			return err
		}
		return differences(list, map[string]any{"/items/0/endpoints/0/conditions/ready": ready, "/items/1": nil})
	})
	return list
}
