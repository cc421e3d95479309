//go:build unix

package gke

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/oauth2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

func TestClusters_UnreachableClusterIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSettings()
		s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/kubeconfig.yaml"}}
		c := testClusters(t, s)
		c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
			return way{calls: &calls{breaks: func(*http.Request, http.RoundTripper) (*http.Response, error) {
				return nil, errors.New("no route to host")
			}}}
		})
		a := testAgent()
		for name, call := range map[string]func() error{
			"apply":  func() error { return c.Apply(t.Context(), a, agent.StageNamespace, testRuntimeInput()) },
			"ready":  func() error { return c.CheckReady(t.Context(), a) },
			"delete": func() error { return c.Delete(t.Context(), a) },
			"gone": func() error {
				_, err := c.CheckGone(t.Context(), a)
				return err
			},
			"list": func() error {
				_, err := c.Namespaces(t.Context())
				return err
			},
			"pods": func() error {
				_, err := c.Pods(t.Context(), "local")
				return err
			},
			"existence": func() error {
				_, err := c.Existence(t.Context(), a)
				return err
			},
			"delete namespace": func() error {
				return c.DeleteNamespace(t.Context(), provisioning.Placement{Cell: "local", AgentID: a.ID})
			},
		} {
			if err := call(); err == nil {
				t.Errorf("%s: no error", name)
			} else {
				wantUnavailable(t, err, codeClusterUnavailable)
			}
		}
	})
}

// The server never answers.
func TestClusters_CallsHaveADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSettings()
		s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/kubeconfig.yaml"}}
		c := testClusters(t, s)
		c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
			return way{calls: &calls{breaks: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}}}
		})
		wantUnavailable(t, c.Apply(t.Context(), testAgent(), agent.StageNamespace, testRuntimeInput()),
			codeClusterUnavailable)
		wantUnavailable(t, c.Delete(t.Context(), testAgent()), codeClusterUnavailable)
		wantUnavailable(t, c.CheckReady(t.Context(), testAgent()), codeClusterUnavailable)
	})
}

// The kubeconfig appears after the first call.
func TestClusters_RetryAFailedConnection(t *testing.T) {
	t.Parallel()
	s := testSettings()
	s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/none.yaml"}}
	c := testClusters(t, s)
	wantUnavailable(t, c.Delete(t.Context(), testAgent()), codeClusterUnavailable)
	c.cells["local"].Kubeconfig = "testdata/kubeconfig.yaml"
	if _, err := c.client("local"); err != nil {
		t.Errorf("once the kubeconfig is there: %v", err)
	}
}

func TestEndpoint_GetsTheTokenOverVerifiedTLS(t *testing.T) {
	t.Parallel()
	var authorization, agentName atomic.Value
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization.Store(r.Header.Get("Authorization"))
		agentName.Store(r.UserAgent())
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	config := endpointConfig(server.URL, oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token-of-the-process"}))
	tune(config, "gke")
	if config.QPS >= 0 {
		t.Errorf("%g requests a second at most, want no limit", config.QPS)
	}
	client := clientFor(t, config)
	if _, err := client.get(t.Context(), core("Namespace", "", "x")); err == nil || authorization.Load() != nil {
		t.Errorf("an untrusted certificate: error %v, and the server saw %v", err, authorization.Load())
	}
	config.CAData = certificatePEM(server)
	client = clientFor(t, config)
	if _, err := client.get(t.Context(), core("Namespace", "", "x")); err == nil {
		t.Error("no error from a server that knows nothing")
	}
	if authorization.Load() != "Bearer token-of-the-process" || agentName.Load() != fieldManager {
		t.Errorf("the server saw %v from %v", authorization.Load(), agentName.Load())
	}
}

func clientFor(t *testing.T, config *rest.Config) *client {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	api, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	return &client{cell: "test", api: api}
}

func certificatePEM(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
