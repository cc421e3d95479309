//go:build unix

package dataplane

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// The API server's proxy reaches pods that the network policy hides from everyone else.
func TestMetrics_AreAskedOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		given    string
		ready    []endpoint
		wantPath string
	}{
		{
			given: "a pod", ready: []endpoint{{pod: "agent-router-1"}, {pod: "agent-router-2"}},
			wantPath: "agent-router-1:9090",
		},
		{given: "no pod", wantPath: "none:9090"},
	} {
		var asked *http.Request
		api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { asked = req }))
		defer api.Close()
		b := &balancer{ready: row.ready}
		handler, err := b.metrics(&rest.Config{Host: api.URL, BearerToken: "administrator"})
		if err != nil {
			t.Fatal(err)
		}
		handler.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if asked == nil {
			t.Fatalf("%s: the API server was not asked", row.given)
		}
		want := "/api/v1/namespaces/agent-gateway/pods/" + row.wantPath + "/proxy/metrics"
		if got := asked.URL.Path; got != want {
			t.Errorf("%s: path %s, want %s", row.given, got, want)
		}
		if got := asked.Header.Get("Authorization"); got != "Bearer administrator" {
			t.Errorf("%s: credentials %q, want those of the kubeconfig", row.given, got)
		}
	}
}
