package agents_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/plan"
)

// snapshotScene is an agent of org-1 on a plan that keeps five snapshots.
type snapshotScene struct {
	*backendtest.Backend
	id string
}

func newSnapshotScene(t *testing.T, env map[string]string) *snapshotScene {
	t.Helper()
	b := newRoomyBackend(t)
	return &snapshotScene{b, b.RunningAgent(t, "org-1", env).ID}
}

// call calls a route about the agent as an admin.
func (s *snapshotScene) call(t *testing.T, route, body string, more ...functiontest.Option) functiontest.Response {
	t.Helper()
	if body != "" {
		more = append(more, functiontest.RawBody(body))
	}
	return callAgent(t, s.Backend, s.id, route, more...)
}

// take takes a snapshot that does not stop the agent, and returns its id once it is ready.
func (s *snapshotScene) take(t *testing.T) string {
	t.Helper()
	id := s.call(t, "TakeSnapshot", `{"consistency":"crash"}`).Want(t, http.StatusCreated, "").Text("id")
	s.Reconcile(t, s.id)
	if got := s.get(t, id).Text("status"); got != "ready" {
		t.Fatalf("the snapshot is %s, want ready", got)
	}
	return id
}

func (s *snapshotScene) get(t *testing.T, id string) functiontest.Response {
	t.Helper()
	return s.call(t, "GetSnapshot", "", functiontest.Path("snapshot_id", id))
}

// events are the types of the agent's events that begin with a prefix, the oldest first, with their data.
func (s *snapshotScene) events(t *testing.T, prefixes ...string) []string {
	t.Helper()
	found, err := s.Events.List(t.Context(), "org-1", event.Filter{AgentID: s.id}, "", 100)
	must(t, err)
	var texts []string
	for _, e := range found.Events {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(string(e.Type), p) }) {
			texts = append(texts, string(e.Type)+" "+string(e.Data))
		}
	}
	return texts
}

// changes are the changes in the newest audit entry of a route.
func (s *snapshotScene) changes(t *testing.T, route string) string {
	t.Helper()
	var entries []struct {
		Changes json.RawMessage `json:"changes"`
	}
	s.CallNamed(t, "ListAuditLog", functiontest.AsAdmin("org-1"), functiontest.WithGuard(s.Guard),
		functiontest.Query(url.Values{"action": {route}})).Want(t, http.StatusOK, "").Decode(t, &entries)
	if len(entries) == 0 {
		t.Fatalf("the audit log has no %s", route)
	}
	return string(entries[0].Changes)
}

func TestSnapshots_AreTakenListedAndDeleted(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	s.UpdateAgent(t, s.id, func(a *agent.Agent) { a.Plan = plan.Business })
	taken := s.call(t, "TakeSnapshot", `{"name":"  by hand "}`, functiontest.WithGuard(s.Guard)).
		Want(t, http.StatusCreated, "")
	first := taken.Text("id")
	if want := "/api/v1/agents/" + s.id + "/snapshots/" + first; taken.Header.Get("Location") != want ||
		taken.Text("name") != "by hand" || taken.Text("status") != "pending" || taken.Text("cause") != "user" ||
		taken.Text("consistency") != "stop" || taken.Text("agent_id") != s.id || taken.JSON["size_bytes"] != nil {
		t.Errorf("taken: %v %s, want a pending snapshot at %s", taken.Header, taken.Body, want)
	}
	if got := s.changes(t, "TakeSnapshot"); !strings.Contains(got, `"snapshots.`+first+`"`) || !strings.Contains(got, `"set"`) {
		t.Errorf("the audit entry has %s", got)
	}
	s.call(t, "TakeSnapshot", `{}`).Want(t, http.StatusConflict, "snapshot_in_progress")
	s.Reconcile(t, s.id)
	ready := s.get(t, first).Want(t, http.StatusOK, "")
	if ready.Text("status") != "ready" || ready.JSON["size_bytes"] != float64(1<<30) || ready.Text("taken_at") == "" {
		t.Errorf("after the worker: %s", ready.Body)
	}
	second := s.take(t)
	var listed []agent.SnapshotView
	s.CallNamed(t, "ListSnapshots", functiontest.AsMember("org-1"), functiontest.Path("agent_id", s.id)).
		Want(t, http.StatusOK, "").Decode(t, &listed)
	if len(listed) != 2 || listed[0].ID != second || listed[1].ID != first {
		t.Errorf("listed %+v, want both, the newest first", listed)
	}
	named := functiontest.Path("snapshot_id", first)
	deleted := s.call(t, "DeleteSnapshot", "", named, functiontest.WithGuard(s.Guard)).Want(t, http.StatusAccepted, "")
	if deleted.Text("status") != "deleting" {
		t.Errorf("deleted: %s", deleted.Body)
	}
	if got := s.changes(t, "DeleteSnapshot"); !strings.Contains(got, `"removed"`) {
		t.Errorf("the audit entry of the deletion has %s", got)
	}
	s.call(t, "DeleteSnapshot", "", named).Want(t, http.StatusAccepted, "")
	s.Reconcile(t, s.id)
	s.get(t, first).Want(t, http.StatusNotFound, "snapshot_not_found")
	s.call(t, "DeleteSnapshot", "", named).Want(t, http.StatusNotFound, "snapshot_not_found")
	data := func(id, name, rest string) string {
		return fmt.Sprintf(`{"snapshot_id":%q,"name":%q,"cause":"user",%s}`, id, name, rest)
	}
	want := []string{
		"snapshot.ready " + data(first, "by hand", `"size_bytes":1073741824,"problem":null`),
		"snapshot.ready " + data(second, "Snapshot", `"size_bytes":1073741824,"problem":null`),
		"snapshot.deleted " + data(first, "by hand", `"size_bytes":null,"problem":null`),
	}
	if got := s.events(t, "snapshot."); !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSnapshots_RefuseWhatTheyCannotDo(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	for body, code := range map[string]string{
		`{"name":""}`: "validation_error", `{"name":"` + strings.Repeat("x", 121) + `"}`: "validation_error",
		`{"consistency":"good"}`: "validation_error",
	} {
		s.call(t, "TakeSnapshot", body).Want(t, http.StatusUnprocessableEntity, code)
	}
	s.call(t, "TakeSnapshot", `{"consistency":"hook"}`).Want(t, http.StatusConflict, "hook_missing")
	id := s.take(t)
	for _, member := range []functiontest.Option{functiontest.AsMember("org-1"), functiontest.AsAdmin("org-2")} {
		for route, body := range map[string]string{
			"TakeSnapshot": `{}`, "DeleteSnapshot": "", "RestoreAgent": `{"snapshot_id":"` + id + `"}`,
		} {
			res := s.call(t, route, body, functiontest.Path("snapshot_id", id), member)
			if res.Status != http.StatusForbidden && res.Code() != "agent_not_found" {
				t.Errorf("%s: %d %s, want a refusal", route, res.Status, res.Body)
			}
		}
	}
	limited := s.call(t, "TakeSnapshot", `{}`).Want(t, http.StatusPaymentRequired, "plan_capacity_exceeded")
	if meta, _ := limited.JSON["meta"].(map[string]any); meta["limit"] != "snapshots" || meta["max"] != 1.0 ||
		meta["upgrade_to"] != "starter" {
		t.Errorf("beyond the plan: %s", limited.Body)
	}
	s.call(t, "GetSnapshot", "", functiontest.Path("snapshot_id", "x")).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
	if got := len(s.Agent(t, s.id).Snapshots); got != 1 {
		t.Errorf("after the refusals there are %d snapshots, want 1", got)
	}
}

// TestTakeSnapshot_RepeatAnswersWithItsOwnSnapshot repeats a call between two others that take a snapshot.
func TestTakeSnapshot_RepeatAnswersWithItsOwnSnapshot(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	s.UpdateAgent(t, s.id, func(a *agent.Agent) { a.Plan = plan.Business })
	earlier := s.take(t)
	key := functiontest.Header("Idempotency-Key", "k")
	first := s.call(t, "TakeSnapshot", `{"consistency":"crash"}`, key).Want(t, http.StatusCreated, "")
	s.Reconcile(t, s.id)
	s.take(t)
	repeat := s.call(t, "TakeSnapshot", `{"consistency":"crash"}`, key).Want(t, http.StatusCreated, "")
	if repeat.Text("id") != first.Text("id") || first.Text("id") == earlier || len(s.Agent(t, s.id).Snapshots) != 3 {
		t.Errorf("the repeat answers with %s, want the snapshot %s", repeat.Body, first.Text("id"))
	}
}

func TestRestore_ReplacesTheData(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	id := s.take(t)
	body := `{"snapshot_id":"` + id + `"}`
	s.call(t, "RestoreAgent", body, functiontest.Header("If-Match", `"another"`)).
		Want(t, http.StatusPreconditionFailed, "version_mismatch")
	other := s.RunningAgent(t, "org-1", nil).ID
	callAgent(t, s.Backend, other, "RestoreAgent", functiontest.RawBody(body)).
		Want(t, http.StatusNotFound, "snapshot_not_found")
	rehearsal := s.call(t, "RestoreAgent", body, dryRun()).
		Want(t, http.StatusOK, "")
	would, _ := rehearsal.JSON["would"].(map[string]any)
	if would["loses_data_since"] != s.get(t, id).Text("taken_at") || would["restarts"] != true ||
		would["downtime_seconds_estimate"] != nil {
		t.Errorf("the rehearsal says %s", rehearsal.Body)
	}
	restored := s.call(t, "RestoreAgent", body, functiontest.WithGuard(s.Guard)).Want(t, http.StatusOK, "")
	if restored.Text("status") != "provisioning" || restored.Header.Get("ETag") == "" {
		t.Errorf("restored: %v %s", restored.Header, restored.Body)
	}
	if got := s.changes(t, "RestoreAgent"); !strings.Contains(got, `"volume"`) ||
		!strings.Contains(got, `"old":"Before the restore of Snapshot"`) || !strings.Contains(got, `"new":"Snapshot"`) {
		t.Errorf("the audit entry has %s, want what was replaced by what", got)
	}
	s.call(t, "DeleteSnapshot", "", functiontest.Path("snapshot_id", id)).
		Want(t, http.StatusConflict, "snapshot_in_use")
	s.Reconcile(t, s.id)
	want := []string{fmt.Sprintf(`agent.restored {"snapshot_id":%q,"name":"Snapshot"}`, id)}
	if got := s.events(t, "agent.restored"); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	a := s.Agent(t, s.id)
	if a.Status != agent.Running || a.Volume.Number != 1 || a.Volume.Source.SnapshotID != id {
		t.Errorf("the agent is %s with the volume %+v, want one of the snapshot", a.Status, a.Volume)
	}
	s.call(t, "DeleteSnapshot", "", functiontest.Path("snapshot_id", id)).Want(t, http.StatusAccepted, "")
}

func TestUsage_HasTheBytesOfSnapshots(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	bytes := func() (used, limit any) {
		shown := s.CallNamed(t, "GetCurrentOrganization", functiontest.AsMember("org-1")).Want(t, http.StatusOK, "")
		usage, _ := shown.JSON["usage"].(map[string]any)
		limits, _ := shown.JSON["limits"].(map[string]any)
		return usage["snapshot_bytes"], limits["snapshot_bytes"]
	}
	if used, limit := bytes(); used != 0.0 || limit != nil {
		t.Errorf("before: %v of %v, want 0 without a limit", used, limit)
	}
	id := s.take(t)
	if used, _ := bytes(); used != float64(1<<30) {
		t.Errorf("with a snapshot: %v, want its size", used)
	}
	if drift, found, err := s.Counts.Recount(t.Context(), "org-1"); found || err != nil {
		t.Errorf("a recount finds %+v, %v", drift, err)
	}
	s.call(t, "DeleteSnapshot", "", functiontest.Path("snapshot_id", id)).Want(t, http.StatusAccepted, "")
	if used, _ := bytes(); used != 0.0 {
		t.Errorf("without it: %v, want 0", used)
	}
}
