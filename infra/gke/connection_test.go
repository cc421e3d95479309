//go:build unix

package gke

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

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
