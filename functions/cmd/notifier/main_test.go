//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/dataplane/notifier"
)

func status(h http.Handler, path string) int {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Code
}

func TestHealth_IsReadyAfterTheFirstLists(t *testing.T) {
	t.Parallel()
	synced := false
	h := handler(notifier.New(nil), func() bool { return synced })
	for _, row := range []struct {
		synced    bool
		path      string
		wantValue int
	}{
		{synced: false, path: "/healthz", wantValue: http.StatusOK},
		{synced: false, path: "/health/ready", wantValue: http.StatusServiceUnavailable},
		{synced: true, path: "/health/ready", wantValue: http.StatusOK},
		{synced: true, path: "/else", wantValue: http.StatusNotFound},
	} {
		synced = row.synced
		if got := status(h, row.path); got != row.wantValue {
			t.Errorf("GET %s with synced %v = %d, want %d", row.path, row.synced, got, row.wantValue)
		}
	}
}

// TestOpen_ServesAndStopsWithoutTheCluster: a cluster that does not answer keeps the notifier from being ready, and
// from nothing else.
func TestOpen_ServesAndStopsWithoutTheCluster(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	err := os.WriteFile(kubeconfig, []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`),
		0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := open(ctx, config.Notifier{
		ProjectID: "p", NudgeTopic: "t", PubSubEmulator: "127.0.0.1:1", Kubeconfig: kubeconfig,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := status(s.Handler, "/health/ready"); got != http.StatusServiceUnavailable {
		t.Errorf("GET /health/ready = %d, want 503", got)
	}
	cancel(errors.New("the process was told to end"))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
