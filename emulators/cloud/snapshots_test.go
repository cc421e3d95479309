package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/testtier"
)

// databaseImage is the image of an agent that writes rows into an SQLite database all the time.
const databaseImage = "images.example/database@sha256:" +
	"2222222222222222222222222222222222222222222222222222222222222222"

// databasePrograms makes the directory of the image's programs, which an interpreter runs.
func databasePrograms(t *testing.T, python string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"entrypoint", "quiesce"} {
		text, err := os.ReadFile(filepath.Join("testdata", "wal", name))
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte("#!"+python+"\n"), text...)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return dir
}

// databaseEntry is the image's entry of the catalog.
func databaseEntry(reference string) image.Image {
	return image.Image{
		ID: image.DefaultID, Name: "Database", DefaultVersion: "1",
		Runtime:  image.Runtime{Quiesce: "/app/quiesce"},
		Versions: []image.Version{{Version: "1", Reference: reference, State: image.Available}},
	}
}

// TestSnapshotsHoldADatabase takes snapshots of an agent that writes all the time, and restores them.
func TestSnapshotsHoldADatabase(t *testing.T) {
	t.Parallel()
	dir := databasePrograms(t, testtier.RequirePython(t))
	d := start(t, false, func(o *cloud.Options) {
		o.Images = map[string]string{databaseImage: dir}
		o.Catalog = []image.Image{databaseEntry(databaseImage)}
	})
	testDatabase(t, d, d.host(t, `{"name": "database", "resource_plan": "starter"}`))
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
	var last answer
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(pollInterval) {
		last = d.must(t, http.StatusOK, http.MethodGet, h.snapshots()+"/"+id, "")
		if last.body["status"] == "ready" {
			return
		}
	}
	t.Fatalf("the snapshot is not ready: %s", last.text)
}

// takeSnapshot takes a snapshot and waits until it is ready.
func (d deployment) takeSnapshot(t *testing.T, h hosted, consistency string) (id string) {
	t.Helper()
	a := d.must(t, http.StatusCreated, http.MethodPost, h.snapshots(), fmt.Sprintf(`{"consistency": %q}`, consistency))
	id, _ = a.body["id"].(string)
	d.awaitSnapshot(t, h, id)
	return id
}

// restore restores a snapshot, when the one before has ended, and returns what the agent found then.
func (d deployment) restore(t *testing.T, h hosted, id string, before databaseState) databaseState {
	t.Helper()
	body := fmt.Sprintf(`{"snapshot_id": %q}`, id)
	pod := d.podUID(t, h.id)
	for end := time.Now().Add(patience); ; time.Sleep(pollInterval) {
		a := d.call(t, d.Ready.APIKey, http.MethodPost, "/api/v1/agents/"+h.id+"/restore", body)
		if a.status == http.StatusOK {
			break
		}
		if time.Until(end) < patience-30*time.Second {
			cl, err := d.cluster.PersistentVolumeClaims("agent-"+h.id).List(t.Context(), metav1.ListOptions{})
			for _, c := range cl.Items {
				t.Log(c.Name, c.DeletionTimestamp, c.Finalizers, c.Status.Phase, err)
			}
			vs, _ := d.cluster.VolumeSnapshots("agent-"+h.id).List(t.Context(), metav1.ListOptions{})
			for _, c := range vs.Items {
				t.Log(c.Name, c.DeletionTimestamp, c.Finalizers, c.Status)
			}
			po, _ := d.cluster.Pods("agent-"+h.id).List(t.Context(), metav1.ListOptions{})
			for _, c := range po.Items {
				t.Log(c.Name, c.DeletionTimestamp, c.Spec.Volumes)
			}
			t.Log(d.must(t, http.StatusOK, http.MethodGet, h.snapshots(), "").text)
			t.Fatal("debug")
		}
		if a.status != http.StatusConflict || time.Now().After(end) {
			t.Fatalf("restore of %s: %d %s", id, a.status, a.text)
		}
	}
	return h.awaitState(t, d, "restored", func(s databaseState) bool {
		return d.podUID(t, h.id) != pod && s.Found != before.Found
	})
}

// checkFound checks that a restored database has all rows up to one that is at least as late as wanted.
func checkFound(t *testing.T, what string, s databaseState, least, most int) {
	t.Helper()
	f := s.Found
	if f.Integrity != "ok" || f.First != 1 || f.Count != f.Last || f.Last < least || f.Last > most {
		t.Errorf("%s has %d rows from %d to %d and integrity %q, want all from 1 to one between %d and %d", what, f.Count,
			f.First, f.Last, f.Integrity, least, most)
	}
}

// testDatabase takes a snapshot in each way under writes and restores it, and then the volume that it replaced.
func testDatabase(t *testing.T, d deployment, h hosted) {
	h.awaitState(t, d, "writing", func(s databaseState) bool { return s.Acknowledged > 100 })
	for _, consistency := range []string{"hook", "stop", "crash"} {
		asked, _ := h.state(t, d)
		began := time.Now()
		id := d.takeSnapshot(t, h, consistency)
		took := time.Since(began)
		later := h.awaitState(t, d, "writing again", func(s databaseState) bool { return s.Acknowledged > asked.Acknowledged+100 })
		began = time.Now()
		restored := d.restore(t, h, id, later)
		back := time.Since(began)
		what := "the snapshot by " + consistency
		checkFound(t, what, restored, asked.Acknowledged, later.Acknowledged)
		checkEqual(t, what+" was cut while the volume was quiet", restored.Found.Quiet, consistency == "hook")
		checkEqual(t, what+" was cut after the agent had ended", restored.Found.Stopped, consistency == "stop")

		kept := d.keptVolume(t, h)
		d.awaitSnapshot(t, h, kept)
		former := d.restore(t, h, kept, restored)
		checkFound(t, "the volume before the restore of "+what, former, later.Acknowledged, 1<<40)
		checkEqual(t, "the agent had ended before its volume was kept", former.Found.Stopped, true)
		t.Logf("by %s: %d rows were acknowledged before, %d are in it; ready after %.1f s, restored in %.1f s", consistency,
			asked.Acknowledged, restored.Found.Last, took.Seconds(), back.Seconds())
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
