//go:build unix

package gke

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// page is the answer of a proxy that does not reach the API server.
func page(code int) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"text/html; charset=UTF-8"}},
		Body: io.NopCloser(strings.NewReader("<!DOCTYPE html><title>Error</title>")),
	}
}

// answering returns clusters whose only cell has the same answer to all requests.
func answering(t *testing.T, answer func() (*http.Response, error)) *Clusters {
	t.Helper()
	s := testSettings()
	s.Cells = []Cell{{Name: "local", Kubeconfig: "testdata/kubeconfig.yaml"}}
	c := testClusters(t, s)
	c.wrapTransports(func(http.RoundTripper) http.RoundTripper {
		return way{calls: &calls{breaks: func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return answer()
		}}}
	})
	return c
}

// An agent neither loses its data nor ends in error because a proxy answers, or an API server that does not serve an
// API.
func TestClusters_TakeOnlyTheAPIServersWordForObjects(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]func() *http.Response{
		"not found":   func() *http.Response { return page(http.StatusNotFound) },
		"bad request": func() *http.Response { return page(http.StatusBadRequest) },
		"no method":   func() *http.Response { return page(http.StatusMethodNotAllowed) },
		"conflict":    func() *http.Response { return page(http.StatusConflict) },
		"gone":        func() *http.Response { return page(http.StatusGone) },
		"too large":   func() *http.Response { return page(http.StatusRequestEntityTooLarge) },
		"invalid":     func() *http.Response { return page(http.StatusUnprocessableEntity) },
		"no such API": func() *http.Response {
			return answer(http.StatusNotFound, metav1.StatusReasonNotFound,
				"the server could not find the requested resource")
		},
	} {
		c := answering(t, func() (*http.Response, error) { return foreign(), nil })
		for what, call := range callsAbout(t, c) {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				wantUnavailable(t, call(), codeClusterUnavailable)
			})
		}
	}
}

// callsAbout are the calls whose callers act on what the cluster does not have.
func callsAbout(t *testing.T, c *Clusters) map[string]func() error {
	t.Helper()
	ctx, a := t.Context(), testAgent()
	a.Volume.Number = 1
	ran := a
	ran.Status, ran.LastReadyIsolation = agent.Running, agent.Plain
	s := agent.Snapshot{ID: ownSnapshot, CutAt: metav1.Now().Time}
	placement := provisioning.Placement{Cell: a.Cell, AgentID: a.ID}
	return map[string]func() error{
		"apply":           func() error { return c.Apply(ctx, a, agent.StageNamespace, testRuntimeInput()) },
		"keep the volume": func() error { return c.Apply(ctx, ran, agent.StageStorage, testRuntimeInput()) },
		"check ready":     func() error { return c.CheckReady(ctx, a) },
		"delete":          func() error { return c.Delete(ctx, a) },
		"prune":           func() error { return c.Prune(ctx, a) },
		"keep logs":       func() error { return c.KeepLastLogs(ctx, a) },
		"retain":          func() error { return c.RetainSnapshot(ctx, a, s, true) },
		"mark":            func() error { return c.MarkNamespace(ctx, placement, metav1.Now().Time) },
		"existence": func() error {
			_, err := c.Existence(ctx, a)
			return err
		},
		"check gone": func() error {
			gone, err := c.CheckGone(ctx, a)
			if gone != (provisioning.Gone{}) {
				return fmt.Errorf("something is gone: %+v", gone)
			}
			return err
		},
		"snapshot": func() error {
			_, err := c.Snapshot(ctx, a, s, true)
			return err
		},
		"delete a snapshot": func() error {
			_, err := c.DeleteSnapshot(ctx, a, s)
			return err
		},
		"delete a volume": func() error {
			_, err := c.DeleteVolume(ctx, a, 0)
			return err
		},
	}
}
