//go:build unix

package apitest

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refused is a call that the server refuses.
type refused struct {
	call

	// given are objects that exist, as YAML by their path.
	given map[string]string
	want  refusal
}

// refusedCases returns a case for each row of the tables with objects, and one for all others, which leave nothing.
func refusedCases() map[string]func(*space) {
	cases := map[string]func(*space){
		"request above the limit":            testLargeRequest,
		"object above the limit of its kind": testLargeConfig,
	}
	alone := map[string]refused{}
	for _, table := range []map[string]refused{unknownCalls(), malformedCalls(), invalidObjects(), immutableFields()} {
		for name, row := range table {
			if row.given == nil {
				alone[name] = row
				continue
			}
			cases[name] = func(s *space) {
				for path, body := range row.given {
					s.create(path, body)
				}
				s.refuses(row.call, row.want)
			}
		}
	}
	cases["without objects"] = func(s *space) {
		for name, row := range alone {
			s.Run(name, func(t *testing.T) {
				one := *s
				one.T = t
				one.refuses(row.call, row.want)
			})
		}
	}
	return cases
}

func unknownCalls() map[string]refused {
	notFound := refusal{code: http.StatusNotFound, reason: metav1.StatusReasonNotFound}
	return map[string]refused{
		"unknown namespace of a write": {
			call: call{verb: "POST", path: "/api/v1/namespaces/none/configmaps", body: "metadata: {name: a}"},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `namespaces "none" not found`},
		},
		"unknown namespace of an apply": {
			call: call{
				verb: "APPLY", path: "/api/v1/namespaces/none/configmaps/a", query: "fieldManager=m",
				body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
			},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `namespaces "none" not found`},
		},
		"unknown object": {
			call: call{path: "configmaps/none"},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `configmaps "none" not found`},
		},
		"unknown object of a group": {
			call: call{path: "apps/statefulsets/none"},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `statefulsets.apps "none" not found`},
		},
		"unknown object of a deletion": {call: call{verb: "DELETE", path: "secrets/none"}, want: notFound},
		"unknown object of an update": {
			call: call{verb: "PUT", path: "configmaps/none", body: "metadata: {name: none}"}, want: notFound,
		},
		"unknown object of a patch": {
			call: call{verb: "STRATEGIC", path: "configmaps/none", body: "data: {a: b}"}, want: notFound,
		},
		"unknown object of a scale": {
			call: call{verb: "MERGE", path: "apps/statefulsets/none/scale", body: "spec: {replicas: 0}"},
			want: notFound,
		},
		"log of an unknown pod": {
			call: call{path: "pods/none/log"},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `pods "none" not found`},
		},
		"namespace that does not exist": {
			call: call{path: "/api/v1/namespaces/none"},
			want: refusal{code: 404, reason: metav1.StatusReasonNotFound, message: `namespaces "none" not found`},
		},
		"creation at a name": {
			call: call{verb: "POST", path: "configmaps/a", body: "metadata: {name: a}"},
			want: refusal{code: 405, reason: metav1.StatusReasonMethodNotAllowed},
		},
		"update of a collection": {
			call: call{verb: "PUT", path: "configmaps", body: "metadata: {name: a}"},
			want: refusal{code: 405, reason: metav1.StatusReasonMethodNotAllowed},
		},
	}
}

func malformedCalls() map[string]refused {
	badRequest := refusal{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest}
	wrongName := badRequest
	wrongName.message = "the name of the object (b) does not match the name on the URL (a)"
	post := func(body string) call { return call{verb: "POST", path: "configmaps", body: body} }
	raw := func(contentType, body string) call {
		return call{
			verb: "POST", path: "configmaps", body: body,
			header: map[string]string{"Content-Type": contentType},
		}
	}
	config := map[string]string{"configmaps": "metadata: {name: a}"}
	return map[string]refused{
		"body that is no JSON": {call: raw("application/json", "{"), want: badRequest},
		"body of another kind": {call: post("{apiVersion: v1, kind: Secret, metadata: {name: a}}"), want: badRequest},
		"body of another group": {
			call: post("{apiVersion: apps/v1, kind: ConfigMap, metadata: {name: a}}"),
			want: badRequest,
		},
		"field of another type": {call: post("{metadata: {name: a}, data: [1]}"), want: badRequest},
		"body for another namespace": {
			call: post("metadata: {name: a, namespace: default}"),
			want: refusal{
				code: 400, reason: metav1.StatusReasonBadRequest, message: "the namespace of the provided object " +
					"does not match",
			},
		},
		"update for another name": {
			call: call{verb: "PUT", path: "configmaps/a", body: "metadata: {name: b}"}, given: config, want: wrongName,
		},
		"apply for another name": {
			call: call{
				verb: "APPLY", path: "configmaps/a", query: "fieldManager=m",
				body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}",
			},
			want: badRequest,
		},
		"apply without a manager": {
			call: call{verb: "APPLY", path: "configmaps/a", body: "{apiVersion: v1, kind: ConfigMap, metadata: " +
				"{name: a}}"},
			want: refusal{code: 422, reason: metav1.StatusReasonInvalid, causes: []string{"FieldValueRequired " +
				"fieldManager"}},
		},
		"apply without a kind": {
			call: call{verb: "APPLY", path: "configmaps/a", query: "fieldManager=m", body: "metadata: {name: a}"},
			want: badRequest,
		},
		"media type of a body": {
			call: raw("text/plain", "a"),
			want: refusal{code: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType},
		},
		"media type of a patch": {
			call: call{
				verb: "PATCH", path: "configmaps/a", body: "{}",
				header: map[string]string{"Content-Type": "application/json"},
			},
			given: config,
			want:  refusal{code: http.StatusUnsupportedMediaType, reason: metav1.StatusReasonUnsupportedMediaType},
		},
		"media type of an answer": {
			call: call{path: "configmaps", header: accept("text/csv")},
			want: refusal{code: http.StatusNotAcceptable, reason: metav1.StatusReasonNotAcceptable},
		},
		"JSON patch of a missing field": {
			call:  call{verb: "JSON", path: "configmaps/a", body: "[{op: replace, path: /data/a, value: b}]"},
			given: config, want: refusal{code: 422, reason: metav1.StatusReasonInvalid},
		},
		"JSON patch with a test that fails": {
			call:  call{verb: "JSON", path: "configmaps/a", body: "[{op: test, path: /metadata/name, value: b}]"},
			given: config, want: refusal{code: 422, reason: metav1.StatusReasonInvalid},
		},
		"patch that is no patch": {
			call: call{verb: "JSON", path: "configmaps/a", body: "{data: {}}"}, given: config, want: badRequest,
		},
		"label selector": {call: call{path: "configmaps", query: "labelSelector=a%3D%3D%3Db"}, want: badRequest},
		"field selector": {call: call{path: "configmaps", query: "fieldSelector=data.a%3Db"}, want: badRequest},
		"unknown option of field validation": {
			call: call{verb: "POST", path: "configmaps", query: "fieldValidation=None", body: "metadata: {name: a}"},
			want: refusal{code: 422, reason: metav1.StatusReasonInvalid, causes: []string{"FieldValueNotSupported " +
				"fieldValidation"}},
		},
		"unknown option of dry run": {
			call: call{verb: "POST", path: "configmaps", query: "dryRun=None", body: "metadata: {name: a}"},
			want: refusal{code: 422, reason: metav1.StatusReasonInvalid, causes: []string{"FieldValueNotSupported " +
				"dryRun"}},
		},
	}
}

// testLargeRequest sends what an API server does not read to its end.
func testLargeRequest(s *space) {
	s.refuses(call{
		verb: "POST", path: "configmaps", body: "{metadata: {name: a}, data: {a: " + strings.Repeat("b", 3<<20) + "}}",
	}, refusal{code: http.StatusRequestEntityTooLarge, reason: metav1.StatusReasonRequestEntityTooLarge})
}

// testLargeConfig sends a ConfigMap and a Secret with a value of more than 1 MiB, and of exactly that.
func testLargeConfig(s *space) {
	for kind, field := range map[string]string{"configmaps": "data", "secrets": "stringData"} {
		body := func(size int) string {
			return "{metadata: {name: a}, " + field + ": {a: " + strings.Repeat("b", size) + "}}"
		}
		s.refuses(call{verb: "POST", path: kind, body: body(1<<20 + 1)}, refusal{
			code: http.StatusUnprocessableEntity, reason: metav1.StatusReasonInvalid, message: "Too long",
		})
		s.create(kind, body(1<<20))
	}
}
