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

// applyCases are about server-side apply.
func applyCases() map[string]func(*space) {
	return map[string]func(*space){
		"creation":                testApplyCreates,
		"repetition":              testApplyRepeats,
		"conflict":                testApplyConflict,
		"conflict with an update": testApplyAgainstUpdate,
		"shared ownership":        testApplyShares,
		"pruned fields":           testApplyPrunes,
		"lists by key":            testApplyLists,
		"atomic lists":            testApplyAtomic,
		"dry run":                 testApplyDryRun,
		"preconditions":           testApplyPreconditions,
		"unknown fields":          testApplyUnknown,
		"malformed managers":      testApplyManagers,
		"status":                  testApplyStatus,
		"scale":                   testApplyScale,
		"managed fields":          testManagedFields,
		"JSON":                    testApplyJSON,
		"agent's objects":         testApplyAgent,
	}
}

// config returns YAML to apply a ConfigMap a with data such as "{a: b}".
func config(data string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: " + data + "}"
}

// managers returns the managers of an object's fields as "name operation subresource", sorted.
func (a answer) managers() []string {
	var object struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	_ = json.Unmarshal(a.body, &object) // the check of what it has then fails
	var list []string
	for _, m := range object.Metadata.ManagedFields {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.Subresource)))
	}
	slices.Sort(list)
	return list
}

func (s *space) wantManagers(a answer, want ...string) {
	s.Helper()
	if got := a.managers(); !slices.Equal(got, want) {
		s.Errorf("managers %q, want %q", got, want)
	}
}

func testApplyCreates(s *space) {
	a := s.send(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one", body: config("{a: b}")})
	if a.code != http.StatusCreated {
		s.Errorf("apply of a new object is answered %d: %s", a.code, a.body)
	}
	s.wantManagers(a, "one Apply")
	again := s.send(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one", body: config("{a: c}")})
	if again.code != http.StatusOK {
		s.Errorf("apply of an old object is answered %d: %s", again.code, again.body)
	}
	s.want(again, map[string]any{"/data": map[string]string{"a": "c"}, "/metadata/uid": a.at("/metadata/uid")})
}

func testApplyRepeats(s *space) {
	a := s.apply("one", "configmaps/a", config("{a: b}"))
	s.want(s.apply("one", "configmaps/a", config("{a: b}")), map[string]any{
		"/metadata/resourceVersion": a.at("/metadata/resourceVersion"),
		"/metadata/managedFields":   a.at("/metadata/managedFields"),
	})
}

func testApplyConflict(s *space) {
	s.apply("one", "configmaps/a", config("{a: b, c: d}"))
	s.refuses(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=two", body: config("{a: x, e: f}")},
		refusal{
			code: http.StatusConflict, reason: metav1.StatusReasonConflict,
			message: `Apply failed with 1 conflict: conflict with "one": .data.a`, causes: []string{"FieldManagerConflict .data.a"},
		})
	s.refuses(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=two", body: config("{a: x, c: x}")},
		refusal{
			code: http.StatusConflict, reason: metav1.StatusReasonConflict,
			message: "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.c",
			causes:  []string{"FieldManagerConflict .data.a", "FieldManagerConflict .data.c"},
		})
	s.want(s.get("configmaps/a"), map[string]any{"/data": map[string]string{"a": "b", "c": "d"}})
	forced := s.must(call{
		verb: "APPLY", path: "configmaps/a", query: "fieldManager=two&force=true",
		body: config("{a: x}"),
	})
	s.want(forced, map[string]any{"/data": map[string]string{"a": "x", "c": "d"}})
	s.refuses(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one", body: config("{a: b, c: d}")},
		refusal{
			code: http.StatusConflict, reason: metav1.StatusReasonConflict, message: `conflict with "two"`,
		})
}

func testApplyAgainstUpdate(s *space) {
	s.apply("one", "configmaps/a", config("{a: b}"))
	a := s.must(call{verb: "MERGE", path: "configmaps/a", query: "fieldManager=two", body: "data: {a: c, d: e}"})
	s.wantManagers(a, "two Update") // one owns nothing anymore
	s.refuses(call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one", body: config("{a: b}")}, refusal{
		code: http.StatusConflict, reason: metav1.StatusReasonConflict, message: `conflict with "two" using v1: .data.a`,
		causes: []string{"FieldManagerConflict .data.a"},
	})
	forced := s.must(call{
		verb: "APPLY", path: "configmaps/a", query: "fieldManager=one&force=true",
		body: config("{a: b}"),
	})
	s.want(forced, map[string]any{"/data": map[string]string{"a": "b", "d": "e"}})
	s.wantManagers(forced, "one Apply", "two Update")
}

func testApplyShares(s *space) {
	s.apply("one", "configmaps/a", config("{a: b}"))
	s.wantManagers(s.apply("two", "configmaps/a", config("{a: b}")), "one Apply", "two Apply")
	// The field stays while another manager owns it.
	a := s.apply("one", "configmaps/a", config("{}"))
	s.want(a, map[string]any{"/data": map[string]string{"a": "b"}})
	s.want(s.apply("two", "configmaps/a", config("{c: d}")), map[string]any{"/data": map[string]string{"c": "d"}})
}

func testApplyPrunes(s *space) {
	s.apply("one", "configmaps/a", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}, "+
		"annotations: {a: b}}, data: {a: b, c: d}}")
	s.must(call{verb: "MERGE", path: "configmaps/a", query: "fieldManager=two", body: "{metadata: {labels: {c: " +
		"d}}, data: {e: f}}"})
	a := s.apply("one", "configmaps/a", config("{a: b}"))
	s.want(a, map[string]any{
		"/data": map[string]string{"a": "b", "e": "f"}, "/metadata/labels": map[string]string{"c": "d"},
		"/metadata/annotations": nil,
	})
}

// workload returns YAML to apply a StatefulSet with fields of its container.
func workload(fields string) string {
	return "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 0, selector: " +
		"{matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: b, image: i, " +
		"" + fields + "}]}}}}"
}

func testApplyLists(s *space) {
	const path, container = "apps/statefulsets/a", "/spec/template/spec/containers/0"
	s.apply("one", path, workload("env: [{name: A, value: a}, {name: B, value: b}], ports: [{containerPort: 80}]"))
	a := s.must(call{
		verb: "APPLY", path: path, query: "fieldManager=two", body: "{apiVersion: apps/v1, kind: StatefulSet, " +
			"metadata: {name: a}, spec: {template: {spec: {containers: [{name: b, env: [{name: C, value: c}], " +
			"ports: [{containerPort: 80, protocol: UDP}]}]}}}}",
	})
	s.want(a, map[string]any{
		container + "/env": []map[string]string{
			{"name": "A", "value": "a"}, {"name": "B", "value": "b"}, {"name": "C", "value": "c"},
		},
		container + "/ports/0/protocol": "TCP", container + "/ports/1/protocol": "UDP", container + "/ports/2": nil,
	})
	a = s.apply("one", path, workload("env: [{name: B, value: x}]"))
	s.want(a, map[string]any{
		container + "/env":              []map[string]string{{"name": "B", "value": "x"}, {"name": "C", "value": "c"}},
		container + "/ports/0/protocol": "UDP", container + "/ports/1": nil,
	})
	s.refuses(call{
		verb: "APPLY", path: path, query: "fieldManager=two",
		body: strings.Replace(workload("env: [{name: B, value: z}]"), "image: i, ", "", 1),
	}, refusal{
		code: 409, reason: metav1.StatusReasonConflict,
		causes: []string{`FieldManagerConflict .spec.template.spec.containers[name="b"].env[name="B"].value`},
	})
	s.refuses(call{
		verb: "APPLY", path: path, query: "fieldManager=one", body: workload("env: [{name: B, value: x}, {name: B, " +
			"value: y}]"),
	}, refusal{code: 500, message: "duplicate entries for key"})
}

// testApplyAtomic replaces lists that have no keys.
func testApplyAtomic(s *space) {
	const path = "networking.k8s.io/networkpolicies/a"
	policy := func(types string) string {
		return "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, " +
			"policyTypes: " + types + "}}"
	}
	s.apply("one", path, policy("[Ingress, Egress]"))
	s.want(s.apply("one", path, policy("[Egress]")), map[string]any{"/spec/policyTypes": []string{"Egress"}})
	s.refuses(call{verb: "APPLY", path: path, query: "fieldManager=two", body: policy("[Ingress]")}, refusal{
		code: 409, reason: metav1.StatusReasonConflict, causes: []string{"FieldManagerConflict .spec.policyTypes"},
	})
}

func testApplyDryRun(s *space) {
	r := call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=one&dryRun=All", body: config("{a: b}")}
	if a := s.must(r); a.code != http.StatusCreated || a.text("/data/a") != "b" {
		s.Errorf("dry run is answered %d: %s", a.code, a.body)
	}
	s.awaitGone("configmaps/a")
	before := s.apply("one", "configmaps/a", config("{a: b}"))
	r.body = config("{a: c}")
	s.want(s.must(r), map[string]any{"/data/a": "c"})
	s.want(s.get("configmaps/a"), map[string]any{
		"/data/a": "b", "/metadata/resourceVersion": before.at("/metadata/resourceVersion"),
	})
}

func testApplyPreconditions(s *space) {
	with := func(field string) call {
		return call{
			verb: "APPLY", path: "configmaps/a", query: "fieldManager=one",
			body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + field + "}, data: {a: b}}",
		}
	}
	conflict := refusal{code: 409, reason: metav1.StatusReasonConflict}
	s.refuses(with("uid: 00000000-0000-0000-0000-000000000000"), conflict) // it must not be created
	s.awaitGone("configmaps/a")
	// A version is no precondition of a creation.
	a := s.must(with("resourceVersion: '1'"))
	a = s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {c: '" + a.text("/metadata/uid") + "'}"})
	s.must(with("uid: " + a.text("/metadata/uid")))
	s.must(call{verb: "MERGE", path: "configmaps/a", body: "data: {c: d}"})
	s.refuses(with("uid: 00000000-0000-0000-0000-000000000000"), invalid())
	s.refuses(with("resourceVersion: '"+a.text("/metadata/resourceVersion")+"'"), conflict)
	s.must(with("resourceVersion: '" + s.get("configmaps/a").text("/metadata/resourceVersion") + "'"))
}
