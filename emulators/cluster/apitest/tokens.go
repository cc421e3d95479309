//go:build unix

package apitest

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func testServiceAccount(s *space) {
	s.create("serviceaccounts", "metadata: {name: robot}")
	name := "system:serviceaccount:" + s.namespace + ":robot"
	s.grant("r", "kind: ServiceAccount, name: robot, namespace: "+s.namespace, "[{apiGroups: [''], resources: "+
		"[pods], verbs: [list]}]")
	robot := s.as(rest.ImpersonationConfig{UserName: name})
	robot.awaitRight(call{path: "pods"})
	robot.refuses(call{path: "secrets"}, refusal{code: 403, reason: metav1.StatusReasonForbidden, message: `User "` + name + `" cannot list`})
	// Every account of the namespace is in its group.
	s.grant("all", "apiGroup: "+rbacGroup+", kind: Group, name: system:serviceaccounts:"+s.namespace,
		"[{apiGroups: [''], resources: [services], verbs: [list]}]")
	s.withToken("robot").awaitRight(call{path: "services"})
}

// withToken returns the space with a client that has a token of a service account.
func (s *space) withToken(account string) *space {
	s.Helper()
	a := s.send(post("serviceaccounts/"+account+"/token", "{apiVersion: authentication.k8s.io/v1, kind: "+
		"TokenRequest, spec: {expirationSeconds: 600}}"))
	s.want(a, map[string]any{"/kind": "TokenRequest", "/spec/expirationSeconds": 600})
	if a.code != http.StatusCreated || a.text("/status/expirationTimestamp") == "" {
		s.Errorf("request of a token is answered %d: %s", a.code, a.body)
	}
	return s.bearing(a.text("/status/token"))
}

// bearing returns the space with a client that has a token and no certificate.
func (s *space) bearing(token string) *space {
	s.Helper()
	config := rest.AnonymousClientConfig(s.server.Config)
	config.BearerToken = token
	other := *s
	other.admin = newClient(s.T, config)
	return &other
}

func testToken(s *space) {
	s.create("serviceaccounts", "metadata: {name: robot}")
	s.grant("r", "kind: ServiceAccount, name: robot, namespace: "+s.namespace, "[{apiGroups: [''], resources: "+
		"[pods], verbs: [list]}]")
	robot := s.withToken("robot")
	robot.awaitRight(call{path: "pods"})
	robot.refuses(call{path: "secrets"}, refusal{code: 403, reason: metav1.StatusReasonForbidden})
	review := robot.must(post("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"))
	s.want(review, map[string]any{
		"/status/userInfo/username": "system:serviceaccount:" + s.namespace + ":robot",
		"/status/userInfo/groups": []string{
			"system:serviceaccounts", "system:serviceaccounts:" + s.namespace, "system:authenticated",
		},
	})
	s.must(call{verb: "DELETE", path: "serviceaccounts/robot"})
	s.eventually("the token of the deleted account is refused", func(ctx context.Context) error {
		return robot.is(ctx, call{path: "pods"}, http.StatusUnauthorized)
	})
	s.refuses(post("serviceaccounts/none/token", "{spec: {}}"), refusal{code: 404, reason: metav1.StatusReasonNotFound})
}

func testWrongToken(s *space) {
	s.bearing("none").refuses(call{path: "pods"}, refusal{
		code: http.StatusUnauthorized, reason: metav1.StatusReasonUnauthorized, message: "Unauthorized",
	})
}

func testAnonymous(s *space) {
	anonymous := s.bearing("")
	anonymous.refuses(call{path: "pods"}, refusal{
		code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, message: `User "system:anonymous" cannot list resource "pods"`,
	})
	anonymous.get("/version")
	anonymous.awaitHealth()
}
