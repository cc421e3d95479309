//go:build unix

package apitest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The snapshots of volumes, and what the simulator makes of them. Its disks have the limits of Compute Engine.

const (
	snapshotGroup    = "/apis/snapshot.storage.k8s.io/v1/"
	snapshotPath     = "snapshot.storage.k8s.io/volumesnapshots"
	snapshotContents = snapshotGroup + "volumesnapshotcontents/"
	snapshotDomain   = "snapshot.storage.kubernetes.io/"

	// Custom resources name their kind.
	snapshotVersion = "apiVersion: snapshot.storage.k8s.io/v1\n"
	aSnapshot       = snapshotVersion + "kind: VolumeSnapshot\n"
	aContent        = snapshotVersion + "kind: VolumeSnapshotContent\n"
)

func snapshotCases() map[string]func(*space) {
	return map[string]func(*space){
		"taken and deleted":                   testSnapshot,
		"formats":                             testSnapshotFormats,
		"refused":                             testSnapshotsRefused,
		"claim from a snapshot":               testClaimFromSnapshot,
		"claim that waits":                    testClaimWaitsForSnapshot,
		"content that was there before":       testPreprovisioned,
		"content that is bound to another":    testMisbound,
		"retained":                            testRetained,
		"snapshot that is a source":           testSnapshotAsSource,
		"content that is deleted directly":    testContentDeleted,
		"more than a disk allows":             testSnapshotLimit,
		"errors that go away":                 testSnapshotErrors,
		"a namespace takes its snapshots too": testSnapshotsOfNamespace,
	}
}

// class creates a class of snapshots with a policy, and returns its name.
func (s *space) class(policy string) string {
	name := s.namespace + "-" + strings.ToLower(policy)
	s.create(snapshotGroup+"volumesnapshotclasses", snapshotVersion+"kind: VolumeSnapshotClass\nmetadata: {name: "+name+
		"}\ndriver: pd.csi.storage.gke.io\ndeletionPolicy: "+policy)
	s.Cleanup(func() {
		_, _ = s.admin.send(context.Background(), s.namespace,
			call{verb: "DELETE", path: snapshotGroup + "volumesnapshotclasses/" + name})
	})
	return name
}

// boundClaim creates the claim a, which a pod uses.
func (s *space) boundClaim() {
	s.Helper()
	s.create("persistentvolumeclaims", claim("a"))
	s.create("pods", claimingPod("a", "a"))
	s.await("persistentvolumeclaims/a", map[string]any{"/status/phase": "Bound"})
}

// snapshotOf returns YAML of a snapshot of a claim.
func snapshotOf(name, class, claim string) string {
	return aSnapshot + "metadata: {name: " + name + "}\nspec: {volumeSnapshotClassName: " + class +
		", source: {persistentVolumeClaimName: " + claim + "}}"
}

// claimFrom returns YAML of a claim that is made from a snapshot.
func claimFrom(name, snapshot, size string) string {
	return "metadata: {name: " + name + "}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " +
		size + "}}, dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: " + snapshot + "}}"
}

func isReadyToUse() map[string]any { return map[string]any{"/status/readyToUse": true} }

// readySnapshot takes a snapshot of the claim a and waits until it is ready. It returns the name of its content.
func (s *space) readySnapshot(name, class string) (content string) {
	s.Helper()
	s.create(snapshotPath, snapshotOf(name, class, "a"))
	return s.await(snapshotPath+"/"+name, isReadyToUse()).text("/status/boundVolumeSnapshotContentName")
}

func testSnapshot(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	uid := s.create(snapshotPath, snapshotOf("one", class, "a")).text("/metadata/uid")
	cut := s.await(snapshotPath+"/one", map[string]any{"/status/readyToUse": true, "/status/restoreSize": "1Gi"})
	s.want(cut, map[string]any{
		"/status/boundVolumeSnapshotContentName": "snapcontent-" + uid, "/status/error": nil, "/metadata/generation": 1,
		"/metadata/finalizers": []string{
			snapshotDomain + "volumesnapshot-as-source-protection", snapshotDomain + "volumesnapshot-bound-protection",
		},
	})
	if cut.text("/status/creationTime") == "" {
		s.Errorf("the snapshot has no time: %s", cut.body)
	}
	volume := s.get("/api/v1/persistentvolumes/" + s.get("persistentvolumeclaims/a").text("/spec/volumeName"))
	content := s.get(snapshotContents + "snapcontent-" + uid)
	s.want(content, map[string]any{
		"/spec/deletionPolicy": "Delete", "/spec/driver": "pd.csi.storage.gke.io",
		"/spec/source":                      map[string]any{"volumeHandle": volume.at("/spec/csi/volumeHandle")},
		"/spec/volumeSnapshotRef/uid":       uid,
		"/spec/volumeSnapshotRef/namespace": s.namespace, "/spec/volumeSnapshotRef/name": "one",
		"/spec/volumeSnapshotClassName": class, "/status/restoreSize": 1 << 30, "/status/readyToUse": true,
		"/metadata/finalizers": []string{snapshotDomain + "volumesnapshotcontent-bound-protection"},
	})
	if content.text("/status/snapshotHandle") == "" {
		s.Errorf("the content has no handle: %s", content.body)
	}
	s.await("persistentvolumeclaims/a", map[string]any{
		"/metadata/finalizers": []string{"kubernetes.io/pvc-protection"},
	})
	deleted := s.must(call{verb: "DELETE", path: snapshotPath + "/one"})
	if deleted.text("/metadata/deletionTimestamp") == "" {
		s.Errorf("the snapshot is gone before its content: %s", deleted.body)
	}
	s.awaitGone(snapshotPath + "/one")
	s.awaitGone(snapshotContents + "snapcontent-" + uid)
}

// testSnapshotFormats reads and writes snapshots in the ways that custom resources have.
func testSnapshotFormats(s *space) {
	const path, proto = snapshotPath + "/one", "application/vnd.kubernetes.protobuf"
	applied := s.apply("tester", path, aSnapshot+"metadata: {name: one, labels: {a: b}}\n"+
		"spec: {source: {persistentVolumeClaimName: none}}")
	if !strings.Contains(string(applied.body), `"f:persistentVolumeClaimName":{}`) {
		s.Errorf("managedFields do not have the fields of the specification: %s", applied.body)
	}
	s.must(call{verb: "MERGE", path: path + "/status", body: "{spec: null, status: {restoreSize: 5Gi}}"})
	s.want(s.get(path), map[string]any{"/status/restoreSize": "5Gi", "/spec/source/persistentVolumeClaimName": "none"})
	s.must(call{verb: "MERGE", path: path, body: "status: {restoreSize: 6Gi}"})
	if got := s.get(path).text("/status/restoreSize"); got == "6Gi" {
		s.Error("a write of the snapshot changed its status")
	}
	w := s.watch(snapshotPath, "", nil)
	w.wants("ADDED one")
	for accepted, want := range map[string]string{
		proto + "," + "application/json":                           "application/json",
		proto + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": proto,
	} {
		a := s.must(call{path: snapshotPath, header: accept(accepted)})
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, want) {
			s.Errorf("a client that accepts %s gets %s, want %s", accepted, got, want)
		}
	}
	if a := s.send(call{path: snapshotPath, header: accept(proto)}); a.code != http.StatusNotAcceptable {
		s.Errorf("a client that accepts only protobuf is answered %d, want %d", a.code, http.StatusNotAcceptable)
	}
	s.refuses(call{verb: "POST", path: snapshotPath, body: "metadata: {name: two}"}, refusal{
		code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest, message: "must be of type VolumeSnapshot",
	})
	s.refuses(call{verb: "STRATEGIC", path: path, body: "metadata: {labels: {a: c}}"}, refusal{
		code: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType,
	})
}

func testSnapshotsRefused(s *space) {
	create := func(body string) call {
		return call{verb: "POST", path: snapshotPath, body: aSnapshot + "metadata: {name: a}\n" + body}
	}
	content := func(spec string) call {
		return call{
			verb: "POST", path: snapshotContents,
			body: aContent + "metadata: {name: '" + s.namespace + "'}\nspec: {driver: example.test, " + spec + "}",
		}
	}
	const ref = "volumeSnapshotRef: {name: a, namespace: b}"
	for name, row := range map[string]struct {
		call
		message string
	}{
		"no source": {call: create("spec: {source: {}}"), message: "exactly one of"},
		"two sources": {
			call:    create("spec: {source: {persistentVolumeClaimName: a, volumeSnapshotContentName: b}}"),
			message: "exactly one of",
		},
		"empty class": {
			call:    create("spec: {volumeSnapshotClassName: '', source: {persistentVolumeClaimName: a}}"),
			message: "must not be the empty string",
		},
		"unknown policy": {
			call:    content("deletionPolicy: Keep, source: {snapshotHandle: a}, " + ref),
			message: `supported values: "Delete", "Retain"`,
		},
		"content of none": {call: content("deletionPolicy: Retain, source: {}, " + ref), message: "exactly one of"},
		"content for none": {
			call:    content("deletionPolicy: Retain, source: {snapshotHandle: a}, volumeSnapshotRef: {name: a}"),
			message: "both spec.volumeSnapshotRef.name and",
		},
	} {
		a := s.refuses(row.call, refusal{code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid})
		if text := a.status().Message; !strings.Contains(text, row.message) {
			s.Errorf("%s: message %q, want %q", name, text, row.message)
		}
	}
	s.create(snapshotPath, snapshotOf("a", "none", "none"))
	s.refuses(call{
		verb: "MERGE", path: snapshotPath + "/a", body: "spec: {source: {persistentVolumeClaimName: other}}",
	}, invalid("FieldValueInvalid spec.source"))
}

func testClaimFromSnapshot(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	s.readySnapshot("one", class)
	source := map[string]any{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "one"}
	created := s.create("persistentvolumeclaims", claimFrom("b", "one", "2Gi"))
	s.want(created, map[string]any{"/spec/dataSource": source, "/spec/dataSourceRef": source})
	s.create("pods", claimingPod("b", "b"))
	bound := s.await("persistentvolumeclaims/b", map[string]any{"/status/phase": "Bound"})
	s.want(bound, map[string]any{"/spec/dataSource": source, "/status/capacity/storage": "2Gi"})
	s.refuses(call{verb: "MERGE", path: "persistentvolumeclaims/b", body: "spec: {dataSource: {name: two}, " +
		"dataSourceRef: {name: two}}"},
		invalid("FieldValueForbidden spec"))
	dropped := s.create("persistentvolumeclaims", "metadata: {name: c}\nspec: {accessModes: [ReadWriteOnce], "+
		"resources: {requests: {storage: 1Gi}}, "+
		"dataSource: {apiGroup: snapshot.storage.k8s.io, kind: Other, name: one}}")
	s.want(dropped, map[string]any{"/spec/dataSource": nil, "/spec/dataSourceRef": nil})
}

// testClaimWaitsForSnapshot makes a claim from a snapshot that does not exist yet, and one that is too small.
func testClaimWaitsForSnapshot(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	for name, size := range map[string]string{"early": "1Gi", "small": "512Mi"} {
		s.create("persistentvolumeclaims", claimFrom(name, "one", size))
		s.create("pods", claimingPod(name, name))
	}
	s.awaitEvent("early", "ProvisioningFailed", "error getting snapshot one from api server")
	s.readySnapshot("one", class)
	s.await("persistentvolumeclaims/early", map[string]any{"/status/phase": "Bound"})
	s.awaitEvent("small", "ProvisioningFailed",
		"requested volume size 536870912 is less than the size 1073741824 for the source snapshot one")
	s.want(s.get("persistentvolumeclaims/small"), map[string]any{"/status/phase": "Pending"})
}

// awaitEvent waits for an event of a claim.
func (s *space) awaitEvent(claim, reason, text string) {
	s.Helper()
	s.eventually(claim+" has an event "+text, func(ctx context.Context) error {
		list, err := s.admin.send(ctx, s.namespace, call{
			path: "events", query: "fieldSelector=involvedObject.name%3D" + claim + "%2Creason%3D" + reason,
		})
		if err == nil && !strings.Contains(string(list.body), text) {
			err = fmt.Errorf("events %s", list.body)
		}
		return err
	})
}

// preprovision creates a snapshot of data that storage has, and returns the name of its content.
func (s *space) preprovision(name, handle, policy string) (content string) {
	s.Helper()
	content = s.namespace + "-" + name
	s.create(snapshotContents, aContent+"metadata: {name: "+content+"}\nspec: {driver: pd.csi.storage.gke.io, "+
		"deletionPolicy: "+policy+", source: {snapshotHandle: '"+handle+"'}, volumeSnapshotRef: {namespace: '"+
		s.namespace+"', name: "+name+"}}")
	s.create(snapshotPath, aSnapshot+"metadata: {name: "+name+"}\nspec: {source: {volumeSnapshotContentName: "+
		content+"}}")
	return content
}

func testPreprovisioned(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	handle := s.get(snapshotContents + s.readySnapshot("one", class)).text("/status/snapshotHandle")
	content := s.preprovision("two", handle, "Retain")
	cut := s.await(snapshotPath+"/two", map[string]any{
		"/status/readyToUse": true, "/status/restoreSize": "1Gi", "/status/boundVolumeSnapshotContentName": content,
	})
	s.want(s.get(snapshotContents+content), map[string]any{
		"/spec/volumeSnapshotRef/uid": cut.at("/metadata/uid"), "/status/snapshotHandle": handle,
	})
	s.create("persistentvolumeclaims", claimFrom("b", "two", "1Gi"))
	s.create("pods", claimingPod("b", "b"))
	s.await("persistentvolumeclaims/b", map[string]any{"/status/phase": "Bound"})

	s.must(call{verb: "DELETE", path: snapshotPath + "/two"})
	s.awaitGone(snapshotPath + "/two")
	s.get(snapshotContents + content) // the policy says so
	s.must(call{verb: "DELETE", path: snapshotContents + content})
	s.awaitGone(snapshotContents + content)
	s.preprovision("three", handle, "Delete") // the data are still there
	s.await(snapshotPath+"/three", isReadyToUse())
	missing := s.preprovision("four", "projects/local/global/snapshots/none", "Retain")
	s.eventually("the content has an error", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, call{path: snapshotContents + missing})
		if err == nil && !strings.Contains(a.text("/status/error/message"), "can not find snapshot") {
			err = fmt.Errorf("status %v", a.at("/status"))
		}
		return err
	})
}

func testMisbound(s *space) {
	content := s.preprovision("one", "none", "Retain")
	s.create(snapshotPath, aSnapshot+"metadata: {name: two}\nspec: {source: {volumeSnapshotContentName: "+content+"}}")
	s.awaitProblem("two", "is bound to a different snapshot")
	s.must(call{verb: "DELETE", path: snapshotPath + "/two"})
	s.awaitGone(snapshotPath + "/two")
	s.want(s.get(snapshotContents+content), map[string]any{"/metadata/deletionTimestamp": nil})
}

// awaitProblem waits until a snapshot says why it is not taken.
func (s *space) awaitProblem(snapshot, text string) {
	s.Helper()
	s.eventually(snapshot+" has the problem "+text, func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, call{path: snapshotPath + "/" + snapshot})
		said := strings.Contains(a.text("/status/error/message"), text)
		if err == nil && (!said || a.at("/status/readyToUse") != false) {
			err = fmt.Errorf("status %v", a.at("/status"))
		}
		return err
	})
}

func testRetained(s *space) {
	class := s.class("Retain")
	s.boundClaim()
	content := s.readySnapshot("one", class)
	s.must(call{verb: "DELETE", path: snapshotPath + "/one"})
	s.awaitGone(snapshotPath + "/one")
	left := s.get(snapshotContents + content)
	s.want(left, map[string]any{"/metadata/deletionTimestamp": nil, "/status/readyToUse": true})
	s.preprovision("two", left.text("/status/snapshotHandle"), "Delete")
	s.await(snapshotPath+"/two", isReadyToUse())
	s.must(call{verb: "DELETE", path: snapshotContents + content})
	s.awaitGone(snapshotContents + content)
}

// testSnapshotAsSource deletes a snapshot that a claim is being made from.
func testSnapshotAsSource(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	content := s.readySnapshot("one", class)
	s.create("persistentvolumeclaims", claimFrom("b", "one", "1Gi")) // no pod uses it, so it is not made yet
	s.must(call{verb: "DELETE", path: snapshotPath + "/one"})
	s.create("persistentvolumeclaims", claimFrom("c", "one", "1Gi"))
	s.create("pods", claimingPod("c", "c"))
	s.awaitEvent("c", "ProvisioningFailed", "snapshot one is currently being deleted")
	s.want(s.get(snapshotContents+content), map[string]any{"/metadata/deletionTimestamp": nil})
	s.must(call{verb: "DELETE", path: "pods/c"})
	for _, name := range []string{"b", "c"} {
		s.get(snapshotPath + "/one")
		s.must(call{verb: "DELETE", path: "persistentvolumeclaims/" + name})
	}
	s.awaitGone(snapshotPath + "/one")
	s.awaitGone(snapshotContents + content)
}

// testContentDeleted deletes a content while its snapshot exists: it goes with the snapshot.
func testContentDeleted(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	content := s.readySnapshot("one", class)
	s.must(call{verb: "DELETE", path: snapshotContents + content})
	s.readySnapshot("two", class)
	s.want(s.get(snapshotPath+"/one"), isReadyToUse())
	s.get(snapshotContents + content)
	s.must(call{verb: "DELETE", path: snapshotPath + "/one"})
	s.awaitGone(snapshotPath + "/one")
	s.awaitGone(snapshotContents + content)
}

// testSnapshotLimit takes more snapshots of a disk than Compute Engine does within an hour. A claim stays as long as a
// snapshot of it is not ready.
func testSnapshotLimit(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	for i := range 6 {
		s.readySnapshot(fmt.Sprintf("s%d", i), class)
	}
	s.must(call{verb: "DELETE", path: snapshotPath + "/s0"})
	s.awaitGone(snapshotPath + "/s0")
	s.create(snapshotPath, snapshotOf("more", class, "a"))
	s.awaitProblem("more", "Too frequent operations from the source resource")
	s.want(s.get(snapshotPath+"/more"), map[string]any{"/status/creationTime": nil})

	s.must(call{verb: "DELETE", path: "pods/a"})
	s.awaitGone("pods/a")
	s.must(call{verb: "DELETE", path: "persistentvolumeclaims/a"})
	s.await("persistentvolumeclaims/a", map[string]any{
		"/metadata/finalizers": []string{snapshotDomain + "pvc-as-source-protection"},
	})
	s.must(call{verb: "DELETE", path: snapshotPath + "/more"})
	s.awaitGone(snapshotPath + "/more")
	s.awaitGone("persistentvolumeclaims/a")
	s.want(s.get(snapshotPath+"/s1"), isReadyToUse()) // it outlives its volume
}

func testSnapshotErrors(s *space) {
	s.create(snapshotPath, snapshotOf("one", s.namespace+"-delete", "a"))
	s.awaitProblem("one", "failed to get snapshot class")
	s.class("Delete")
	s.awaitProblem("one", "failed to retrieve PVC a")
	s.create("persistentvolumeclaims", claim("a"))
	s.awaitProblem("one", "the PVC a is not yet bound to a PV")
	s.create("pods", claimingPod("a", "a"))
	s.want(s.await(snapshotPath+"/one", isReadyToUse()), map[string]any{"/status/error": nil})
	s.create(snapshotPath, aSnapshot+"metadata: {name: two}\nspec: {source: {volumeSnapshotContentName: '"+
		s.namespace+"-none'}}")
	s.awaitProblem("two", "VolumeSnapshotContent is missing")
}

func testSnapshotsOfNamespace(s *space) {
	class := s.class("Delete")
	s.boundClaim()
	first, second := s.readySnapshot("one", class), s.readySnapshot("two", class)
	kept := s.preprovision("three", s.get(snapshotContents+first).text("/status/snapshotHandle"), "Retain")
	s.await(snapshotPath+"/three", isReadyToUse())
	s.create("persistentvolumeclaims", claimFrom("b", "one", "1Gi"))
	s.must(call{verb: "DELETE", path: snapshotContents + kept}) // nothing else would
	s.get(snapshotContents + kept)
	s.must(call{verb: "DELETE", path: "/api/v1/namespaces/{ns}"})
	s.awaitGone("/api/v1/namespaces/{ns}")
	s.eventually("no content is left", func(ctx context.Context) error {
		var errs []error
		for _, content := range []string{first, second, kept} {
			errs = append(errs, s.is(ctx, call{path: snapshotContents + content}, http.StatusNotFound))
		}
		return errors.Join(errs...)
	})
}
