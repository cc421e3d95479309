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
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/archive"
)

// settle records that the cluster has taken each snapshot of an agent that waits for it, and that those are gone which
// are being deleted.
func (a *api) settle(t *testing.T, agentID string) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	a.UpdateAgent(t, agentID, func(a *agent.Agent) {
		for _, s := range a.Snapshots {
			switch s.Status {
			case agent.SnapshotPending:
				a.RecordSnapshot(s.ID, agent.SnapshotState{
					CutAt: now, Handle: "snapshots/1", Ready: true, SizeBytes: 1 << 30,
				}, now)
			case agent.SnapshotDeleting:
				a.RecordDeletedSnapshot(s.ID, true, now)
			case agent.SnapshotReady, agent.SnapshotFailed:
			}
		}
	})
}

// TestSnapshots_AreTakenRestoredClonedAndDeleted goes through what a person does with snapshots.
func TestSnapshots_AreTakenRestoredClonedAndDeleted(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, id := a.admin(), a.RunningAgent(t, org, map[string]string{"LEVEL": "info", "OPENAI_API_KEY": "value"}).ID
	c.run(t, "snapshots", "list", "test").wantCode(t, agentctl.ExitOK, "test has no snapshots")
	dry := c.run(t, "snapshots", "take", "test", "--dry-run").ok(t)
	if !strings.Contains(dry.Stdout, "Restarts:  yes") || len(a.Agent(t, id).Snapshots) > 0 {
		t.Errorf("a rehearsal says %q, want that the agent restarts, and no snapshot", dry.Stdout)
	}
	stop := a.onNudge(t, func(id string) { a.settle(t, id) })
	taken := c.run(t, "snapshots", "take", "test", "--name", "by hand", "--wait", "-o",
		"jsonpath={.status} {.name} {.cause} {.consistency}")
	taken.want(t, output{0, "ready by hand user stop\n", taken.Stderr})
	stop()
	snapshot := a.Agent(t, id).Snapshots[0].ID
	table := c.run(t, "snapshots", "list", "test").ok(t).Stdout
	wantParts(t, "snapshots list", table, snapshot, "by hand", "ready", "1 GiB", "user", "never", "AGE", "EXPIRES")
	if got := c.run(t, "__complete", "snapshots", "restore", "test", "").ok(t).Stdout; !strings.HasPrefix(got,
		snapshot+"\tby hand, ") {
		t.Errorf("completion = %q, want the snapshot", got)
	}
	if got := c.run(t, "snapshots", "show", "test", snapshot).ok(t).Stdout; !strings.Contains(got, "Taken:") {
		t.Errorf("snapshots show prints %q, want when it was taken", got)
	}
	loses := c.run(t, "snapshots", "restore", "test", snapshot, "--dry-run").ok(t).Stdout
	if !strings.Contains(loses, "Loses data since:") {
		t.Errorf("a rehearsal of the restore says %q, want since when data is lost", loses)
	}
	c.run(t, "snapshots", "restore", "test", snapshot).
		wantCode(t, agentctl.ExitUsage, "test would lose what it wrote since 20", "kept as a snapshot for 7 days",
			"--yes")
	asked, _ := c.person(t, 80, "n\n", "snapshots", "restore", "test", snapshot)
	asked.wantCode(t, agentctl.ExitFailed, "lose what it wrote since", "days.\nRestore the snapshot",
		"nothing was changed")
	c.run(t, "snapshots", "restore", "test", snapshot, "--yes").ok(t)
	if got := a.Agent(t, id).Volume; got.Number != 1 || got.Source.SnapshotID != snapshot {
		t.Errorf("the agent's volume is %+v, want one of the snapshot", got)
	}
	c.run(t, "snapshots", "delete", "test", snapshot, "--yes").wantCode(t, agentctl.ExitConflict, "being made from")
	clone := c.run(t, "agents", "create", "copy", "--from-snapshot", snapshot,
		"-o", "jsonpath={.clone_of.agent_id}").ok(t)
	if clone.Stdout != id+"\n" {
		t.Errorf("the clone is one of %q, want %s", clone.Stdout, id)
	}
	got := c.run(t, "agents", "get", "copy").ok(t).Stdout
	wantParts(t, "agents get", got, "Clone of:", snapshot, "Lacks secrets:", "OPENAI_API_KEY", "LEVEL")
}

// TestApply_BeginsWithDataOfOthers applies manifests whose agents begin with a snapshot or an archive. The clone has
// the config of its source, and neither field changes an agent that is there.
func TestApply_BeginsWithDataOfOthers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, id := a.admin(), a.RunningAgent(t, org, map[string]string{"LEVEL": "info"}).ID
	c.run(t, "agents", "update", id, "--config", `{"team": "support"}`).ok(t)
	stop := a.onNudge(t, func(id string) { a.settle(t, id) })
	c.run(t, "snapshots", "take", id, "--wait").ok(t)
	stop()
	snapshot := a.Agent(t, id).Snapshots[0].ID
	text := "manifest: m\nagents:\n  copy: {from_snapshot: " + snapshot + "}\n  moved: {import_url: {env: ARCHIVE}}\n"
	c.apply(t, text).wantCode(t, agentctl.ExitUsage, "the environment has no variable ARCHIVE, which has the address")
	c.variables = map[string]string{"ARCHIVE": "https://archives.example.com/agent.tar?signature=" + canary}
	planned := c.apply(t, text, "--dry-run").Stdout
	wantParts(t, "the rehearsal", planned, "from_snapshot: "+snapshot, "import_url: (from the variable ARCHIVE)")
	c.apply(t, text).ok(t)
	c.run(t, "agents", "get", "copy", "-o", "jsonpath={.clone_of.snapshot_id} {.config.team} {.env_vars}").
		want(t, output{0, snapshot + ` support {"LEVEL":"configured"}` + "\n", ""})
	moved := strings.TrimSpace(c.run(t, "agents", "get", "moved", "-o", "name").ok(t).Stdout)
	if got := a.stored(t, moved, dataplane.EnvImportURL); got != c.variables["ARCHIVE"] {
		t.Errorf("the archive of the new agent is at %q, want %q", got, c.variables["ARCHIVE"])
	}
	c.variables = nil
	c.apply(t, text, "--dry-run").wantCode(t, agentctl.ExitOK, "Nothing differs")
}

func TestSnapshots_DeleteEndsOnceTheyAreGone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c, id := a.admin(), a.RunningAgent(t, org, nil).ID
	c.run(t, "snapshots", "take", "test", "--consistency", "crash").ok(t)
	a.settle(t, id)
	snapshot := a.Agent(t, id).Snapshots[0].ID
	c.run(t, "snapshots", "delete", "test", snapshot).wantCode(t, agentctl.ExitUsage, "add --yes to confirm")
	asked, _ := c.person(t, 80, "no\n", "snapshots", "delete", "test", snapshot)
	asked.wantCode(t, agentctl.ExitFailed, `Delete the snapshot "Snapshot" of test, with its data of 20`)
	c.run(t, "snapshots", "delete", "test", snapshot, "--dry-run").ok(t)
	defer a.onNudge(t, func(id string) { a.settle(t, id) })()
	c.run(t, "snapshots", "delete", "test", snapshot, "--yes", "--wait").wantCode(t, agentctl.ExitOK, "Deleted")
	c.run(t, "snapshots", "show", "test", snapshot).wantCode(t, agentctl.ExitNotFound, "Snapshot not found")
	c.run(t, "snapshots", "list", "test", "-o", "name").want(t, output{0, "", ""})
}

func TestSnapshots_WaitFailsWithTheSnapshot(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	a.RunningAgent(t, org, nil)
	defer a.onNudge(t, func(id string) {
		a.UpdateAgent(t, id, func(a *agent.Agent) {
			for _, s := range a.Snapshots { // the first nudge is about the agent's creation
				a.RefuseSnapshot(s.ID, "The storage takes no snapshots.", time.Now())
			}
		})
	})()
	c.run(t, "snapshots", "take", "test", "--wait").
		wantCode(t, agentctl.ExitUnsettled, "the snapshot is failed: The storage takes no snapshots.")
}

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
