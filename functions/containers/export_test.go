package containers_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/dataplane"
)

// withSnapshot gives the agent a snapshot that is ready, and returns its id.
func (f *fixture) withSnapshot(t *testing.T) string {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) {
		wish := agent.SnapshotRequest{Name: "by hand", Consistency: agent.ConsistentAfterCrash}
		s, err := a.RequestSnapshot(wish, now)
		if err != nil {
			t.Error(err)
		}
		a.RecordSnapshot(s.ID, agent.SnapshotState{CutAt: now, Handle: "h", Ready: true, SizeBytes: 1 << 30}, now)
	})
	return f.Agent(t, f.agent.ID).Snapshots[0].ID
}

func (f *fixture) export(t *testing.T, snapshot string) functiontest.Response {
	t.Helper()
	return f.call(t, "ExportSnapshot", functiontest.Path("snapshot_id", snapshot))
}

// TestExport_ReadsACopyOfTheSnapshot exports a snapshot of an agent that is stopped.
func TestExport_ReadsACopyOfTheSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	f.CallNamed(t, "StopAgent", functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID)).
		Want(t, http.StatusOK, "")
	var held agent.Reader
	f.Containers.Install(dataplane.FrontCommand, func(_ context.Context, p *agentexectest.Process) int {
		held = f.Agent(t, f.agent.ID).Reader
		_, _ = io.Copy(p.Stdout, p.Stdin)
		_, _ = io.WriteString(p.Stderr, "never shown")
		return 0
	})
	got := f.export(t, snapshot).Want(t, http.StatusOK, "")
	if opened := f.Containers.Opened(); len(opened) != 1 || !opened[0].Reader ||
		strings.Join(opened[0].Args, " ") != "/ko-app/front export" {
		t.Errorf("the commands %+v, want one in the reader", opened)
	}
	if held.SnapshotID != snapshot || held.Holder == "" || !held.Until.After(time.Now()) {
		t.Errorf("the reader while it is read: %+v", held)
	}
	if left := f.Agent(t, f.agent.ID).Reader; left.Holder != "" || left.Until.After(time.Now()) {
		t.Errorf("the reader after the export: %+v, want that it is taken away", left)
	}
	var manifest struct {
		Format   string
		Agent    struct{ Name string }
		Snapshot struct{ ID string }
	}
	if err := json.Unmarshal(got.Body, &manifest); err != nil || manifest.Format != "agents.example/volume" ||
		manifest.Agent.Name != f.agent.Name || manifest.Snapshot.ID != snapshot {
		t.Errorf("the manifest %s: %v", got.Body, err)
	}
	entries := f.entries(t, "ExportSnapshot")
	if len(entries) != 1 || entries[0].Outcome != audit.Succeeded || facts(entries[0])["snapshot_id"] != snapshot ||
		facts(entries[0])["output_bytes"] == "0" {
		t.Errorf("the audit entries: %+v", entries)
	}
}

// TestExport_BreaksOffWhatIsNotComplete ends the program of an export, with and without output.
func TestExport_BreaksOffWhatIsNotComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	f.Containers.Install(dataplane.FrontCommand, func(context.Context, *agentexectest.Process) int { return 1 })
	f.export(t, snapshot).Want(t, http.StatusServiceUnavailable, "export_failed")
	if r := f.Agent(t, f.agent.ID).Reader; r.Holder != "" || !r.Until.After(time.Now()) {
		t.Errorf("the reader after a failure: %+v, want that it waits for a repeat", r)
	}
	f.Containers.Install(dataplane.FrontCommand, func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.WriteString(p.Stdout, strings.Repeat("x", 64<<10))
		return 1
	})
	url := strings.ReplaceAll(f.serve(t, "ExportSnapshot"), "{snapshot_id}", snapshot)
	if _, text, err := ask(t, http.MethodGet, url, http.NoBody); err == nil {
		t.Errorf("an export that broke off ends normally after %d bytes", len(text))
	}
}

// TestExport_EndsWithTwiceTheVolume: a sparse file of a terabyte fits into a small volume, and its export would cost
// what the customer pays in months.
func TestExport_EndsWithTwiceTheVolume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	const size = 1 << 20
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Snapshots[0].SizeBytes = size })
	f.Containers.Install(dataplane.FrontCommand, func(_ context.Context, p *agentexectest.Process) int {
		hole := strings.Repeat("x", 64<<10)
		for range 1024 {
			if _, err := io.WriteString(p.Stdout, hole); err != nil {
				return 1
			}
		}
		return 0
	})
	url := strings.ReplaceAll(f.serve(t, "ExportSnapshot"), "{snapshot_id}", snapshot)
	_, text, err := ask(t, http.MethodGet, url, http.NoBody)
	if err == nil || len(text) > 2*size {
		t.Errorf("an archive of 64 times the volume: %d bytes, %v; want at most %d and a broken connection",
			len(text), err, 2*size)
	}
	f.Containers.Install(dataplane.FrontCommand, func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.WriteString(p.Stdout, strings.Repeat("x", 2*size))
		return 0
	})
	for _, known := range []int64{size, 0} { // 0: storage did not tell the size
		f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) {
			a.Snapshots[0].SizeBytes, a.Reader = known, agent.Reader{}
		})
		if got := f.export(t, snapshot).Want(t, http.StatusOK, ""); len(got.Body) != 2*size {
			t.Errorf("an archive of twice the volume has %d bytes, want %d", len(got.Body), 2*size)
		}
	}
}

// TestExport_WaitsForTheReader starts the reader a moment after the call.
func TestExport_WaitsForTheReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	f.Containers.Fail(agentexec.NotRunning())
	time.AfterFunc(100*time.Millisecond, func() { f.Containers.Fail(nil) })
	f.export(t, snapshot).Want(t, http.StatusOK, "")
}

// TestExport_TakesNoReaderForItsHeader: nothing would release it.
func TestExport_TakesNoReaderForItsHeader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	url := strings.ReplaceAll(f.serve(t, "ExportSnapshot"), "{snapshot_id}", snapshot)
	if status, _, err := ask(t, http.MethodHead, url, http.NoBody); err != nil || status != http.StatusOK {
		t.Errorf("HEAD got %d, %v", status, err)
	}
	f.export(t, snapshot).Want(t, http.StatusOK, "")
}

// deafNudger takes no nudges.
type deafNudger struct{}

func (deafNudger) Nudge(context.Context, string) error { return io.ErrClosedPipe }

// TestExport_NeedsNoNudge: the sweep makes up for it.
func TestExport_NeedsNoNudge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	f.Nudger = deafNudger{}
	f.export(t, snapshot).Want(t, http.StatusOK, "")
}

// broken is a port with a defect.
type broken struct{}

func (broken) Open(context.Context, agent.Agent, agentexec.Command) (agentexec.Stream, error) {
	panic("a defect")
}

// TestExport_ReleasesTheReaderAfterAPanic: no other export of the agent waits until its time ends.
func TestExport_ReleasesTheReaderAfterAPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	commands := f.Commands
	f.Commands = broken{}
	f.export(t, snapshot).Want(t, http.StatusInternalServerError, "internal_error")
	if r := f.Agent(t, f.agent.ID).Reader; r.SnapshotID != snapshot || r.Holder != "" {
		t.Errorf("the reader after a panic: %+v, want that it waits for a repeat", r)
	}
	f.Commands = commands
	f.Containers.Install(dataplane.FrontCommand, func(context.Context, *agentexectest.Process) int { return 0 })
	f.export(t, snapshot).Want(t, http.StatusOK, "")
}

// TestExport_IsBoundedByItsOrganization exports a volume of 1,500 GiB, of which a day has 2,000. What sends no byte is
// free.
func TestExport_IsBoundedByItsOrganization(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Snapshots[0].SizeBytes = 1500 << 30 })
	next := func(status agent.SnapshotStatus) {
		f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Snapshots[0].Status, a.Reader = status, agent.Reader{} })
	}
	spent := func() bool {
		o, err := f.Directory.Organization(t.Context(), org)
		if err != nil {
			t.Fatal(err)
		}
		return !o.ExportsFullAt.IsZero()
	}
	next(agent.SnapshotPending)
	f.export(t, snapshot).Want(t, http.StatusConflict, "snapshot_not_ready")
	next(agent.SnapshotReady)
	url := strings.ReplaceAll(f.serve(t, "ExportSnapshot"), "{snapshot_id}", snapshot)
	if status, _, err := ask(t, http.MethodHead, url, http.NoBody); status != http.StatusOK || spent() {
		t.Errorf("HEAD got %d, %v; it counts as an export: %t", status, err, spent())
	}
	f.Containers.Install(dataplane.FrontCommand, func(context.Context, *agentexectest.Process) int { return 1 })
	f.export(t, snapshot).Want(t, http.StatusServiceUnavailable, "export_failed")
	f.Containers.Install(dataplane.FrontCommand, func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.WriteString(p.Stdout, "x")
		return 0
	})
	f.export(t, snapshot).Want(t, http.StatusOK, "")
	if !spent() {
		t.Error("an export does not count")
	}
	next(agent.SnapshotReady)
	refused := f.export(t, snapshot).Want(t, http.StatusTooManyRequests, "rate_limited")
	if h := refused.Header; h.Get("Retry-After") == "" || h.Get("RateLimit-Policy") != `"exports";q=2000;w=86400` ||
		!strings.HasPrefix(h.Get("RateLimit"), `"exports";r=0;t=`) {
		t.Errorf("the headers of the refusal: %v", h)
	}
	if !strings.Contains(refused.Text("detail"), " 2000 GiB in 86400 s") {
		t.Errorf("the refusal says %q, want its unit", refused.Text("detail"))
	}
	if r := f.Agent(t, f.agent.ID).Reader; r.SnapshotID != "" {
		t.Errorf("a refused export has the reader %+v", r)
	}
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Snapshots[0].SizeBytes = 400 << 30 })
	f.export(t, snapshot).Want(t, http.StatusOK, "")
}

func TestExport_IsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	snapshot := f.withSnapshot(t)
	owner, _, _ := strings.Cut(snapshot, "-")
	f.export(t, owner+"-aaaaaaaa").Want(t, http.StatusNotFound, "snapshot_not_found")
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) {
		if err := a.HoldReader(snapshot, "another call", time.Now().UTC()); err != nil {
			t.Error(err)
		}
	})
	if got := f.export(t, snapshot).Want(t, http.StatusConflict, "export_in_progress"); got.Header.Get(
		"Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	f.CallNamed(t, "DeleteSnapshot", functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID),
		functiontest.Path("snapshot_id", snapshot)).Want(t, http.StatusConflict, "snapshot_in_use")
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.RefuseReader("It is gone.", time.Now().UTC()) })
	refused := f.export(t, snapshot).Want(t, http.StatusConflict, "snapshot_not_exportable")
	if got := refused.Text("detail"); got != "It is gone." {
		t.Errorf("the refusal says %q, want why", got)
	}
}
