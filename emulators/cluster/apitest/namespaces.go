//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceCases are about the life of namespaces, and what the server puts into new ones.
func namespaceCases() map[string]func(*space) {
	return map[string]func(*space){
		"creation":                  testNewNamespace,
		"deletion":                  testNamespaceDeletion,
		"refusals of a terminating": testTerminating,
		"finalize":                  testFinalize,
		"preconditions":             testNamespacePreconditions,
		"service account returns":   testServiceAccountReturns,
	}
}

func testNewNamespace(s *space) {
	s.want(s.get("/api/v1/namespaces/{ns}"), map[string]any{
		"/metadata/labels": map[string]string{"kubernetes.io/metadata.name": s.namespace},
		"/spec/finalizers": []string{"kubernetes"}, "/status/phase": "Active",
	})
	s.await("serviceaccounts/default", map[string]any{"/metadata/name": "default", "/secrets": nil})
	s.eventually("the certificate authority is published", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, call{path: "configmaps/kube-root-ca.crt"})
		if err == nil && !strings.Contains(a.text("/data/ca.crt"), "BEGIN CERTIFICATE") {
			err = fmt.Errorf("it is not: %s", a.body)
		}
		return err
	})
	// The label of the name cannot be removed.
	a := s.must(call{verb: "MERGE", path: "/api/v1/namespaces/{ns}", body: "metadata: {labels: null}"})
	s.want(a, map[string]any{"/metadata/labels/kubernetes.io~1metadata.name": s.namespace})
}

// testNamespaceDeletion deletes a namespace with a running workload, its volume, and other objects.
func testNamespaceDeletion(s *space) {
	s.create("apps/statefulsets", agentSet(""))
	s.create("configmaps", "metadata: {name: a}")
	s.create("secrets", "metadata: {name: a}")
	s.await("pods/a-0", ready())
	claim := s.await("persistentvolumeclaims/data-a-0", map[string]any{"/status/phase": "Bound"})
	volume := claim.text("/spec/volumeName")
	a := s.must(call{verb: "DELETE", path: "/api/v1/namespaces/{ns}"})
	s.want(a, map[string]any{
		"/kind": "Namespace", "/status/phase": "Terminating",
		"/spec/finalizers": []string{"kubernetes"},
	})
	s.awaitGone("/api/v1/namespaces/{ns}")
	s.awaitGone("/api/v1/persistentvolumes/" + volume)
	for _, path := range []string{"pods", "configmaps", "secrets", "persistentvolumeclaims", "apps/statefulsets"} {
		if left := s.get(path).names(); len(left) != 0 {
			s.Errorf("%s of the deleted namespace: %q", path, left)
		}
	}
	// The name can be used again.
	again := s.create("/api/v1/namespaces", "metadata: {name: "+s.namespace+"}")
	if again.text("/metadata/uid") == a.text("/metadata/uid") {
		s.Error("the new namespace has the UID of the old one")
	}
}

// testTerminating keeps a namespace from ending, and writes to it.
func testTerminating(s *space) {
	s.create("configmaps", "metadata: {name: a, finalizers: [example.test/wait]}", "metadata: {name: b}")
	s.must(call{verb: "DELETE", path: "/api/v1/namespaces/{ns}"})
	terminating := refusal{
		code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, causes: []string{"NamespaceTerminating " +
			"metadata.namespace"},
		message: "because it is being terminated",
	}
	s.refuses(call{verb: "POST", path: "configmaps", body: "metadata: {name: c}"}, terminating)
	s.refuses(call{
		verb: "APPLY", path: "configmaps/c", query: "fieldManager=m", body: "{apiVersion: v1, kind: ConfigMap, " +
			"metadata: {name: c}}",
	}, terminating)
	s.awaitGone("configmaps/b")
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: b}"}) // what exists can be changed
	s.refuses(call{verb: "POST", path: "/api/v1/namespaces", body: "metadata: {name: " + s.namespace + "}"}, refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonAlreadyExists, message: "object is being deleted",
	})
	s.eventually("the namespace says what it waits for", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, call{path: "/api/v1/namespaces/{ns}"})
		if err != nil {
			return err
		}
		conditions := map[string]string{}
		list, _ := a.at("/status/conditions").([]any)
		for i := range list {
			at := fmt.Sprintf("/status/conditions/%d", i)
			conditions[a.text(at+"/type")] = a.text(at+"/status") + " " + a.text(at+"/reason")
		}
		for name, want := range map[string]string{
			"NamespaceContentRemaining": "True SomeResourcesRemain", "NamespaceFinalizersRemaining": "True " +
				"SomeFinalizersRemain",
		} {
			if conditions[name] != want {
				return fmt.Errorf("condition %s is %q, want %q", name, conditions[name], want)
			}
		}
		return nil
	})
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "metadata: {finalizers: null}"})
	s.awaitGone("/api/v1/namespaces/{ns}")
}

// testFinalize removes a finalizer of the spec, which only the subresource can.
func testFinalize(s *space) {
	name := s.namespace + "-f"
	path := "/api/v1/namespaces/" + name
	s.create("/api/v1/namespaces", "metadata: {name: "+name+"}\nspec: {finalizers: [example.test/wait]}")
	s.want(s.get(path), map[string]any{"/spec/finalizers": []string{"example.test/wait", "kubernetes"}})
	s.want(s.must(call{verb: "MERGE", path: path, body: "spec: {finalizers: []}"}), map[string]any{
		"/spec/finalizers": []string{"example.test/wait", "kubernetes"},
	})
	s.must(call{verb: "DELETE", path: path})
	s.eventually("the server has removed its own finalizer", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, "", call{path: path})
		if err != nil {
			return err
		}
		return differences(a, map[string]any{"/spec/finalizers": []string{"example.test/wait"}})
	})
	s.must(call{verb: "PUT", path: path + "/finalize", body: "metadata: {name: " + name + "}\nspec: {finalizers: []}"})
	s.awaitGone(path)
}

func testNamespacePreconditions(s *space) {
	r := call{
		verb: "DELETE", path: "/api/v1/namespaces/{ns}", body: "{apiVersion: v1, kind: DeleteOptions, " +
			"preconditions: {uid: none}}",
	}
	s.refuses(r, refusal{code: 409, reason: metav1.StatusReasonConflict})
	s.want(s.get("/api/v1/namespaces/{ns}"), map[string]any{"/status/phase": "Active"})
}

func testServiceAccountReturns(s *space) {
	first := s.get("serviceaccounts/default").text("/metadata/uid")
	s.must(call{verb: "DELETE", path: "serviceaccounts/default"})
	s.eventually("the default service account exists again", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, call{path: "serviceaccounts/default"})
		if err == nil && (a.err() != nil || a.text("/metadata/uid") == first) {
			err = fmt.Errorf("it does not: %s", a.body)
		}
		return err
	})
}

// agentSet returns YAML of a StatefulSet a of one pod with a volume claim. spec has further fields, and ends with a
// comma.
func agentSet(spec string) string {
	return "metadata: {name: a}\nspec: {" + spec + "serviceName: a, selector: {matchLabels: {app: a}}, template: " +
		"{metadata: {labels: {app: a}}, spec: {containers: [{name: main, image: '" + image + "', volumeMounts: " +
		"[{name: data, mountPath: /data}]}]}}, volumeClaimTemplates: [{metadata: {name: data}, spec: " +
		"{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}"
}
