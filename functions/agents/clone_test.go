package agents_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// clone asks for an agent that begins with a snapshot. more are further members of the body.
func (s *snapshotScene) clone(t *testing.T, id, more string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	body := fmt.Sprintf(`{"name":"copy","resource_plan":"starter","from_snapshot":%q%s}`, id, more)
	return s.CallNamed(t, "CreateAgent", append([]functiontest.Option{
		functiontest.AsAdmin("org-1"), functiontest.RawBody(body),
	}, options...)...)
}

// furnish gives the agent of the scene something in every field that a clone takes, and much that it must not.
func (s *snapshotScene) furnish(t *testing.T) {
	t.Helper()
	s.call(t, "UpdateAgent", `{"config":{"team":"support"},"env_vars":{"LEVEL":"debug"},"public_paths":["/hooks/"],
		"files":[{"path":"/data/prompt.md","content":"text"},{"path":"/config/key","secret":"OPENAI_API_KEY"}],
		"sleep":{"after_seconds":7200},"schedules":[{"id":"daily","cron":"0 9 * * *","path":"/v1/run","body":"go"}]}`).
		Want(t, http.StatusOK, "")
	s.Reconcile(t, s.id)
}

func TestClone_BeginsWithWhatItsSourceHas(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, map[string]string{"OPENAI_API_KEY": "the-value"})
	s.furnish(t)
	id := s.take(t)
	source := s.call(t, "GetAgent", "")
	created := s.clone(t, id, "").Want(t, http.StatusCreated, "")
	for field, want := range map[string]any{
		"clone_of":      map[string]any{"agent_id": s.id, "snapshot_id": id},
		"unset_secrets": []any{"OPENAI_API_KEY"}, "env_vars": map[string]any{"LEVEL": "configured"},
		"public_paths": []any{}, "sleep": source.JSON["sleep"], "region": source.Text("region"),
	} {
		if got := created.JSON[field]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, want %v", field, got, want)
		}
	}
	config, _ := created.JSON["config"].(map[string]any)
	if got := schedulesOf(t, created); len(got) != 1 || got[0].Enabled || got[0].NextAt != nil ||
		config["team"] != "support" {
		t.Errorf("schedules %+v and config %v, want those of the source, disabled", got, config)
	}
	files, _ := created.JSON["files"].([]any)
	if file, _ := files[0].(map[string]any); len(files) != 1 || file["path"] != "/data/prompt.md" {
		t.Errorf("files = %v, want the one without a secret", files)
	}
	if imageOf(t, created).ID != imageOf(t, source).ID || imageOf(t, created).Version != imageOf(t, source).Version {
		t.Errorf("the image is %+v, want that of the source", imageOf(t, created))
	}
	s.Reconcile(t, created.Text("id"))
	a, former := s.Agent(t, created.Text("id")), s.Agent(t, s.id)
	if a.Status != agent.Running || a.Volume.Unmade || !a.Volume.Foreign(a.ID) || a.Volume.Source.Handle == "" {
		t.Errorf("after the worker it is %s with the volume %+v", a.Status, a.Volume)
	}
	d := s.Addresses
	if a.Hostname(d) == former.Hostname(d) || a.APIKeyHash == former.APIKeyHash || a.Namespace() == former.Namespace() {
		t.Error("it shares an address, a credential or a namespace with its source")
	}
	callAgent(t, s.Backend, a.ID, "PutSecrets", functiontest.RawBody(`{"secrets":{"OPENAI_API_KEY":"another"}}`)).
		Want(t, http.StatusAccepted, "")
	shown := callAgent(t, s.Backend, a.ID, "GetAgent")
	if got := shown.JSON["unset_secrets"]; !reflect.DeepEqual(got, []any{}) {
		t.Errorf("once the secret is set, it lacks %v", got)
	}
	s.Reconcile(t, a.ID)
	if got := s.Agent(t, a.ID).UnsetSecrets; len(got) != 0 {
		t.Errorf("once the secret is set, the record lacks %v", got)
	}
}

func TestClone_TakesWhatItsRequestHas(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, map[string]string{"OPENAI_API_KEY": "the-value"})
	s.furnish(t)
	created := s.clone(t, s.take(t), `,"config":{},"files":[{"path":"/data/own","content":"x"}],"schedules":[],
		"env_vars":{"OWN":"1","OPENAI_API_KEY":"another"},"public_paths":["/own"],"sleep":{"after_seconds":null}`).
		Want(t, http.StatusCreated, "")
	config, _ := created.JSON["config"].(map[string]any)
	sleep, _ := created.JSON["sleep"].(map[string]any)
	for what, got := range map[string]any{
		"config": config["team"], "after_seconds": sleep["after_seconds"],
	} {
		if got != nil {
			t.Errorf("%s = %v, want none", what, got)
		}
	}
	for field, want := range map[string]any{
		"unset_secrets": []any{}, "schedules": []any{}, "public_paths": []any{"/own"},
		"env_vars": map[string]any{"LEVEL": "configured", "OWN": "configured", "OPENAI_API_KEY": "gsm"},
	} {
		if got := created.JSON[field]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, want %v", field, got, want)
		}
	}
	member := s.CallNamed(t, "GetAgent", functiontest.AsMember("org-1"),
		functiontest.Path("agent_id", s.clone(t, s.Agent(t, s.id).Snapshots[0].ID, "").Text("id")))
	if got := member.JSON["unset_secrets"]; !reflect.DeepEqual(got, []any{}) {
		t.Errorf("a member sees %v, want no names", got)
	}
}

// TestClone_IsOfTheOrganizationsOwnSnapshots tries snapshots that the caller must not learn of.
func TestClone_IsOfTheOrganizationsOwnSnapshots(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	id := s.take(t)
	foreign := s.clone(t, id, "", functiontest.AsAdmin("org-2")).
		Want(t, http.StatusUnprocessableEntity, "validation_error")
	if !strings.Contains(string(foreign.Body), `["body","from_snapshot"]`) {
		t.Errorf("another organization's snapshot: %s", foreign.Body)
	}
	unknown := s.clone(t, "aaaaaaaaabaabaaaaaaaaaaaaa-aaaaaaaa", "").
		Want(t, http.StatusUnprocessableEntity, "validation_error")
	for _, res := range []functiontest.Response{foreign, unknown} {
		delete(res.JSON, "request_id")
	}
	if !reflect.DeepEqual(foreign.JSON, unknown.JSON) {
		t.Errorf("another organization's snapshot is refused as %v, an unknown one as %v", foreign.JSON, unknown.JSON)
	}
	for _, bad := range []string{"", "x", s.id, strings.ToUpper(id)} {
		s.clone(t, bad, "").Want(t, http.StatusUnprocessableEntity, "validation_error")
	}
}

func TestClone_IsRefusedWithoutRoomOrData(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	id := s.take(t)
	set := func(change func(*agent.Snapshot)) {
		s.UpdateAgent(t, s.id, func(a *agent.Agent) { change(&a.Snapshots[0]) })
	}
	set(func(s *agent.Snapshot) { s.SizeBytes = 10<<30 + 1 })
	s.clone(t, id, "").Want(t, http.StatusConflict, "snapshot_too_large")
	set(func(s *agent.Snapshot) { s.SizeBytes, s.Status = 10<<30, agent.SnapshotPending })
	s.clone(t, id, "").Want(t, http.StatusConflict, "snapshot_not_ready")
	set(func(s *agent.Snapshot) { s.Status = agent.SnapshotReady })
	s.SetPlan(t, "org-1", plan.Hobby)
	s.clone(t, id, "").Want(t, http.StatusPaymentRequired, "plan_capacity_exceeded")
	s.SetPlan(t, "org-1", plan.Enterprise)
	s.clone(t, id, "").Want(t, http.StatusCreated, "")
}

// TestClone_RepeatNeedsNoSnapshot repeats a creation whose snapshot is gone.
func TestClone_RepeatNeedsNoSnapshot(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, map[string]string{"OPENAI_API_KEY": "the-value"})
	id := s.take(t)
	options := []functiontest.Option{functiontest.Header("Idempotency-Key", "k"), functiontest.WithGuard(s.Guard)}
	before := s.Documents(t)
	dry := s.clone(t, id, "", dryRun()).Want(t, http.StatusOK, "")
	shown, _ := dry.JSON["agent"].(map[string]any)
	if !reflect.DeepEqual(s.Documents(t), before) || shown["clone_of"] == nil {
		t.Errorf("a rehearsal answers %s, and must write nothing", dry.Body)
	}
	first := s.clone(t, id, "", options...).Want(t, http.StatusCreated, "")
	s.call(t, "DeleteSnapshot", "", functiontest.Path("snapshot_id", id)).Want(t, http.StatusAccepted, "")
	s.Reconcile(t, s.id)
	repeat := s.clone(t, id, "", options...).Want(t, http.StatusCreated, "")
	if string(repeat.Body) != string(first.Body) {
		t.Errorf("the repeat answers %s, want %s", repeat.Body, first.Body)
	}
	s.clone(t, id, "").Want(t, http.StatusUnprocessableEntity, "validation_error")
}

// TestClone_TakesTheDefaultVersionIfThatOfItsSourceIsWithdrawn withdraws a version.
func TestClone_TakesTheDefaultVersionIfThatOfItsSourceIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := newSnapshotScene(t, nil)
	assistant := s.PutImages(t)
	id := createWith(t, s.Backend, plan.Starter, "assistant@1").Want(t, http.StatusCreated, "").Text("id")
	s.id = id
	s.Reconcile(t, id)
	snapshot := s.take(t)
	if got := imageOf(t, s.clone(t, snapshot, "").Want(t, http.StatusCreated, "")).Version; got != "1" {
		t.Errorf("a clone has version %s, want that of its source", got)
	}
	i := slices.IndexFunc(assistant.Versions, func(v image.Version) bool { return v.Version == "1" })
	assistant.Versions[i].State = image.Withdrawn
	must(t, errorOf(s.ReleaseImages.Put(t.Context(), assistant)))
	if got := imageOf(t, s.clone(t, snapshot, "").Want(t, http.StatusCreated, "")).Version; got != "2" {
		t.Errorf("a clone of a withdrawn version has version %s, want the default one", got)
	}
}
