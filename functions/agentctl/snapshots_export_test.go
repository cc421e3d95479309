package agentctl_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/shared/dataplane/archive"
)

// TestSnapshots_ExportReplacesNoFile saves archives in a folder that has files with similar names. One archive has no
// end.
func TestSnapshots_ExportReplacesNoFile(t *testing.T) {
	t.Parallel()
	const manifest = `{"format": "agents.example/volume", "version": 1, "agent": {"name": "a"}}`
	var whole bytes.Buffer
	if err := archive.Write(t.Context(), &whole, []byte(manifest), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch id, isExport := strings.CutSuffix(r.URL.Path, "/export"); {
		case isExport && strings.HasSuffix(id, "/cut"):
			_, _ = w.Write(whole.Bytes()[:1024])
		case isExport:
			_, _ = w.Write(whole.Bytes())
		default:
			_, _ = fmt.Fprintf(w, `{"id": %q, "status": "ready"}`, filepath.Base(id))
		}
	}))
	defer s.Close()
	dir := t.TempDir()
	for _, name := range []string{"a.tar.part", "b.tar", "c.tar.part"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	export := func(snapshot, name string) output {
		t.Helper()
		return tool{url: s.URL, token: "so_unused"}.
			run(t, "snapshots", "export", someAgent, snapshot, "--to", filepath.Join(dir, name))
	}
	export("whole", "a.tar").wantCode(t, agentctl.ExitOK, "Saved the archive as ")
	export("whole", "b.tar").wantCode(t, agentctl.ExitUsage, "b.tar exists")
	export("cut", "c.tar").wantCode(t, agentctl.ExitFailed, "the archive did not arrive as a whole")
	want := map[string]string{"a.tar": whole.String(), "a.tar.part": "mine", "b.tar": "mine", "c.tar.part": "mine"}
	got := map[string]string{}
	for name := range filesBelow(t, dir) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.tar")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive: %+v, %v; want that only its owner can read it", info, err)
	}
}
