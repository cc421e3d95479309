//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// accessCases are about who may do what.
func accessCases() map[string]func(*space) {
	return map[string]func(*space){
		"user without rights":        testNoRights,
		"role in a namespace":        testRole,
		"names of a rule":            testResourceNames,
		"subresources":               testSubresources,
		"commands":                   testCommands,
		"cluster role in namespace":  testClusterRoleInNamespace,
		"cluster role":               testClusterRole,
		"group":                      testGroup,
		"service account":            testServiceAccount,
		"token":                      testToken,
		"wrong token":                testWrongToken,
		"no user":                    testAnonymous,
		"reviews":                    testReviews,
		"review of another user":     testSubjectReview,
		"rules of a user":            testRulesReview,
		"rights of a role's creator": testEscalation,
		"right to write any role":    testEscalate,
	}
}

const rbacGroup = "rbac.authorization.k8s.io"

// grant binds a user or group to rules in the namespace, by a Role or, in a cluster, a ClusterRole.
func (s *space) grant(name, subject, rules string) {
	s.Helper()
	s.create(rbacGroup+"/roles", "metadata: {name: "+name+"}\nrules: "+rules)
	s.create(rbacGroup+"/rolebindings", "metadata: {name: "+name+"}\nroleRef: {apiGroup: "+rbacGroup+", kind: "+
		"Role, name: "+name+
		"}\nsubjects: [{"+subject+"}]")
}

// user returns the space with the client of the user of the case, and the subject of bindings for the user.
func (s *space) user() (other *space, subject string) {
	s.Helper()
	name := "user-" + s.namespace
	return s.as(rest.ImpersonationConfig{UserName: name}), "apiGroup: " + rbacGroup + ", kind: User, name: " + name
}

// awaitRight waits until a call is no longer forbidden: the server learns of roles a moment later.
func (s *space) awaitRight(r call) {
	s.Helper()
	s.eventually("the right is granted", func(ctx context.Context) error {
		a, err := s.admin.send(ctx, s.namespace, r)
		return errorOf(a, err)
	})
}

// forbidden is the refusal of a verb for the user of the case.
func (s *space) forbidden(verb, resource, group string) refusal {
	return refusal{code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, message: fmt.Sprintf(
		`User "user-%s" cannot %s resource %q in API group %q in the namespace %q`, s.namespace, verb, resource, group, s.namespace)}
}

func testNoRights(s *space) {
	user, _ := s.user()
	s.create("configmaps", "metadata: {name: a}")
	for verb, r := range map[string]call{
		"get":    {path: "configmaps/a"},
		"list":   {path: "configmaps"},
		"watch":  {path: "configmaps", query: "watch=true"},
		"create": post("configmaps", "metadata: {name: b}"),
		"update": {verb: "PUT", path: "configmaps/a", body: "metadata: {name: a}"},
		"patch":  {verb: "MERGE", path: "configmaps/a", body: "data: {}"},
		"delete": {verb: "DELETE", path: "configmaps/a"},
	} {
		a := user.refuses(r, s.forbidden(verb, "configmaps", ""))
		if got := a.status(); got.Details == nil || got.Details.Kind != "configmaps" {
			s.Errorf("details of a refused %s: %+v", verb, got.Details)
		}
	}
	user.refuses(call{verb: "DELETE", path: "configmaps"}, s.forbidden("deletecollection", "configmaps", ""))
	user.refuses(call{path: "apps/statefulsets/a"}, s.forbidden("get", "statefulsets", "apps"))
	// What does not exist is refused in the same way.
	user.refuses(call{path: "configmaps/none"}, s.forbidden("get", "configmaps", ""))
	user.refuses(call{path: "/api/v1/nodes"}, refusal{
		code: 403, reason: metav1.StatusReasonForbidden, message: `cannot list resource "nodes" in API group "" at the cluster scope`,
	})
}

func testRole(s *space) {
	user, subject := s.user()
	s.grant("r", subject, "[{apiGroups: [''], resources: [configmaps], verbs: [get, create]}]")
	user.awaitRight(call{path: "configmaps/kube-root-ca.crt"})
	user.create("configmaps", "metadata: {name: a}")
	user.refuses(call{path: "configmaps"}, s.forbidden("list", "configmaps", ""))
	user.refuses(call{path: "secrets/a"}, s.forbidden("get", "secrets", ""))
	user.refuses(call{path: "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"},
		refusal{code: 403, reason: metav1.StatusReasonForbidden})
	user.refuses(call{path: "/api/v1/configmaps"}, refusal{code: 403, reason: metav1.StatusReasonForbidden})
	// An apply is a patch, and of a new object a creation, too.
	user.refuses(call{
		verb: "APPLY", path: "configmaps/b", query: "fieldManager=m",
		body: strings.Replace(config("{}"), "name: a", "name: b", 1),
	},
		s.forbidden("patch", "configmaps", ""))
	s.must(call{verb: "MERGE", path: rbacGroup + "/roles/r", body: "rules: [{apiGroups: [''], resources: " +
		"[configmaps], verbs: [patch]}]"})
	user.awaitRight(call{verb: "MERGE", path: "configmaps/a", body: "data: {a: b}"})
	user.refuses(call{
		verb: "APPLY", path: "configmaps/b", query: "fieldManager=m",
		body: strings.Replace(config("{}"), "name: a", "name: b", 1),
	},
		s.forbidden("create", "configmaps", ""))
	s.must(call{verb: "DELETE", path: rbacGroup + "/rolebindings/r"})
	s.eventually("the right is gone", func(ctx context.Context) error {
		return user.is(ctx, call{verb: "MERGE", path: "configmaps/a", body: "data: {a: b}"}, http.StatusForbidden)
	})
}

func testResourceNames(s *space) {
	user, subject := s.user()
	s.grant("r", subject, "[{apiGroups: [''], resources: [configmaps], resourceNames: [a], verbs: [get, list, "+
		"create, delete]}]")
	s.create("configmaps", "metadata: {name: a}", "metadata: {name: b}")
	user.awaitRight(call{path: "configmaps/a"})
	user.refuses(call{path: "configmaps/b"}, s.forbidden("get", "configmaps", ""))
	user.refuses(call{path: "configmaps"}, s.forbidden("list", "configmaps", ""))
	user.must(call{path: "configmaps", query: "fieldSelector=metadata.name%3Da"}) // a list of one name
	user.refuses(call{path: "configmaps", query: "fieldSelector=metadata.name%3Db"}, s.forbidden("list",
		"configmaps", ""))
	user.must(call{verb: "DELETE", path: "configmaps/a"})
	user.refuses(post("configmaps", "metadata: {name: a}"), s.forbidden("create", "configmaps",
		"")) // the name is in the body
}

func testSubresources(s *space) {
	user, subject := s.user()
	s.create("apps/statefulsets", "metadata: {name: a}\nspec: {replicas: 0, "+template+"}")
	s.grant("r", subject, "[{apiGroups: [apps], resources: [statefulsets/scale], verbs: [get, patch]}]")
	user.awaitRight(call{path: "apps/statefulsets/a/scale"})
	user.must(call{verb: "MERGE", path: "apps/statefulsets/a/scale", body: "spec: {replicas: 0}"})
	user.refuses(call{path: "apps/statefulsets/a"}, s.forbidden("get", "statefulsets", "apps"))
	user.refuses(call{path: "apps/statefulsets/a/status"}, s.forbidden("get", "statefulsets/status", "apps"))
	user.refuses(call{path: "pods/a/log"}, s.forbidden("get", "pods/log", ""))
}

// testCommands checks that a WebSocket, which begins with GET, needs the right to create, as a command over SPDY does.
func testCommands(s *space) {
	upgrades := *s
	upgrades.server.Config = rest.CopyConfig(s.server.Config)
	upgrades.server.Config.NextProtos = []string{"http/1.1"}
	user, subject := upgrades.user()
	s.create("pods", "metadata: {name: a}\n"+podSpec)
	s.grant("r", subject, "[{apiGroups: [''], resources: [pods/exec], verbs: [get]}]")
	s.eventually("the right is granted", func(context.Context) error {
		return differences(user.must(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "spec: "+
			"{resourceAttributes: {namespace: "+s.namespace+", resource: pods, subresource: exec, verb: get}}")),
			map[string]any{"/status/allowed": true})
	})
	command := call{path: "pods/a/exec", query: "command=ls&stdout=true", header: map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
	}}
	user.refuses(command, refusal{code: http.StatusForbidden, reason: metav1.StatusReasonForbidden})
	s.must(call{verb: "MERGE", path: rbacGroup + "/roles/r", body: "rules: [{apiGroups: [''], resources: " +
		"[pods/exec], verbs: [get, create]}]"})
	s.eventually("the pod has no node", func(ctx context.Context) error {
		return user.is(ctx, command, http.StatusBadRequest)
	})
}

func testClusterRoleInNamespace(s *space) {
	user, subject := s.user()
	s.create(rbacGroup+"/rolebindings", "metadata: {name: r}\nroleRef: {apiGroup: "+rbacGroup+", kind: "+
		"ClusterRole, name: view}\n"+
		"subjects: [{"+subject+"}]")
	user.awaitRight(call{path: "configmaps"})
	user.get("pods")
	user.refuses(call{path: "secrets"}, s.forbidden("list", "secrets", ""))
	user.refuses(post("configmaps", "metadata: {name: a}"), s.forbidden("create", "configmaps", ""))
	user.refuses(call{path: "/api/v1/configmaps"}, refusal{code: 403, reason: metav1.StatusReasonForbidden})
}

// grantEverywhere binds the user of the case to rules in all namespaces.
func (s *space) grantEverywhere(subject, rules string) {
	s.Helper()
	for path, body := range map[string]string{
		"clusterroles": "rules: " + rules,
		"clusterrolebindings": "roleRef: {apiGroup: " + rbacGroup + ", kind: ClusterRole, name: " +
			"" + s.namespace + "}\n" +
			"subjects: [{" + subject + "}]",
	} {
		path = "/apis/" + rbacGroup + "/v1/" + path
		s.Cleanup(func() {
			_, _ = s.admin.send(context.Background(), "", call{verb: "DELETE", path: path + "/" + s.namespace})
		})
		s.create(path, "metadata: {name: "+s.namespace+"}\n"+body)
	}
}

func testClusterRole(s *space) {
	user, subject := s.user()
	s.grantEverywhere(subject, "[{apiGroups: [''], resources: [namespaces], verbs: [get, list]}, "+
		"{apiGroups: ['*'], resources: ['*'], verbs: [watch]}, {nonResourceURLs: [/metrics], verbs: [get]}]")
	user.awaitRight(call{path: "/api/v1/namespaces"})
	user.get("/api/v1/namespaces/{ns}")
	user.refuses(call{verb: "MERGE", path: "/api/v1/namespaces/{ns}", body: "{}"}, refusal{
		code:   403,
		reason: metav1.StatusReasonForbidden,
	})
	user.must(call{path: "secrets", query: "watch=true&timeoutSeconds=1"})
	user.refuses(call{path: "secrets"}, s.forbidden("list", "secrets", ""))
}

func testGroup(s *space) {
	member := s.as(rest.ImpersonationConfig{UserName: "a", Groups: []string{"group-" + s.namespace}})
	s.grant("r", "apiGroup: "+rbacGroup+", kind: Group, name: group-"+s.namespace,
		"[{apiGroups: [''], resources: [configmaps], verbs: ['*']}]")
	member.awaitRight(call{path: "configmaps"})
	s.as(rest.ImpersonationConfig{UserName: "a"}).refuses(call{path: "configmaps"},
		refusal{code: 403, reason: metav1.StatusReasonForbidden})
	s.as(rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}).get("secrets")
}

func testReviews(s *space) {
	user, subject := s.user()
	s.grant("r", subject, "[{apiGroups: [apps], resources: [statefulsets/scale], resourceNames: [a], verbs: [patch]}]")
	review := func(attributes string) answer {
		return user.must(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"spec: {resourceAttributes: {namespace: "+s.namespace+", "+attributes+"}}"))
	}
	s.eventually("the right is granted", func(context.Context) error {
		return differences(review("group: apps, resource: statefulsets, subresource: scale, name: a, verb: "+
			"patch"), map[string]any{
			"/status/allowed": true, "/kind": "SelfSubjectAccessReview",
		})
	})
	for _, attributes := range []string{
		"group: apps, resource: statefulsets, name: a, verb: patch",
		"group: apps, resource: statefulsets, subresource: scale, verb: patch",
		"group: apps, resource: statefulsets, subresource: scale, name: a, verb: get",
		"resource: statefulsets, subresource: scale, name: a, verb: patch",
	} {
		s.want(review(attributes), map[string]any{"/status/allowed": false})
	}
	admin := s.must(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "spec: {resourceAttributes: "+
		"{verb: '*', resource: '*'}}"))
	s.want(admin, map[string]any{"/status/allowed": true})
}

func testSubjectReview(s *space) {
	s.grant("r", "apiGroup: "+rbacGroup+", kind: Group, name: g", "[{apiGroups: [''], resources: [pods], verbs: "+
		"[get]}]")
	review := func(group string) answer {
		return s.must(post("/apis/authorization.k8s.io/v1/subjectaccessreviews", "spec: {user: a, groups: "+
			"["+group+"], "+
			"resourceAttributes: {namespace: "+s.namespace+", resource: pods, verb: get}}"))
	}
	s.eventually("the right is granted", func(context.Context) error {
		return differences(review("g"), map[string]any{"/status/allowed": true})
	})
	s.want(review("h"), map[string]any{"/status/allowed": false})
}

func testRulesReview(s *space) {
	user, subject := s.user()
	s.grant("r", subject, "[{apiGroups: [example.test], resources: [things], resourceNames: [a], verbs: [get]}]")
	s.eventually("the rules have the role's", func(ctx context.Context) error {
		a, err := user.admin.send(ctx, s.namespace, post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
			"spec: {namespace: "+s.namespace+"}"))
		if err == nil && !strings.Contains(string(a.body),
			`{"verbs":["get"],"apiGroups":["example.test"],"resources":["things"],"resourceNames":["a"]}`) {
			err = fmt.Errorf("rules %s", a.body)
		}
		return errorOf(a, err)
	})
}

// testEscalation checks that a user cannot grant rights that they do not have, unless they have the right to do so:
// "escalate" is about writing roles, and "bind" about a role that others get.
func testEscalation(s *space) {
	user, subject := s.user()
	s.create(rbacGroup+"/roles", "metadata: {name: secrets}\nrules: [{apiGroups: [''], resources: [secrets], verbs: "+
		"[get]}]")
	s.grant("r", subject, "[{apiGroups: ["+rbacGroup+"], resources: [roles, rolebindings], verbs: [get, list, "+
		"create, update]}]")
	user.awaitRight(call{path: rbacGroup + "/roles"})
	role := func(name string) call {
		return post(rbacGroup+"/roles", "metadata: {name: "+name+"}\nrules: [{apiGroups: [''], resources: "+
			"[secrets], verbs: [get]}]")
	}
	binding := func(name, of string) call {
		return post(rbacGroup+"/rolebindings", "metadata: {name: "+name+"}\nroleRef: {apiGroup: "+rbacGroup+
			", kind: Role, name: "+of+"}\nsubjects: [{"+subject+"}]")
	}
	refused := refusal{
		code: 403, reason: metav1.StatusReasonForbidden,
		message: "is attempting to grant RBAC permissions not currently held",
	}
	user.refuses(role("more"), refused)
	user.refuses(binding("more", "secrets"), refused)
	user.must(binding("same", "r"))

	s.grant("bind", subject, "[{apiGroups: ["+rbacGroup+"], resources: [roles], resourceNames: [secrets], "+
		"verbs: [bind]}]")
	user.awaitRight(binding("bound", "secrets"))
	s.create(rbacGroup+"/roles", "metadata: {name: others}\nrules: [{apiGroups: [''], resources: [pods], verbs: "+
		"[delete]}]")
	user.refuses(binding("more", "others"), refused)
}

// testEscalate checks that the right to write any role is no right to bind it.
func testEscalate(s *space) {
	user, subject := s.user()
	// The right is about bindings, too, where Kubernetes gives it no meaning.
	s.grant("r", subject, "[{apiGroups: ["+rbacGroup+"], resources: [roles, rolebindings], verbs: [create, "+
		"escalate]}]")
	user.awaitRight(post(rbacGroup+"/roles", "metadata: {name: more}\nrules: [{apiGroups: [''], resources: "+
		"[secrets], verbs: [get]}]"))
	user.refuses(post(rbacGroup+"/rolebindings", "metadata: {name: more}\nroleRef: {apiGroup: "+rbacGroup+
		", kind: Role, name: more}\nsubjects: [{"+subject+"}]"),
		refusal{
			code: 403, reason: metav1.StatusReasonForbidden,
			message: "is attempting to grant RBAC permissions not currently held",
		})
}
