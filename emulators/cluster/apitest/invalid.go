//go:build unix

package apitest

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// invalid is the refusal of an object with wrong values.
func invalid(causes ...string) refusal {
	return refusal{code: 422, reason: metav1.StatusReasonInvalid, message: "is invalid", causes: causes}
}

// invalidObjects has creations with wrong values. Each is a mistake that a program of the project could make.
func invalidObjects() map[string]refused {
	post := func(path, body string) call { return call{verb: "POST", path: path, body: body} }
	pod := func(fields string) call {
		return post("pods", "metadata: {name: a}\nspec: {containers: [{name: main, image: i, "+fields+"}]}")
	}
	return map[string]refused{
		"no name": {call: post("configmaps", "data: {}"), want: invalid("FieldValueRequired metadata.name")},
		"malformed name": {call: post("configmaps", "metadata: {name: A_b}"), want: invalid("FieldValueInvalid " +
			"metadata.name")},
		"long name of a namespace": {
			call: post("/api/v1/namespaces", "metadata: {name: "+
				"a123456789-123456789-123456789-123456789-123456789-123456789-123}"),
			want: invalid("FieldValueInvalid metadata.name", "FieldValueInvalid metadata.labels"),
		},
		"dot in a namespace's name": {
			call: post("/api/v1/namespaces", "metadata: {name: a.b}"), want: invalid("FieldValueInvalid metadata.name"),
		},
		"digit first in a Service's name": {
			call: post("services", "metadata: {name: .a}\nspec: {ports: [{port: 80}]}"),
			want: invalid("FieldValueInvalid metadata.name"),
		},
		"malformed label": {
			call: post("configmaps", "metadata: {name: a, labels: {a: 'b c'}}"),
			want: invalid("FieldValueInvalid metadata.labels"),
		},
		"malformed key of a label": {
			call: post("configmaps", "metadata: {name: a, labels: {'a b': c}}"),
			want: invalid("FieldValueInvalid metadata.labels"),
		},
		"malformed key of an annotation": {
			call: post("configmaps", "metadata: {name: a, annotations: {'a b': c}}"),
			want: invalid("FieldValueInvalid metadata.annotations"),
		},
		"malformed key of a ConfigMap": {
			call: post("configmaps", "metadata: {name: a}\ndata: {'a b': c}"), want: invalid("FieldValueInvalid " +
				"data[a b]"),
		},
		"owner without a UID": {
			call: post("configmaps", "metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: ConfigMap, "+
				"name: b, uid: ''}]}"),
			want: invalid(), // releases name different fields
		},
		"pod without containers": {
			call: post("pods", "metadata: {name: a}\nspec: {containers: []}"), want: invalid("FieldValueRequired " +
				"spec.containers"),
		},
		"container without an image": {
			call: post("pods", "metadata: {name: a}\nspec: {containers: [{name: main}]}"),
			want: invalid("FieldValueRequired spec.containers[0].image"),
		},
		"port out of range": {
			call: pod("ports: [{containerPort: 70000}]"),
			want: invalid("FieldValueInvalid spec.containers[0].ports[0].containerPort"),
		},
		"request above its limit": {
			call: pod("resources: {requests: {cpu: 2}, limits: {cpu: 1}}"),
			want: invalid("FieldValueInvalid spec.containers[0].resources.requests"),
		},
		"mount without a volume": {
			call: pod("volumeMounts: [{name: none, mountPath: /a}]"),
			want: invalid("FieldValueNotFound spec.containers[0].volumeMounts[0].name"),
		},
		"malformed variable": {
			call: pod("env: [{name: '', value: a}]"), want: invalid("FieldValueRequired " +
				"spec.containers[0].env[0].name"),
		},
		"two containers of a name": {
			call: post("pods", "metadata: {name: a}\nspec: {containers: [{name: b, image: i}, {name: b, image: i}]}"),
			want: invalid("FieldValueDuplicate spec.containers[1].name"),
		},
		"privileged container that may not escalate": {
			call: pod("securityContext: {privileged: true, allowPrivilegeEscalation: false}"),
			want: invalid("FieldValueInvalid spec.containers[0].securityContext"),
		},
		"selector that does not match the template": {
			call: post("apps/statefulsets", "metadata: {name: a}\nspec: {serviceName: a, selector: {matchLabels: "+
				"{app: b}}, "+
				"template: {metadata: {labels: {app: a}}, "+podSpec+"}}"),
			want: invalid("FieldValueInvalid spec.template.metadata.labels"),
		},
		"template that does not restart": {
			call: post("apps/statefulsets", "metadata: {name: a}\nspec: {selector: {matchLabels: {app: a}}, "+
				"template: {metadata: {labels: {app: a}}, spec: {restartPolicy: Never, containers: [{name: b, "+
				"image: i}]}}}"),
			want: invalid("FieldValueNotSupported spec.template.spec.restartPolicy"),
		},
		"claim without a size": {
			call: post("persistentvolumeclaims", "metadata: {name: a}\nspec: {accessModes: [ReadWriteOnce]}"),
			want: invalid("FieldValueRequired spec.resources[storage]"),
		},
		"claim without an access mode": {
			call: post("persistentvolumeclaims", "metadata: {name: a}\nspec: {resources: {requests: {storage: 1Gi}}}"),
			want: invalid("FieldValueRequired spec.accessModes"),
		},
		"port of a Service without a name": {
			call: post("services", "metadata: {name: a}\nspec: {ports: [{port: 80}, {port: 81}]}"),
			want: invalid("FieldValueRequired spec.ports[0].name", "FieldValueRequired spec.ports[1].name"),
		},
		"network policy with a malformed block": {
			call: post("networking.k8s.io/networkpolicies",
				"metadata: {name: a}\nspec: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0}}]}]}"),
			want: invalid("FieldValueInvalid spec.egress[0].to[0].ipBlock.cidr"),
		},
		"network policy with a block outside": {
			call: post("networking.k8s.io/networkpolicies", "metadata: {name: a}\nspec: {podSelector: {}, egress: "+
				"[{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}"),
			want: invalid("FieldValueInvalid spec.egress[0].to[0].ipBlock.except[0]"),
		},
		"quota of a negative size": {
			call: post("resourcequotas", "metadata: {name: a}\nspec: {hard: {pods: -1}}"),
			want: invalid("FieldValueInvalid spec.hard[pods]"),
		},
		"binding of an unknown kind": {
			call: post("rbac.authorization.k8s.io/rolebindings",
				"metadata: {name: a}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Rule, name: a}"),
			want: invalid("FieldValueNotSupported roleRef.kind"),
		},
	}
}

// immutableFields has updates of what may not change.
func immutableFields() map[string]refused {
	merge := func(path, body string) call { return call{verb: "MERGE", path: path, body: body} }
	set := map[string]string{"apps/statefulsets": "metadata: {name: a}\nspec: {replicas: 0, serviceName: a, " +
		template + "}"}
	claim := map[string]string{"persistentvolumeclaims": "metadata: {name: a}\n" +
		kinds()["persistentvolumeclaims"].spec}
	pod := map[string]string{"pods": "metadata: {name: a}\n" + podSpec}
	frozen := "immutable: true\nmetadata: {name: a}\n"
	return map[string]refused{
		"data of an immutable ConfigMap": {
			given: map[string]string{"configmaps": frozen + "data: {a: b}"}, call: merge("configmaps/a", "data: "+
				"{a: c}"),
			want: invalid("FieldValueForbidden data"),
		},
		"mark of an immutable ConfigMap": {
			given: map[string]string{"configmaps": frozen}, call: merge("configmaps/a", "immutable: false"),
			want: invalid("FieldValueForbidden immutable"),
		},
		"data of an immutable Secret": {
			given: map[string]string{"secrets": frozen + "data: {a: Yg==}"}, call: merge("secrets/a", "data: {a: "+
				"Yw==}"),
			want: invalid("FieldValueForbidden data"),
		},
		"type of a Secret": {
			given: map[string]string{"secrets": "metadata: {name: a}"}, call: merge("secrets/a", "type: "+
				"example.test/other"),
			want: invalid("FieldValueInvalid type"),
		},
		"service of a StatefulSet": {
			given: set, call: merge("apps/statefulsets/a", "spec: {serviceName: b}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"selector of a StatefulSet": {
			given: set, call: merge("apps/statefulsets/a",
				"spec: {selector: {matchLabels: {b: b}}, template: {metadata: {labels: {b: b}}}}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"volume claims of a StatefulSet": {
			given: set, call: merge("apps/statefulsets/a", "spec: {volumeClaimTemplates: [{metadata: {name: data}, "+
				"spec: "+
				"{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"class of a claim": {
			given: claim, call: merge("persistentvolumeclaims/a", "spec: {storageClassName: none}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"access of a claim": {
			given: claim, call: merge("persistentvolumeclaims/a", "spec: {accessModes: [ReadWriteMany]}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"size of a claim that has no volume": {
			given: claim, call: merge("persistentvolumeclaims/a", "spec: {resources: {requests: {storage: 2Gi}}}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"environment of a pod": {
			given: pod, call: merge("pods/a", "spec: {containers: [{name: main, image: i, env: [{name: A, value: "+
				"b}]}]}"),
			want: invalid("FieldValueForbidden spec"),
		},
		"address of a Service": {
			given: map[string]string{"services": "metadata: {name: a}\nspec: {ports: [{port: 80}]}"},
			call:  merge("services/a", "spec: {clusterIP: 10.96.255.7, clusterIPs: [10.96.255.7]}"),
			want:  invalid("FieldValueInvalid spec.clusterIPs[0]"),
		},
		"role of a binding": {
			given: map[string]string{"rbac.authorization.k8s.io/rolebindings": "metadata: {name: a}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}"},
			call: merge("rbac.authorization.k8s.io/rolebindings/a", "roleRef: {name: b}"),
			want: invalid("FieldValueInvalid roleRef"),
		},
		"UID of an object by a patch": {
			given: map[string]string{"configmaps": "metadata: {name: a}"},
			call:  merge("configmaps/a", "metadata: {uid: 00000000-0000-0000-0000-000000000000}"),
			want:  invalid("FieldValueInvalid metadata.uid"),
		},
		"UID of an object": {
			given: map[string]string{"configmaps": "metadata: {name: a}"},
			call: call{
				verb: "PUT", path: "configmaps/a", body: "metadata: {name: a, uid: " +
					"00000000-0000-0000-0000-000000000000}",
			},
			want: refusal{code: 409, reason: metav1.StatusReasonConflict, message: "Precondition failed: UID in " +
				"precondition"},
		},
	}
}
