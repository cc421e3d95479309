package gateway

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// servingAgent is an agent whose pod is ready.
type servingAgent struct {
	namespace string
	pod       string
	uid       types.UID
	since     time.Time
	env       map[string]string
	// session is true for a request in a session that a dashboard link began.
	session bool
}

// ServeHTTP routes a request by its hostname to the agent that claims it.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	host := strings.ToLower(req.Host)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	namespace, ok := g.findNamespace(host)
	if !ok {
		http.Error(w, "no route claims this hostname", http.StatusNotFound)
		return
	}
	a, ok := g.findReadyAgent(namespace)
	if !ok {
		http.Error(w, "the agent's pod is not ready", http.StatusServiceUnavailable)
		return
	}
	if req.URL.Path == readyPath { // a request of the platform, which is not traffic of the agent
		a.serve(w, req)
		return
	}
	began, rec := time.Now(), &statusRecorder{ResponseWriter: w}
	if req.URL.Path == "/handoff" {
		g.links.startSession(rec, req, host)
	} else {
		a.session = g.links.hasSession(req, host)
		a.serve(rec, req)
	}
	g.counters.record(a, host, rec.status, time.Since(began))
}

// readyPath is the path of the platform's health check.
const readyPath = "/health/ready"

// hostnames lists the hostnames that an HTTPRoute claims.
func hostnames(o any) ([]string, error) {
	route, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	names, _, err := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	return names, err
}

// findNamespace finds the namespace whose HTTPRoute has the hostname.
func (g *Gateway) findNamespace(host string) (namespace string, ok bool) {
	routes, err := g.routes.GetIndexer().ByIndex(byHostname, host)
	if err != nil || len(routes) == 0 {
		return "", false
	}
	route, ok := routes[0].(*unstructured.Unstructured)
	if !ok {
		return "", false
	}
	return route.GetNamespace(), true
}

// started returns the time at which the pod's container was started.
func started(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return pod.CreationTimestamp.Time
}

func (g *Gateway) findReadyAgent(namespace string) (servingAgent, bool) {
	pods, err := g.pods.GetIndexer().ByIndex(byNamespace, namespace)
	if err != nil {
		return servingAgent{}, false
	}
	for _, o := range pods {
		pod, ok := o.(*corev1.Pod)
		if !ok || !ready(pod) {
			continue
		}
		g.mu.RLock()
		env, known := g.environments[pod.UID]
		g.mu.RUnlock()
		if known {
			return servingAgent{namespace: namespace, pod: pod.Name, uid: pod.UID, since: started(pod), env: env}, true
		}
	}
	return servingAgent{}, false
}

// Environment returns the environment variables of the agent in a namespace. It returns false while the agent has no
// ready pod.
func (g *Gateway) Environment(namespace string) (map[string]string, bool) {
	a, ok := g.findReadyAgent(namespace)
	return maps.Clone(a.env), ok
}

// serve answers as an agent's image must: a dashboard with Basic authentication, an API with a bearer key, a health
// check without authentication, and a check of either credential.
func (a servingAgent) serve(w http.ResponseWriter, req *http.Request) {
	switch path := req.URL.Path; {
	case path == readyPath:
		w.WriteHeader(http.StatusOK)
	case path == "/auth/check":
		if !a.dashboardUser(req) && !a.apiCaller(req) {
			a.refuse(w, "agent")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case path == "/v1" || strings.HasPrefix(path, "/v1/"):
		if !a.apiCaller(req) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the agent's API wants the agent's key", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"namespace": a.namespace, "pod": a.pod, "path": path})
	default:
		if !a.session && !a.dashboardUser(req) {
			a.refuse(w, "dashboard")
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><title>Agent</title><h1>It runs</h1><p>%s in %s</p>\n",
			html.EscapeString(a.pod), html.EscapeString(a.namespace))
	}
}

func (a servingAgent) refuse(w http.ResponseWriter, realm string) {
	w.Header().Set("WWW-Authenticate", `Basic realm="`+realm+`"`)
	http.Error(w, "the agent does not accept this credential", http.StatusUnauthorized)
}

func (a servingAgent) dashboardUser(req *http.Request) bool {
	user, password, ok := req.BasicAuth()
	return ok && equal(user, a.env["DASHBOARD_USERNAME"]) && equal(password, a.env["DASHBOARD_PASSWORD"])
}

func (a servingAgent) apiCaller(req *http.Request) bool {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return ok && equal(token, a.env["API_SERVER_KEY"])
}

// equal compares in constant time. No credential equals an unset one.
func equal(got, want string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}
