package connect

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/oauth2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

func TestEndpoint_GetsTheTokenOverVerifiedTLS(t *testing.T) {
	t.Parallel()
	var authorization, agentName atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		authorization.Store(r.Header.Get("Authorization"))
		agentName.Store(r.UserAgent())
	}))
	defer server.Close()
	config := endpointConfig(server.URL, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token-of-the-process"}))
	tune(config, "gke")
	if config.QPS >= 0 {
		t.Errorf("%g requests a second at most, want no limit", config.QPS)
	}
	if err := get(t, config); err == nil || authorization.Load() != nil {
		t.Errorf("an untrusted certificate: error %v, and the server saw %v", err, authorization.Load())
	}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := get(t, config); err != nil {
		t.Error(err)
	}
	if authorization.Load() != "Bearer token-of-the-process" || agentName.Load() != UserAgent {
		t.Errorf("the server saw %v from %v", authorization.Load(), agentName.Load())
	}
}

func get(t *testing.T, config *rest.Config) error {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(client.Transport) })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}
