package cloud_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/dataplane/archive"
)

// TestArchives_CarryAVolumeToAnotherOrganization exports a snapshot of an agent that is stopped, and imports it.
func TestArchives_CarryAVolumeToAnotherOrganization(t *testing.T) {
	t.Parallel()
	var dir string
	d := start(t, false, func(o *cloud.Options) { dir = o.Dir })
	id := d.create(t, `{"name": "has data", "resource_plan": "starter", "env_vars": {"MODEL_API_KEY": "canary-value"}}`)
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusOK, http.MethodPost, "/api/v1/agents/"+id+"/exec",
		`{"command": ["sh", "-c", "mkdir -p $DATA_DIR/deep && echo before > $DATA_DIR/deep/notes"]}`)
	snapshot := d.snapshotOf(t, id)
	d.must(t, http.StatusOK, http.MethodPost, "/api/v1/agents/"+id+"/exec",
		`{"command": ["sh", "-c", "echo after > $DATA_DIR/deep/notes"]}`)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	content := d.export(t, id, snapshot)
	summary, err := archive.Verify(bytes.NewReader(content))
	if err != nil || summary.Bytes == 0 {
		t.Fatalf("the archive: %+v, %v", summary, err)
	}
	if !bytes.Contains(content, []byte("before\n")) || bytes.Contains(content, []byte("after\n")) {
		t.Error("the archive has the present volume, want the snapshot's")
	}
	if bytes.Contains(content, []byte("canary-value")) {
		t.Error("the archive has the value of a secret")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("signature") != "canary-signature" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	defer server.Close()
	d.testImport(t, server.URL+"/a.tar?signature=canary-signature", dir)
	d.testFailedImport(t, server.URL+"/canary-path")
}

// testImport imports an archive into another organization.
func (d deployment) testImport(t *testing.T, url, dir string) {
	t.Helper()
	created := d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodPost, "/api/v1/agents",
		`{"name": "continues", "resource_plan": "hobby", "import_url": "`+url+`"}`)
	if created.status != http.StatusCreated {
		t.Fatalf("the creation answers %s", created.text)
	}
	path := "/api/v1/agents/" + created.body["id"].(string)
	clustertest.Eventually(t, func(context.Context) error {
		a := d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodGet, path, "")
		if a.body["status"] != "running" {
			return errors.New(a.text)
		}
		return nil
	})
	for _, view := range []string{path, path + "/secrets"} {
		if a := d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodGet, view, ""); a.status != http.StatusOK ||
			strings.Contains(a.text, "canary") || strings.Contains(a.text, "IMPORT") {
			t.Errorf("%s shows where the archive was: %s", view, a.text)
		}
	}
	markers, err := filepath.Glob(filepath.Join(dir, "*", "volumes", "*", ".agent-imported"))
	if err != nil || len(markers) != 1 {
		t.Fatalf("the volumes that got an archive: %v, %v; want one", markers, err)
	}
	notes, err := os.ReadFile(filepath.Join(filepath.Dir(markers[0]), "deep", "notes"))
	if err != nil || string(notes) != "before\n" {
		t.Errorf("the notes in the other organization are %q, %v", notes, err)
	}
}

// testFailedImport creates an agent whose archive does not exist.
func (d deployment) testFailedImport(t *testing.T, url string) {
	t.Helper()
	id := d.create(t, `{"name": "has no archive", "resource_plan": "starter", "import_url": "`+url+`"}`)
	failed := d.awaitStatus(t, id, "error")
	config, _ := failed.body["config"].(map[string]any)
	failure, _ := config["error"].(map[string]any)
	checkEqual(t, "code", failure["code"], "import_failed")
	if text := failed.text; strings.Contains(text, "canary") || !strings.Contains(text, "no such archive") {
		t.Errorf("the agent says %s", text)
	}
}

// snapshotOf takes a snapshot and returns its id once it is ready.
func (d deployment) snapshotOf(t *testing.T, id string) string {
	t.Helper()
	path := "/api/v1/agents/" + id + "/snapshots"
	taken := d.must(t, http.StatusCreated, http.MethodPost, path, `{"consistency": "crash"}`)
	snapshot, _ := taken.body["id"].(string)
	clustertest.Eventually(t, func(context.Context) error {
		if s := d.must(t, http.StatusOK, http.MethodGet, path+"/"+snapshot, ""); s.body["status"] != "ready" {
			return errors.New(s.text)
		}
		return nil
	})
	return snapshot
}

// export exports a snapshot, as a client that repeats the call until the copy of the snapshot is ready.
func (d deployment) export(t *testing.T, id, snapshot string) []byte {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			d.Ready.BaseURL+"/api/v1/agents/"+id+"/snapshots/"+snapshot+"/export", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.Ready.APIKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			t.Fatal(err)
		case resp.StatusCode == http.StatusOK:
			return content
		case resp.StatusCode != http.StatusServiceUnavailable || time.Now().After(end):
			t.Fatalf("the export answers %d %s", resp.StatusCode, strings.TrimSpace(string(content)))
		}
	}
}
