package mcp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

// TestTools_WorkOverEveryVersionOfTheProtocol lists the tools and reads an agent with each version that the library
// supports.
func TestTools_WorkOverEveryVersionOfTheProtocol(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			session := s.connect(t, functiontest.AdminToken(org), version)
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("negotiated the version %s, want %s", got, version)
			}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 27 {
				t.Fatalf("got %d tools and the error %v, want 27", len(tools.Tools), err)
			}
			res := want(t, session, "get_agent", map[string]any{"agent_id": a.ID})
			if got := res.structured; got["id"] != a.ID || got["status"] != "running" {
				t.Errorf("get_agent = %v, want the running agent %s", got, a.ID)
			}
			if strings.Contains(res.whole, "handoff") {
				t.Errorf("get_agent has a link that opens the dashboard: %s", res.whole)
			}
		})
	}
}

// TestTools_SayWhatTheyDo holds the promises of the list of tools: schemas, hints and no tool that reveals or pays.
func TestTools_SayWhatTheyDo(t *testing.T) {
	t.Parallel()
	session := start(t).connect(t, functiontest.AdminToken(org), "")
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var destructive, readOnly []string
	for _, tool := range list.Tools {
		if len(tool.Description) < 60 || tool.InputSchema == nil {
			t.Errorf("%s has no full description or schema", tool.Name)
		}
		if changes := strings.Contains(fmt.Sprint(tool.InputSchema), "dry_run"); (tool.OutputSchema != nil) != changes {
			t.Errorf("%s has the output schema %v, want one if it changes something", tool.Name, tool.OutputSchema)
		}
		for _, word := range []string{"reveal", "key", "billing", "credential", "checkout"} {
			if strings.Contains(tool.Name, word) {
				t.Errorf("the tool %s exists, which assistants must not have", tool.Name)
			}
		}
		if hint := tool.Annotations.DestructiveHint; hint != nil && *hint {
			destructive = append(destructive, tool.Name)
		}
		if tool.Annotations.ReadOnlyHint {
			readOnly = append(readOnly, tool.Name)
		}
	}
	slices.Sort(destructive)
	slices.Sort(readOnly)
	if wanted := []string{
		"allow_egress_hosts", "delete_agent", "delete_snapshot", "pause_agent", "restart_agent", "restore_snapshot",
		"run_command", "set_secrets", "sleep_agent", "stop_agent", "take_snapshot", "update_agent",
	}; !slices.Equal(destructive, wanted) {
		t.Errorf("destructive tools = %q, want %q", destructive, wanted)
	}
	if wanted := []string{
		"diagnose_agent", "get_agent", "get_agent_logs", "get_agent_metrics", "get_egress_log", "list_agents",
		"list_images", "list_secret_operations", "list_secrets", "list_snapshots", "wait_for_agent",
	}; !slices.Equal(readOnly, wanted) {
		t.Errorf("tools that only read = %q, want %q", readOnly, wanted)
	}
	i := slices.IndexFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == "create_agent" })
	for _, text := range []string{"hobby", "$49 a month", "402"} {
		if !strings.Contains(list.Tools[i].Description, text) {
			t.Errorf("the description of create_agent lacks %q", text)
		}
	}
}

// TestTools_AreFewWords: a program gives the list of tools to its model in every conversation.
func TestTools_AreFewWords(t *testing.T) {
	t.Parallel()
	list, err := start(t).connect(t, functiontest.AdminToken(org), "").ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(list.Tools)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Tools {
		b, _ := json.Marshal(x)
		t.Logf("%s %d\n%s", x.Name, len(b), b)
	}
	if len(text) > 25_000 {
		t.Errorf("the list of tools has %d bytes, want at most 25,000", len(text))
	}
}

// TestTools_ShowOnlyTheFieldsAskedFor reads one agent and the list with some fields, none, and one that is not there.
func TestTools_ShowOnlyTheFieldsAskedFor(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	first := func(r result) map[string]any {
		agents, _ := r.structured["agents"].([]any)
		one, _ := agents[0].(map[string]any)
		return one
	}
	for _, c := range []struct {
		given map[string]any
		want  []string
	}{
		{given: map[string]any{"fields": []string{"image", "id"}}, want: []string{"id", "image"}},
		{given: map[string]any{}, want: []string{"error", "id", "name", "resource_plan", "status", "status_reason"}},
	} {
		shown := first(want(t, session, "list_agents", c.given))
		if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, c.want) {
			t.Errorf("list_agents with %v shows %q, want %q", c.given, got, c.want)
		}
	}
	got := want(t, session, "get_agent", map[string]any{"agent_id": a.ID, "fields": []string{"status"}}).structured
	if len(got) != 1 || got["status"] != "running" {
		t.Errorf("get_agent shows %v, want the status alone", got)
	}
	wrong := map[string]any{"agent_id": a.ID, "fields": []string{"state"}}
	if got := wantError(t, session, "get_agent", wrong, "invalid_arguments"); !strings.Contains(got.text, "status, ") {
		t.Errorf("the error %q does not say which fields there are", got.text)
	}
}

// TestTools_RefuseUnknownFieldsOfNoAgent: a model must learn of its mistake before the first agent.
func TestTools_RefuseUnknownFieldsOfNoAgent(t *testing.T) {
	t.Parallel()
	session := start(t).connect(t, functiontest.AdminToken(org), "")
	wantError(t, session, "list_agents", map[string]any{"fields": []string{"state"}}, "invalid_arguments")
}

// TestTools_ManageAnAgent takes an agent through its life with tools alone.
func TestTools_ManageAnAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	given := map[string]any{
		"name": "crawler", "resource_plan": "hobby", "env_vars": map[string]any{"MODE": "fast"},
		"idempotency_key": "k1",
	}
	created := want(t, session, "create_agent", given)
	id, _ := created.structured["id"].(string)
	again := want(t, session, "create_agent", given)
	if again.structured["id"] != id {
		t.Errorf("a repeat with the same key created %v, want %s again", again.structured["id"], id)
	}
	s.Reconcile(t, id)
	waited := want(t, session, "wait_for_agent", map[string]any{"agent_id": id, "timeout_seconds": 1})
	if waited.structured["settled"] != true {
		t.Errorf("wait_for_agent = %v, want a settled agent", waited.structured)
	}
	of := map[string]any{"agent_id": id}
	want(t, session, "update_agent", map[string]any{"agent_id": id, "name": "spider"})
	for _, step := range []struct{ tool, status string }{
		{"restart_agent", "running"},
		{"pause_agent", "paused"},
		{"resume_agent", "provisioning"},
		{"sleep_agent", "paused"},
		{"resume_agent", "provisioning"},
		{"stop_agent", "stopped"},
		{"start_agent", "provisioning"},
	} {
		if got := want(t, session, step.tool, of).structured["status"]; got != step.status {
			t.Errorf("after %s the status is %v, want %s", step.tool, got, step.status)
		}
		s.Reconcile(t, id)
	}
	want(t, session, "get_agent_metrics", map[string]any{"agent_id": id, "window": "1h"})
	list := want(t, session, "list_agents", map[string]any{"status": "running"})
	if agents, _ := list.structured["agents"].([]any); len(agents) != 1 {
		t.Errorf("list_agents = %v, want one agent", list.structured)
	}
	wantError(t, session, "delete_agent", map[string]any{"agent_id": id, "name": "crawler"}, "invalid_arguments")
	if s.Agent(t, id).Status != agent.Running {
		t.Fatal("an agent was deleted by a name that it does not have")
	}
	deleted := want(t, session, "delete_agent", map[string]any{"agent_id": id, "name": "spider"}).structured
	if deleted["status"] != "deleting" {
		t.Errorf("delete_agent = %v, want deleting", deleted)
	}
	deleting := want(t, session, "wait_for_agent", map[string]any{"agent_id": id, "timeout_seconds": 1})
	if deleting.structured["settled"] != false || strings.Contains(deleting.text, "wait_for_agent again") {
		t.Errorf("wait_for_agent of an agent that is being deleted: %q, want no further wait", deleting.text)
	}
	s.Reconcile(t, id)
	receipt := s.CallNamed(t, "GetDeletion", functiontest.AsAdmin(org), functiontest.Path("agent_id", id))
	if receipt.Want(t, http.StatusOK, ""); receipt.Text("status") != "deleted" || receipt.Text("receipt") == "" ||
		receipt.Text("requested_by") == "" {
		t.Errorf("the deletion by delete_agent is %s, want a receipt", receipt.Body)
	}
}

// TestTools_ChooseAnImage creates an agent with a version of an image and moves it to the present one.
func TestTools_ChooseAnImage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.PutImages(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	images := want(t, session, "list_images", nil)
	if !strings.Contains(images.whole, "Notes of 2") || strings.Contains(images.whole, backendtest.Registry) {
		t.Errorf("list_images = %s, want notes and no registry", images.whole)
	}
	imageOf := func(r result) map[string]any {
		t.Helper()
		got := want(t, session, "get_agent", map[string]any{"agent_id": r.structured["id"]})
		shown, _ := got.structured["image"].(map[string]any)
		return shown
	}
	created := want(t, session, "create_agent",
		map[string]any{"name": "a", "resource_plan": "starter", "image": "assistant@1"})
	if got := imageOf(created); got["version"] != "1" || got["available_version"] != "2" {
		t.Errorf("image after create_agent = %v, want version 1, and 2 available", got)
	}
	id := created.structured["id"]
	moved := want(t, session, "update_agent", map[string]any{
		"agent_id": id, "image": "assistant", "image_policy": "window", "maintenance_window": map[string]any{
			"days": []string{"sunday"}, "start": "02:30", "hours": 2, "timezone": "UTC",
		},
	})
	window, _ := imageOf(moved)["maintenance_window"].(map[string]any)
	if got := imageOf(moved); got["version"] != "2" || got["policy"] != "window" || window["start"] != "02:30" {
		t.Errorf("image after update_agent = %v, want version 2 with a window", got)
	}
	for version, n := range map[string]int{"1": 0, "2": 1} {
		found := want(t, session, "list_agents", map[string]any{"image": "assistant", "version": version})
		if agents, _ := found.structured["agents"].([]any); len(agents) != n {
			t.Errorf("list_agents of version %s = %v, want %d", version, found.structured, n)
		}
	}
	wantError(t, session, "update_agent", map[string]any{"agent_id": id, "image": "default"}, "image_differs")
}

// TestTools_ChangePublicPaths leaves them, replaces them and removes them.
func TestTools_ChangePublicPaths(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	created := want(t, session, "create_agent",
		map[string]any{"name": "a", "resource_plan": "hobby", "public_paths": []string{"/telegram"}})
	for _, step := range []struct {
		change map[string]any
		want   string
	}{
		{change: map[string]any{"name": "b"}, want: "[/telegram]"},
		{change: map[string]any{"public_paths": []string{"/hooks/"}}, want: "[/hooks/]"},
		{change: map[string]any{"public_paths": []string{}}, want: "[]"},
	} {
		step.change["agent_id"] = created.structured["id"]
		want(t, session, "update_agent", step.change)
		changed := want(t, session, "get_agent", map[string]any{"agent_id": created.structured["id"]})
		if got := fmt.Sprint(changed.structured["public_paths"]); got != step.want {
			t.Errorf("public paths after %v = %s, want %s", step.change, got, step.want)
		}
	}
}

// TestSecrets_NeverAppearInAnswers sets a secret in every form, good and bad, and searches all answers for its value.
func TestSecrets_NeverAppearInAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	const canary = "canary-7431-secret"
	var answers []result
	answers = append(answers,
		want(t, session, "set_secrets", map[string]any{"agent_id": a.ID, "secrets": map[string]any{"TOKEN": canary}}),
		wantError(t, session, "set_secrets",
			map[string]any{"agent_id": a.ID, "secrets": map[string]any{"bad key": canary}}, "validation_error"),
		wantError(t, session, "set_secrets",
			map[string]any{"agent_id": a.ID, "secrets": map[string]any{"TOKEN": []any{canary}}}, "invalid_arguments"),
		wantError(t, session, "set_secrets", map[string]any{"agent_id": a.ID, "secrets": canary}, "invalid_arguments"),
		wantError(t, session, "set_secrets",
			map[string]any{"agent_id": a.ID, "secrets": map[string]any{}, canary: "x"}, "invalid_arguments"),
		wantError(t, session, "create_agent",
			map[string]any{"name": "n", "resource_plan": "hobby", "env_vars": map[string]any{"PORT": canary}},
			"validation_error"),
		want(t, session, "list_secrets", map[string]any{"agent_id": a.ID}),
		want(t, session, "get_agent", map[string]any{"agent_id": a.ID}),
	)
	operations := want(t, session, "list_secret_operations", map[string]any{"agent_id": a.ID})
	list, _ := operations.structured["operations"].([]any)
	if len(list) != 1 {
		t.Fatalf("list_secret_operations = %v, want one", operations.structured)
	}
	operation, _ := list[0].(map[string]any)
	answers = append(answers, operations, want(t, session, "reconcile_secret_operation",
		map[string]any{"agent_id": a.ID, "operation_id": operation["id"]}))
	for _, answer := range answers {
		if strings.Contains(answer.whole, canary) {
			t.Errorf("an answer has the value of a secret: %s", answer.whole)
		}
	}
}

// TestErrors_SayWhatToDoNext checks the errors that an assistant has to act on.
func TestErrors_SayWhatToDoNext(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	admin := s.connect(t, functiontest.AdminToken(org), "")
	member := s.connect(t, functiontest.MemberToken(org), "")
	_, key := s.CreateMemberKey(t, org)
	memberKey := s.connect(t, key, "")
	other := s.connect(t, functiontest.AdminToken("org-2"), "")
	of := map[string]any{"agent_id": a.ID}
	invalid := wantError(t, admin, "create_agent",
		map[string]any{"name": "", "resource_plan": "tiny", "region": "moon-1"}, "validation_error")
	for _, text := range []string{"body.name", "body.resource_plan", `"loc":["body","name"]`, `"entries"`} {
		if !strings.Contains(invalid.text, text) {
			t.Errorf("the error %q lacks %q", invalid.text, text)
		}
	}
	wantError(t, admin, "get_agent", map[string]any{}, "invalid_arguments")
	for _, id := range []any{"", "..", nil} {
		wantError(t, admin, "stop_agent", map[string]any{"agent_id": id}, "invalid_arguments")
	}
	wantError(t, admin, "create_agent",
		map[string]any{"name": "b", "resource_plan": "hobby", "idempotency_key": "a\nb"}, "invalid_arguments")
	want(t, admin, "pause_agent", of)
	conflict := wantError(t, admin, "restart_agent", of, "agent_state_conflict")
	if !strings.Contains(conflict.text, `"allowed_actions":["resume","stop","delete"]`) {
		t.Errorf("the error %q does not say what is allowed", conflict.text)
	}
	for _, name := range []string{"restart_agent", "stop_agent", "pause_agent"} {
		wantError(t, member, name, of, "role_required")
		wantError(t, memberKey, name, of, "role_required")
	}
	want(t, memberKey, "get_agent", of)
	wantError(t, member, "delete_agent", map[string]any{"agent_id": a.ID, "name": "test"}, "role_required")
	wantError(t, member, "get_agent_logs", of, "role_required")
	command := map[string]any{"agent_id": a.ID, "command": []string{"cat"}, "stdin": "hello"}
	wantError(t, member, "run_command", command, "role_required")
	want(t, member, "get_agent", of)
	for _, name := range []string{"get_agent", "restart_agent", "diagnose_agent", "wait_for_agent"} {
		wantError(t, other, name, of, "agent_not_found")
	}
	if s.Agent(t, a.ID).Status != agent.Paused {
		t.Error("a refused call changed the agent")
	}
}

// TestDiagnose_NamesTheCauseAndTheTool breaks an agent and asks why it does not run.
func TestDiagnose_NamesTheCauseAndTheTool(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	s.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		a.Status, a.Failure = agent.Error, &agent.Failure{
			Code: "pod_crash_loop", Stage: agent.StageReady, Message: "The agent exits soon after it starts.",
		}
	})
	for name, token := range map[string]string{
		"admin": functiontest.AdminToken(org), "member": functiontest.MemberToken(org),
	} {
		got := want(t, s.connect(t, token, ""), "diagnose_agent", map[string]any{"agent_id": a.ID})
		for _, text := range []string{"exits soon", "(get_agent_logs)", "(start_agent)", "(set_secrets)"} {
			if !strings.Contains(got.text, text) {
				t.Errorf("%s: the diagnosis %q lacks %q", name, got.text, text)
			}
		}
		if gaps, _ := got.structured["not_checked"].([]any); (len(gaps) > 0) != (name == "member") {
			t.Errorf("%s: not checked = %v, want gaps for members only", name, gaps)
		}
	}
}

// TestAudit_KnowsTheCallerBehindATool reads the audit log of a change that an assistant made.
func TestAudit_KnowsTheCallerBehindATool(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	want(t, s.connect(t, functiontest.AdminToken(org), ""), "pause_agent", map[string]any{"agent_id": a.ID})
	s.SetPlan(t, org, "enterprise")
	var entries []map[string]any
	s.CallNamed(t, "ListAuditLog", functiontest.AsAdmin(org), functiontest.WithGuard(s.Guard),
		functiontest.Query(url.Values{"action": {"PauseAgent"}})).
		Want(t, http.StatusOK, "").Decode(t, &entries)
	if len(entries) != 1 {
		t.Fatalf("%d entries, want one", len(entries))
	}
	e := entries[0]
	program, _ := e["user_agent"].(string)
	if e["ip"] != "203.0.113.7" || e["request_id"] != "req-assistant" || !strings.HasPrefix(program, "assistant/1.0") {
		t.Errorf("entry = %v, want the address, the request and the program of the assistant", e)
	}
}

// TestConfig_KeepsLargeNumbers changes and shows a config with the id of another service, which has more digits than a
// float64.
func TestConfig_KeepsLargeNumbers(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken(org), "")
	id := want(t, session, "create_agent", map[string]any{"name": "a", "resource_plan": "hobby"}).structured["id"]
	want(t, session, "update_agent", map[string]any{
		"agent_id": id, "config": json.RawMessage(`{"channel":1234567890123456789}`),
	})
	const wanted = `"config":{"channel":1234567890123456789}`
	if got := want(t, session, "get_agent", map[string]any{"agent_id": id}); !strings.Contains(got.text, wanted) {
		t.Errorf("get_agent shows %s, want %s", got.text, wanted)
	}
}
