package cloud_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/testtier"
)

// filler is how much an agent has in addition to its database. Measurements need more than tests do.
var filler = flag.Int("filler", 1, "size of the volumes' further data in `megabytes`")

// databaseImage is the image of an agent that writes rows into an SQLite database all the time.
const databaseImage = "images.example/database@sha256:" +
	"2222222222222222222222222222222222222222222222222222222222222222"

// databasePrograms makes the directory of the image's programs, which an interpreter runs, and returns both.
func databasePrograms(t *testing.T) (dir, python string) {
	t.Helper()
	dir = t.TempDir()
	const real = "import os, sys; print(os.path.realpath(sys.executable), end='')" // the command may be a script
	out, err := exec.CommandContext(t.Context(), testtier.RequirePython(t), "-c", real).Output()
	if err != nil {
		t.Fatal(err)
	}
	python = string(out)
	for _, name := range []string{"entrypoint", "quiesce"} {
		text, err := os.ReadFile(filepath.Join("testdata", "wal", name))
		if err != nil {
			t.Fatal(err)
		}
		testtier.WriteProgram(t, filepath.Join(dir, name), "#!"+python+"\n"+string(text))
	}
	return dir, python
}

// databaseTarball makes the same image for a real node, with the interpreter of this machine.
func databaseTarball(t *testing.T) (file string) {
	t.Helper()
	dir, python := databasePrograms(t)
	file = filepath.Join(t.TempDir(), "database.tar")
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "wal", "image.py"), file,
		filepath.Join(dir, "entrypoint"), filepath.Join(dir, "quiesce")).CombinedOutput()
	if err != nil {
		t.Fatalf("write an image: %v\n%s", err, out)
	}
	return file
}

// databaseEntry is the image's entry of the catalog.
func databaseEntry(reference string) image.Image {
	return image.Image{
		ID: "database", Name: "Database", DefaultVersion: "1",
		Runtime:  image.Runtime{Quiesce: "/app/quiesce"},
		Versions: []image.Version{{Version: "1", Reference: reference, State: image.Available}},
	}
}

// TestSnapshotsHoldADatabase takes snapshots of an agent that writes all the time, and restores them.
func TestSnapshotsHoldADatabase(t *testing.T) {
	t.Parallel()
	dir, _ := databasePrograms(t)
	d := start(t, false, func(o *cloud.Options) {
		o.Images = map[string]string{databaseImage: dir}
		o.Catalog = []image.Image{databaseEntry(databaseImage)}
	})
	testDatabase(t, d)
}

// testSandboxedDatabase does the same in gVisor on a real node.
func testSandboxedDatabase(t *testing.T, d deployment) {
	sandboxed := d
	sandboxed.inSandbox = true
	testDatabase(t, sandboxed)
}

// databaseState is what the agent says.
type databaseState struct {
	// Acknowledged is the number of the last row that is committed.
	Acknowledged int `json:"acknowledged"`
	// Found is what the agent's volume had when the agent started.
	Found struct {
		Integrity string `json:"integrity"`
		First     int    `json:"first"`
		Last      int    `json:"last"`
		Count     int    `json:"count"`
		// Quiet and Stopped are marks that the agent leaves while its volume is quiet, and when it ends.
		Quiet   bool `json:"quiet"`
		Stopped bool `json:"stopped"`
	} `json:"found"`
}

// state reads the state of a database's agent. It reports false while the agent does not answer.
func (h hosted) state(t *testing.T, d deployment) (s databaseState, ok bool) {
	t.Helper()
	status, text := d.get(t, h.dashboard+"state", h.signIn)
	if status != http.StatusOK {
		return s, false
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return s, true
}

// awaitState waits until the agent's state is as wanted.
func (h hosted) awaitState(t *testing.T, d deployment, what string, holds func(databaseState) bool) (s databaseState) {
	t.Helper()
	d.await(t, h.id, what, func(a answer) bool {
		if a.body["status"] != "running" || a.body["dashboard_warming"] != false {
			return false
		}
		var ok bool
		s, ok = h.state(t, d)
		return ok && holds(s)
	})
	return s
}

func (h hosted) snapshots() string { return "/api/v1/agents/" + h.id + "/snapshots" }

// awaitSnapshot waits until a snapshot is ready.
func (d deployment) awaitSnapshot(t *testing.T, h hosted, id string) {
	t.Helper()
	d.await(t, h.id, "in a snapshot that is ready", func(answer) bool {
		return d.must(t, http.StatusOK, http.MethodGet, h.snapshots()+"/"+id, "").body["status"] == "ready"
	})
}

// takeSnapshot takes a snapshot and waits until it is ready. It returns how long the data took, and all of it. A busy
// machine may give the program of an image too little time, which ends a snapshot, or the storage, which then keeps it
// as after a crash: then it takes another one, as users do.
func (d deployment) takeSnapshot(t *testing.T, h hosted, consistency string) (id string, cut, ready time.Duration) {
	t.Helper()
	for range 6 {
		began := time.Now()
		a := d.must(t, http.StatusCreated, http.MethodPost, h.snapshots(), fmt.Sprintf(`{"consistency": %q}`, consistency))
		id, _ = a.body["id"].(string)
		cut = 0
		d.await(t, h.id, "in a snapshot that is ready", func(answer) bool {
			a = d.must(t, http.StatusOK, http.MethodGet, h.snapshots()+"/"+id, "")
			if a.body["taken_at"] != nil && cut == 0 {
				cut = time.Since(began)
			}
			return a.body["status"] == "ready" || a.body["status"] == "failed"
		})
		if a.body["status"] == "ready" && a.body["consistency"] == consistency {
			return id, cut, time.Since(began)
		}
		t.Logf("a snapshot is %v, consistent by %v: %v", a.body["status"], a.body["consistency"], a.body["problem"])
	}
	t.Fatal("six snapshots failed")
	return "", 0, 0
}

// restore restores a snapshot and returns what the agent found then.
func (d deployment) restore(t *testing.T, h hosted, id string) databaseState {
	t.Helper()
	pod := d.podUID(t, h.id)
	d.must(t, http.StatusOK, http.MethodPost, "/api/v1/agents/"+h.id+"/restore", fmt.Sprintf(`{"snapshot_id": %q}`, id))
	return h.awaitState(t, d, "restored", func(databaseState) bool { return d.podUID(t, h.id) != pod })
}

// checkFound checks that a restored database has all rows up to one that is at least as late as wanted.
func checkFound(t *testing.T, what string, s databaseState, least, most int) {
	t.Helper()
	f := s.Found
	if f.Integrity != "ok" || f.First != 1 || f.Count != f.Last || f.Last < least || f.Last > most {
		t.Errorf("%s has %d rows from %d to %d and integrity %q, want all from 1 to one between %d and %d", what,
			f.Count, f.First, f.Last, f.Integrity, least, most)
	}
}

// testDatabase takes a snapshot in each way under writes, restores it, and makes a clone of the volume that it
// replaced.
func testDatabase(t *testing.T, d deployment) {
	for _, consistency := range []string{"hook", "stop", "crash"} {
		t.Run(consistency, func(t *testing.T) {
			t.Parallel()
			testDatabaseBy(t, d, consistency)
		})
	}
}

func testDatabaseBy(t *testing.T, d deployment, consistency string) {
	h := d.host(t, fmt.Sprintf(`{"name": "snapshot by %s", "resource_plan": "starter", "image": "database", `+
		`"env_vars": {"FILLER_MB": "%d"}}`, consistency, *filler))
	if d.inSandbox {
		d.must(t, http.StatusOK, http.MethodPost, "/agents/"+h.id+"/migrate-sandbox", `{"enabled": true}`)
	}
	asked := h.awaitState(t, d, "writing", func(s databaseState) bool { return s.Acknowledged > 100 })
	id, cut, ready := d.takeSnapshot(t, h, consistency)
	later := h.awaitState(t, d, "writing again", func(s databaseState) bool {
		return s.Acknowledged > asked.Acknowledged+100
	})
	began := time.Now()
	restored := d.restore(t, h, id)
	back := time.Since(began)
	checkFound(t, "the restored volume", restored, asked.Acknowledged, later.Acknowledged)
	checkEqual(t, "the snapshot was cut while the volume was quiet", restored.Found.Quiet, consistency == "hook")
	checkEqual(t, "the snapshot was cut after the agent had ended", restored.Found.Stopped, consistency == "stop")

	kept := d.keptVolume(t, h)
	d.awaitSnapshot(t, h, kept)
	began = time.Now()
	clone := d.host(t, fmt.Sprintf(`{"name": "what %s replaced", "resource_plan": "starter", "from_snapshot": %q}`,
		consistency, kept))
	former := clone.awaitState(t, d, "writing", func(databaseState) bool { return true })
	cloned := time.Since(began)
	checkFound(t, "the volume before the restore", former, later.Acknowledged, 1<<40)
	checkEqual(t, "the agent had ended before its volume was kept", former.Found.Stopped, true)
	t.Logf("by %s: %d rows were acknowledged before, %d are in it; cut after %.1f s, ready after %.1f s, "+
		"restored in %.1f s, cloned in %.1f s", consistency, asked.Acknowledged,
		restored.Found.Last, cut.Seconds(), ready.Seconds(), back.Seconds(), cloned.Seconds())
	for _, each := range []hosted{h, clone} { // they would write until all tests of the cloud have ended
		d.must(t, http.StatusAccepted, http.MethodDelete, "/api/v1/agents/"+each.id, "")
	}
}

// keptVolume returns the newest snapshot of a volume that a restore replaced.
func (d deployment) keptVolume(t *testing.T, h hosted) (id string) {
	t.Helper()
	a := d.must(t, http.StatusOK, http.MethodGet, h.snapshots(), "")
	var all []struct{ ID, Cause string }
	if err := json.Unmarshal([]byte(a.text), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Cause == "restore" {
			return s.ID
		}
	}
	t.Fatalf("no snapshot has the volume before the restore: %s", a.text)
	return ""
}
