//go:build unix

package apitest

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// policyCases are about ValidatingAdmissionPolicies, with the features that those of the project use.
func policyCases() map[string]func(*space) {
	return map[string]func(*space){
		"message and expressions": testPolicyMessage,
		"old object":              testPolicyOldObject,
		"parameters":              testPolicyParameters,
		"missing parameters":      testPolicyWithoutParameters,
		"request and user":        testPolicyRequest,
		"subresource and delete":  testPolicyOperations,
		"functions of lists":      testPolicyLists,
		"failing expression":      testPolicyFails,
		"warning":                 testPolicyWarns,
		"malformed expression":    testPolicyMalformed,
	}
}

const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

// policy is a policy of the namespace of the case.
type policy struct {
	// resource is where it applies, as "group resources".
	resource   string
	operations string
	// spec is YAML of further fields of the policy's spec, in lines without indentation.
	spec string
	// binding is YAML of further fields of the binding's spec, in the same form.
	binding string
	// kept leaves the policy after the case.
	kept bool
	// actions are the binding's validationActions, [Deny] by default.
	actions string
}

// enforce creates a policy and its binding, and waits until probe, which it must refuse, is refused.
func (s *space) enforce(p policy, probe call, want refusal) {
	s.Helper()
	name := s.namespace
	group, resource, _ := strings.Cut(p.resource, " ")
	if p.actions == "" {
		p.actions = "[Deny]"
	}
	indent := func(text string) string {
		return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
	}
	for path, body := range map[string]string{
		policies: "metadata: {name: " + name + "}\nspec:\n  failurePolicy: Fail\n  matchConstraints: " +
			"{resourceRules: [{apiGroups: ['" +
			group + "'], apiVersions: [v1], operations: " + p.operations + ", resources: " +
			"[" + resource + "]}]}\n" + indent(p.spec),
		strings.TrimSuffix(policies, "ies") + "ybindings": "metadata: {name: " + name + "}\nspec:\n  policyName: " +
			"" + name +
			"\n  validationActions: " + p.actions + "\n  matchResources: {namespaceSelector: {matchLabels: " +
			"{kubernetes.io/metadata.name: " + name + "}}}\n" + indent(p.binding),
	} {
		if !p.kept {
			s.Cleanup(func() {
				_, _ = s.admin.send(context.Background(), "", call{verb: "DELETE", path: path + "/" + name})
			})
		}
		s.create(path, body)
	}
	if probe.path == "" {
		return
	}
	s.eventually("the policy is enforced", func(ctx context.Context) error {
		return s.is(ctx, probe, want.code)
	})
	s.refuses(probe, want)
}

// denied is the refusal by the policy of the case.
func (s *space) denied(code int, reason metav1.StatusReason, message string) refusal {
	return refusal{
		code: code, reason: reason,
		message: fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", s.namespace,
			s.namespace, message),
	}
}

func dryConfig(data string) call {
	return call{verb: "POST", path: "configmaps", query: "dryRun=All", body: "metadata: {name: a}\ndata: " + data}
}

func testPolicyMessage(s *space) {
	s.enforce(policy{resource: " configmaps", operations: "[CREATE]", spec: `
variables: [{name: a, expression: "has(object.data) && 'a' in object.data ? object.data.a : ''"}]
validations:
- expression: variables.a != 'bad'
  messageExpression: "'the value ' + variables.a + ' is refused'"
  reason: Forbidden
- expression: variables.a != 'worse'
  message: plain
- expression: variables.a != 'worst'
`}, dryConfig("{a: bad}"), s.denied(403, metav1.StatusReasonForbidden, "the value bad is refused"))
	s.refuses(dryConfig("{a: worse}"), s.denied(422, metav1.StatusReasonInvalid, "plain"))
	s.refuses(dryConfig("{a: worst}"), s.denied(422, metav1.StatusReasonInvalid, "failed expression: variables.a "+
		"!= 'worst'"))
	s.must(dryConfig("{a: good}"))
	s.must(dryConfig("{}"))
	s.refuses(call{
		verb: "APPLY", path: "configmaps/a", query: "fieldManager=m", body: config("{a: bad}"),
	}, s.denied(403, metav1.StatusReasonForbidden, "the value bad is refused"))
}

// testPolicyOldObject has the fence of agents' objects: a generation may not fall.
func testPolicyOldObject(s *space) {
	s.create("configmaps", "metadata: {name: a, annotations: {g: '5'}}", "metadata: {name: none}")
	set := func(name, generation string) call {
		return call{verb: "MERGE", path: "configmaps/" + name, query: "dryRun=All", body: "metadata: {annotations: " +
			"{g: '" + generation + "'}}"}
	}
	s.enforce(policy{resource: " configmaps", operations: "[UPDATE]", spec: `
matchConditions:
- name: generations
  expression: >-
    [oldObject, object].all(o, has(o.metadata.annotations) && 'g' in o.metadata.annotations
    && o.metadata.annotations['g'].matches('^[0-9]{1,18}$'))
validations:
- expression: int(object.metadata.annotations['g']) >= int(oldObject.metadata.annotations['g'])
  messageExpression: "'stale: ' + oldObject.metadata.annotations['g']"
  reason: Forbidden
`}, set("a", "4"), s.denied(403, metav1.StatusReasonForbidden, "stale: 5"))
	for _, generation := range []string{"5", "6", "none"} {
		s.must(set("a", generation))
	}
	s.must(set("none", "1"))
	s.refuses(call{
		verb: "APPLY", path: "configmaps/a", query: "fieldManager=m&force=true",
		body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {g: '1'}}}",
	}, s.denied(403, metav1.StatusReasonForbidden, "stale: 5"))
}

// testPolicyParameters keeps its policy: the real server reads no parameters anymore after the last policy of a kind of
// parameters was deleted.
func testPolicyParameters(s *space) {
	s.create("configmaps", "metadata: {name: images}\ndata: {deployed: 'one two'}")
	pod := func(image string) call {
		return call{
			verb: "POST", path: "apps/statefulsets", query: "dryRun=All",
			body: "metadata: {name: a}\nspec: {serviceName: a, " + strings.Replace(template, image0, image, 1) + "}",
		}
	}
	s.enforce(policy{resource: "apps statefulsets", operations: "[CREATE, UPDATE]", spec: `
paramKind: {apiVersion: v1, kind: ConfigMap}
variables:
- name: images
  expression: >-
    ['deployed', 'next'].map(key, has(params.data) && key in params.data ? params.data[key] : '')
    .join(' ').split(' ')
- name: unknown
  expression: object.spec.template.spec.containers.map(c, c.image).filter(i, !(i in variables.images))
validations:
- expression: variables.unknown.size() == 0
  messageExpression: "'unknown: ' + variables.unknown.join(', ')"
  reason: Forbidden
`, kept: true, binding: "paramRef: {name: images, namespace: " + s.namespace + ", parameterNotFoundAction: Deny}"},
		pod("three"), s.denied(403, metav1.StatusReasonForbidden, "unknown: three"))
	s.must(pod("two"))
	s.must(call{verb: "MERGE", path: "configmaps/images", body: "data: {next: three}"})
	s.eventually("the policy reads the new parameters", func(ctx context.Context) error {
		return s.is(ctx, pod("three"), 201)
	})
}

// image0 is the image of the template.
const image0 = "'example/agent:v1'"

func testPolicyWithoutParameters(s *space) {
	s.enforce(policy{
		resource: " configmaps", operations: "[CREATE]", kept: true,
		spec:    "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: 'true'}]",
		binding: "paramRef: {name: none, namespace: " + s.namespace + ", parameterNotFoundAction: Deny}",
	}, dryConfig("{}"), refusal{
		code: 422, reason: metav1.StatusReasonInvalid,
		message: "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
	})
}

// testPolicyRequest looks into the request: who asks, for what.
func testPolicyRequest(s *space) {
	user := s.as(rest.ImpersonationConfig{UserName: "worker", Groups: []string{"system:masters"}})
	probe := dryConfig("{}")
	spec := `
matchConditions: [{name: user, expression: "request.userInfo.username in ['worker']"}]
variables:
- name: resource
  expression: >-
    [request.resource.group, request.resource.resource, has(request.subResource) ? request.subResource : '']
    .filter(part, part != '').join('/')
validations:
- expression: "'none' == variables.resource"
  reason: Forbidden
  messageExpression: >-
    request.operation + ' ' + variables.resource + ' ' + request.name + ' ' + request.namespace + ' '
    + string(request.dryRun) + ' ' + request.kind.kind
`
	s.enforce(policy{resource: " configmaps", operations: "[CREATE]", spec: spec}, call{}, refusal{})
	s.eventually("the policy is enforced", func(ctx context.Context) error { return user.is(ctx, probe, 403) })
	user.refuses(probe, s.denied(403, metav1.StatusReasonForbidden, "CREATE configmaps a "+s.namespace+" true "+
		"ConfigMap"))
	s.must(probe)
}

func testPolicyOperations(s *space) {
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
	scale := func(n int) call {
		return call{
			verb: "MERGE", path: "apps/statefulsets/a/scale", query: "dryRun=All",
			body: fmt.Sprintf("spec: {replicas: %d}", n),
		}
	}
	s.enforce(policy{resource: "apps statefulsets, statefulsets/scale", operations: "[UPDATE, DELETE]", spec: `
validations:
- {expression: "request.operation != 'DELETE' || oldObject.metadata.name != 'a'", reason: Forbidden, message: kept}
- expression: >-
    !has(request.subResource) || request.subResource != 'scale' || !has(object.spec.replicas)
    || has(oldObject.spec.replicas) && object.spec.replicas <= oldObject.spec.replicas
  reason: Forbidden
  message: not more
`}, scale(1),
		s.denied(403, metav1.StatusReasonForbidden, "not more"))
	s.must(scale(0))
	s.refuses(call{verb: "DELETE", path: "apps/statefulsets/a"}, s.denied(403, metav1.StatusReasonForbidden, "kept"))
	s.must(call{verb: "MERGE", path: "apps/statefulsets/a", body: "spec: {replicas: 0}"})
}

// testPolicyLists uses the functions of the policies for network policies and quotas.
func testPolicyLists(s *space) {
	s.enforce(policy{resource: " resourcequotas", operations: "[CREATE]", spec: `
variables:
- {name: hard, expression: "has(object.spec.hard) ? object.spec.hard : {}"}
- {name: fixed, expression: "{'pods': '2', 'services.nodeports': '0'}"}
- {name: labels, expression: "has(object.metadata.labels) ? object.metadata.labels : {}"}
- {name: version, expression: "variables.labels[?'version'].orValue('v1.1')"}
validations:
- expression: >-
    variables.fixed.all(name, name in variables.hard && string(variables.hard[name]) == variables.fixed[name])
  message: fixed
- expression: variables.version.matches('^v1[.][0-9]{1,3}$') && int(variables.version.substring(3)) < 35
  message: version
- expression: "!has(object.spec.scopes) && [1, 2].exists(i, i == 2) && ['a', 'b'].exists_one(i, i == 'a')"
  message: scopes
- {expression: "!has(object.spec.selector) && {'a': 'b'} == {'a': 'b'} && object.spec.hard.size() == 2", message: size}
- expression: quantity('1001Mi').isLessThan(quantity('1Gi')) && !quantity('1').isGreaterThan(quantity('1000m'))
  message: quantity
- {expression: "object.spec.?scopes == {}.?scopes && object.spec.?hard.pods.hasValue()", message: optional}
`}, call{verb: "POST", path: "resourcequotas", query: "dryRun=All", body: "metadata: {name: a}\nspec: {hard: {pods: '3', services.nodeports: '0'}}"},
		s.denied(422, metav1.StatusReasonInvalid, "fixed"))
	quota := func(labels, hard string) call {
		return call{
			verb: "POST", path: "resourcequotas", query: "dryRun=All",
			body: "metadata: {name: a, labels: " + labels + "}\nspec: {hard: {pods: '2', services.nodeports: " +
				"'0'" + hard + "}}",
		}
	}
	s.must(quota("{}", ""))
	s.must(quota("{version: v1.34}", ""))
	s.refuses(quota("{version: v1.35}", ""), s.denied(422, metav1.StatusReasonInvalid, "version"))
	s.refuses(quota("{version: latest}", ""), s.denied(422, metav1.StatusReasonInvalid, "version"))
	s.refuses(quota("{}", ", requests.cpu: '1'"), s.denied(422, metav1.StatusReasonInvalid, "size"))
}

// testPolicyFails has an expression that fails, which refuses the request.
func testPolicyFails(s *space) {
	s.enforce(policy{
		resource: " configmaps", operations: "[CREATE]", spec: "validations: [{expression: \"object.data['none'] " +
			"== 'a'\"}]",
	}, dryConfig("{a: b}"), refusal{
		code: 422, reason: metav1.StatusReasonInvalid,
		message: "denied request: expression 'object.data['none'] == 'a'' resulted in error: no such key: none",
	})
}

func testPolicyWarns(s *space) {
	s.enforce(policy{
		resource: " configmaps", operations: "[CREATE]", actions: "[Warn]",
		spec: "validations: [{expression: 'false', message: beware}]",
	}, call{}, refusal{})
	want := fmt.Sprintf(`299 - "Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': beware"`, s.namespace, s.namespace)
	s.eventually("the policy warns", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, dryConfig("{}"))
		if got := a.header.Get("Warning"); err == nil && got != want {
			err = fmt.Errorf("warning %q, want %q", got, want)
		}
		return errorOf(a, err)
	})
}

func testPolicyMalformed(s *space) {
	const constraints = "matchConstraints: " +
		"{resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}"
	for field, wrong := range map[string]string{
		"spec.validations[0].expression": "validations: [{expression: 'object.('}]",
		"spec.variables[0].name": "variables: [{name: namespace, expression: 'true'}], " +
			"validations: [{expression: 'true'}]",
	} {
		s.refuses(call{
			verb: "POST", path: policies, query: "dryRun=All",
			body: "metadata: {name: " + s.namespace + "}\nspec: {" + constraints + ", " + wrong + "}",
		}, invalid("FieldValueInvalid "+field))
	}
}
