//go:build unix

package gke

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/oauth2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// answer is an API server's error.
func answer(code int32, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
	if err != nil {
		body = nil // strings and numbers always encode
	}
	return &http.Response{
		StatusCode: int(code), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// TestBrokenCalls breaks every call of a kind once, in every way, and looks at what comes of it: an error that says to try again, and
// then, tried again, success.
func TestBrokenCalls(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	for name, broken := range map[string]func() (*http.Response, error){
		"conflict": func() (*http.Response, error) {
			return answer(http.StatusConflict, metav1.StatusReasonConflict, "changed"), nil
		},
		"internal": func() (*http.Response, error) { return answer(http.StatusInternalServerError, "", "internal"), nil },
		"forbidden": func() (*http.Response, error) {
			return answer(http.StatusForbidden, metav1.StatusReasonForbidden, "no right"), nil
		},
		"logged out": func() (*http.Response, error) {
			return answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "who"), nil
		},
		"no such api": func() (*http.Response, error) {
			return answer(http.StatusNotFound, metav1.StatusReasonNotFound, "no such resource"), nil
		},
		"reset": func() (*http.Response, error) { return nil, reset },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			for _, stage := range agent.StageNames()[:7] {
				var once atomic.Bool
				w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
					if once.Swap(true) {
						return nil, nil
					}
					return broken()
				}
				wantUnavailable(t, w.Apply(t.Context(), a, stage, testMaterial()), codeClusterUnavailable)
				w.apply(t, a, testMaterial(), stage)
			}
			w.awaitReady(t, a)
		})
	}
}

// TestAnswerLost applies although the answer to the first attempt was lost: the object is there, and applying again changes nothing.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	for _, stage := range agent.StageNames()[:7] {
		var once atomic.Bool
		w.calls.breaks = func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if once.Swap(true) {
				return nil, nil
			}
			response, err := next.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			return nil, io.ErrUnexpectedEOF
		}
		wantUnavailable(t, w.Apply(t.Context(), a, stage, testMaterial()), codeClusterUnavailable)
		w.apply(t, a, testMaterial(), stage)
	}
	w.awaitReady(t, a)
}

// TestTooManyRequests shows that a server that asks for time is given it.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	var asked atomic.Int32
	w.calls.breaks = func(*http.Request, http.RoundTripper) (*http.Response, error) {
		if asked.Add(1) > 1 {
			return nil, nil
		}
		response := answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
		response.Header.Set("Retry-After", "1")
		return response, nil
	}
	w.apply(t, a, testMaterial(), agent.StageNamespace)
	if asked.Load() != 2 {
		t.Errorf("%d requests, want 2", asked.Load())
	}
}

// TestBrokenWatches brings an agent up and down while watches end early, are too old, or are refused.
func TestBrokenWatches(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(*http.Request, http.RoundTripper) (*http.Response, error){
		"too old": func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return answer(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"), nil
		},
		"too old, told late": func(*http.Request, http.RoundTripper) (*http.Response, error) {
			gone := answer(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
			status, err := io.ReadAll(gone.Body)
			gone.StatusCode, gone.Body = http.StatusOK, io.NopCloser(strings.NewReader(`{"type":"ERROR","object":`+string(status)+`}`))
			return gone, err
		},
		"ends at once": func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}, nil
		},
		"unavailable": func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "starting"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			var watches atomic.Int32
			w.calls.breaks = func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				if r.URL.Query().Get("watch") == "" || watches.Add(1)%4 == 0 {
					return nil, nil
				}
				return broken(r, next)
			}
			w.apply(t, a, testMaterial())
			w.awaitReady(t, a)
			if err := w.Delete(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if err := w.AwaitGone(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if watches.Load() == 0 {
				t.Error("nothing was watched")
			}
		})
	}
}

// TestNoCluster shows that a cluster that can't be reached is told soon, whatever is asked of it.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSettings()
		s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/kubeconfig.yaml"}}
		c := testClusters(t, s)
		c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
			return &calls{breaks: func(*http.Request, http.RoundTripper) (*http.Response, error) {
				return nil, errors.New("no route to host")
			}}
		})
		a := testAgent()
		for name, call := range map[string]func() error{
			"apply":  func() error { return c.Apply(t.Context(), a, agent.StageNamespace, testMaterial()) },
			"ready":  func() error { return c.AwaitReady(t.Context(), a) },
			"delete": func() error { return c.Delete(t.Context(), a) },
			"gone":   func() error { return c.AwaitGone(t.Context(), a) },
			"list": func() error {
				_, err := c.Namespaces(t.Context())
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

// TestDeadline shows that a server that never answers is not waited for longer than one call may take.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := testSettings()
		s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/kubeconfig.yaml"}}
		c := testClusters(t, s)
		c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
			return &calls{breaks: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}}
		})
		wantUnavailable(t, c.Apply(t.Context(), testAgent(), agent.StageNamespace, testMaterial()), codeClusterUnavailable)
		wantUnavailable(t, c.Delete(t.Context(), testAgent()), codeClusterUnavailable)
		wantUnavailable(t, c.AwaitReady(t.Context(), testAgent()), codeClusterUnavailable)
	})
}

// TestKubeconfigAppears shows that a cell that couldn't be connected to is tried anew.
func TestKubeconfigMissing(t *testing.T) {
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

// TestEndpoint shows that an endpoint is called with the process's token, over TLS that is checked.
func TestEndpoint(t *testing.T) {
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
