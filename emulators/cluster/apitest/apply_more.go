//go:build unix

package apitest

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testApplyUnknown applies a field that the kind does not have.
func testApplyUnknown(s *space) {
	body := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, spec: {a: b}}"
	s.refuses(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one", body: body}, refusal{
		code: http.StatusInternalServerError, message: ".spec: field not declared in schema",
	})
	s.refuses(call{
		verb: "APPLY", path: "configmaps/a", query: "fieldManager=one",
		body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: [{manager: m}]}}",
	}, refusal{code: 400, reason: metav1.StatusReasonBadRequest, message: "metadata.managedFields must be nil"})
}

func testApplyManagers(s *space) {
	long := strings.Repeat("m", 129)
	for query, cause := range map[string]string{
		"fieldManager=" + long: "FieldValueTooLong fieldManager", "fieldManager=a%00b": "FieldValueInvalid " +
			"fieldManager",
	} {
		s.refuses(call{verb: "APPLY", path: "configmaps/a", query: query, body: config("{}")},
			refusal{code: 422, reason: metav1.StatusReasonInvalid, causes: []string{cause}})
	}
	s.refuses(call{verb: "MERGE", path: "configmaps/a", query: "force=true", body: "data: {}"},
		refusal{code: 422, reason: metav1.StatusReasonInvalid, causes: []string{"FieldValueForbidden force"}})
}

func testApplyStatus(s *space) {
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	const body = "{apiVersion: v1, kind: Pod, metadata: {name: a}, status: {conditions: [{type: example.test/a, " +
		"status: 'True'}]}}"
	a := s.apply("one", "pods/a/status", body)
	if !strings.Contains(string(a.body), `"type":"example.test/a"`) {
		s.Errorf("the status was not applied: %s", a.body)
	}
	if all := strings.Join(a.managers(), ", "); !strings.Contains(all, "one Apply status") {
		s.Errorf("managers %s, want one of the subresource", all)
	}
	// The same through the object itself does nothing to the status.
	main := s.apply("two", "pods/a", strings.ReplaceAll(body, "test/a", "test/b"))
	if strings.Contains(string(main.body), "example.test/b") {
		s.Errorf("an apply of the pod changed its status: %s", main.body)
	}
}

func testApplyScale(s *space) {
	s.apply("one", "apps/statefulsets/a", strings.Replace(workload("env: []"), "replicas: 0, ", "", 1))
	s.must(call{verb: "MERGE", path: "apps/statefulsets/a", query: "fieldManager=three", body: "spec: {replicas: 0}"})
	r := call{
		verb: "APPLY", path: "apps/statefulsets/a/scale", query: "fieldManager=two",
		body: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 3}}",
	}
	s.refuses(r, refusal{code: 409, reason: metav1.StatusReasonConflict, causes: []string{"FieldManagerConflict " +
		".spec.replicas"}})
	r.query += "&force=true"
	s.want(s.must(r), map[string]any{"/kind": "Scale", "/spec/replicas": 3})
	a := s.must(call{verb: "MERGE", path: "apps/statefulsets/a/scale", query: "fieldManager=two", body: "spec: " +
		"{replicas: 0}"})
	s.want(a, map[string]any{"/kind": "Scale"})
	s.want(s.get("apps/statefulsets/a"), map[string]any{"/spec/replicas": 0})
}

// testManagedFields compares all that is recorded of the fields of two managers.
func testManagedFields(s *space) {
	s.apply("one", "configmaps/a", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: z}}, data: "+
		"{a: b}}")
	a := s.must(call{verb: "STRATEGIC", path: "configmaps/a", query: "fieldManager=two", body: "data: {c: d}"})
	type fields = map[string]any
	s.want(a, map[string]any{
		"/metadata/managedFields/0/manager": "one", "/metadata/managedFields/0/operation": "Apply",
		"/metadata/managedFields/0/apiVersion": "v1", "/metadata/managedFields/0/fieldsType": "FieldsV1",
		"/metadata/managedFields/0/fieldsV1": fields{
			"f:metadata": fields{"f:labels": fields{"f:x": fields{}}}, "f:data": fields{"f:a": fields{}},
		},
		"/metadata/managedFields/1/manager": "two", "/metadata/managedFields/1/operation": "Update",
		"/metadata/managedFields/1/fieldsV1": fields{"f:data": fields{"f:c": fields{}}},
	})
	// The manager of an update is the first part of the client's name.
	named := s.must(call{
		verb: "MERGE", path: "configmaps/a", body: "data: {e: f}",
		header: map[string]string{"User-Agent": "three/v1 (test)"},
	})
	s.wantManagers(named, "one Apply", "three Update", "two Update")
	// An empty list of managers removes the record; the next apply begins again.
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "metadata: {managedFields: [{}]}"})
	cleared := s.get("configmaps/a")
	s.want(cleared, map[string]any{"/metadata/managedFields": nil, "/data": map[string]string{
		"a": "b", "c": "d",
		"e": "f",
	}})
	s.wantManagers(s.apply("one", "configmaps/a", config("{a: b}")), "before-first-apply Update", "one Apply")
}

func testApplyJSON(s *space) {
	a := s.must(call{
		verb: "PATCH", path: "configmaps/a", query: "fieldManager=one", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b"}}`,
		header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	})
	s.want(a, map[string]any{"/metadata/name": "a", "/data/a": "b"})
	yaml := s.must(call{
		verb: "PATCH", path: "configmaps/a", query: "fieldManager=one", body: "apiVersion: v1\nkind: " +
			"ConfigMap\nmetadata:\n  name: a\ndata:\n  a: c\n",
		header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	})
	s.want(yaml, map[string]any{"/data/a": "c"})
}

// testApplyAgent applies what a worker applies for an agent, twice: the second time nothing may change.
func testApplyAgent(s *space) {
	const meta = "metadata: {name: agent, labels: {app.kubernetes.io/name: agent}, annotations: {hash: a}}, "
	objects := map[string]string{
		"resourcequotas/agent": "{apiVersion: v1, kind: ResourceQuota, " + meta + "spec: {hard: {limits.cpu: 1500m, " +
			"requests.memory: 2112Mi, limits.memory: 2112Mi, requests.cpu: '1.5', pods: '2', requests.storage: 5Gi, " +
			"services.nodeports: '0'}}}",
		"networking.k8s.io/networkpolicies/agent": "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, " + meta +
			"spec: {podSelector: {}, policyTypes: [Ingress, Egress], egress: [{ports: [{port: 53, protocol: UDP}], " +
			"to: " +
			"[{namespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}, {ipBlock: {cidr: " +
			"0.0.0.0/0, " +
			"except: [10.0.0.0/8]}}]}], ingress: [{ports: [{port: 8080, protocol: TCP}]}]}}",
		"services/agent": "{apiVersion: v1, kind: Service, " + meta + "spec: {clusterIP: None, type: ClusterIP, " +
			"publishNotReadyAddresses: false, selector: {app.kubernetes.io/name: agent}, ports: [{name: http, " +
			"port: 8080, " +
			"protocol: TCP, targetPort: http}]}}",
		"persistentvolumeclaims/agent": "{apiVersion: v1, kind: PersistentVolumeClaim, " + meta + "spec: " +
			"{accessModes: " +
			"[ReadWriteOnce], resources: {requests: {storage: 5Gi}}}}",
		"apps/statefulsets/agent": "{apiVersion: apps/v1, kind: StatefulSet, " + meta + "spec: {podManagementPolicy: " +
			"Parallel, replicas: 1, revisionHistoryLimit: 1, serviceName: agent, selector: {matchLabels: " +
			"{app.kubernetes.io/name: agent}}, template: {metadata: {labels: {app.kubernetes.io/name: agent}}, " +
			"spec: {" +
			"nodeSelector: {none: none}, automountServiceAccountToken: false, enableServiceLinks: false, " +
			"securityContext: " +
			"{fsGroup: 1, seccompProfile: {type: RuntimeDefault}}, containers: [{name: agent, image: " +
			"'" + image + "', env: " +
			"[{name: A, value: b}, {name: C, valueFrom: {secretKeyRef: {name: d, key: e}}}], envFrom: " +
			"[{configMapRef: " +
			"{name: f}}], livenessProbe: {tcpSocket: {port: 8000}, periodSeconds: 20, failureThreshold: 6}, " +
			"resources: " +
			"{limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 100m, memory: 512Mi}}, volumeMounts: [{name: data, " +
			"mountPath: /data}]}], volumes: [{name: data, persistentVolumeClaim: {claimName: agent}}, {name: tmp, " +
			"emptyDir: " +
			"{sizeLimit: 1Gi}}]}}}}",
	}
	for path, body := range objects {
		s.apply("agents", path, body)
		again := s.apply("agents", path, body)
		s.want(s.apply("agents", path, body), map[string]any{
			"/kind": again.at("/kind"), "/metadata/generation": again.at("/metadata/generation"),
			"/spec": again.at("/spec"),
		})
	}
}
