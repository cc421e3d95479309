package mcp_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

// changingTools returns the tools of a session that change something.
func changingTools(t *testing.T, session *mcp.ClientSession) []*mcp.Tool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Tools, func(tool *mcp.Tool) bool {
		return tool.Annotations.ReadOnlyHint || tool.Name == "run_command" // which refuses dry_run
	})
}

// resolve returns a schema as the client received it.
func resolve(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(schema)
	var s jsonschema.Schema
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	resolved, resolveErr := s.Resolve(nil)
	if err != nil || resolveErr != nil {
		t.Fatalf("the schema %s cannot be read: %v, %v", text, err, resolveErr)
	}
	return resolved
}

// TestDryRun_ChangesNothing rehearses every tool that changes something.
func TestDryRun_ChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	sleeper := s.RunningAgent(t, org, nil)
	snapshot := s.snapshot(t, sleeper.ID)
	changed := want(t, session, "set_secrets",
		map[string]any{"agent_id": a.ID, "secrets": map[string]any{"TOKEN": "value"}})
	restricted := s.RunningAgent(t, org, nil)
	want(t, session, "update_agent", map[string]any{"agent_id": restricted.ID, "egress": allowList("a.example")})
	operations, _ := changed.structured["operations"].([]any)
	operation, _ := operations[0].(map[string]any)
	given := map[string]map[string]any{
		"create_agent":               {"name": "second", "resource_plan": "hobby", "idempotency_key": "k1"},
		"update_agent":               {"agent_id": a.ID, "env_vars": map[string]any{"LEVEL": "debug"}},
		"delete_agent":               {"agent_id": a.ID, "name": a.Name},
		"set_secrets":                {"agent_id": a.ID, "secrets": map[string]any{"TOKEN": "another"}},
		"allow_egress_hosts":         {"agent_id": restricted.ID, "hosts": []any{"b.example"}},
		"sleep_agent":                {"agent_id": sleeper.ID},
		"take_snapshot":              {"agent_id": sleeper.ID},
		"restore_snapshot":           {"agent_id": sleeper.ID, "snapshot_id": snapshot},
		"delete_snapshot":            {"agent_id": sleeper.ID, "snapshot_id": snapshot, "name": "Daily snapshot"},
		"reconcile_secret_operation": {"agent_id": a.ID, "operation_id": operation["id"]},
	}
	status := map[string]string{
		"create_agent": "provisioning", "delete_agent": "deleting", "pause_agent": "paused", "sleep_agent": "paused",
		"stop_agent": "stopped", "restore_snapshot": "provisioning",
	}
	before := s.Documents(t)
	for _, tool := range changingTools(t, session) {
		arguments := given[tool.Name]
		if arguments == nil {
			arguments = map[string]any{"agent_id": a.ID}
		}
		arguments["dry_run"] = true
		if err := resolve(t, tool.InputSchema).Validate(arguments); err != nil {
			t.Errorf("%s: the schema refuses the arguments of a rehearsal: %v", tool.Name, err)
		}
		got := want(t, session, tool.Name, arguments)
		if err := resolve(t, tool.OutputSchema).Validate(got.structured); err != nil {
			t.Errorf("%s: the schema refuses the result of a rehearsal: %v", tool.Name, err)
		}
		would, _ := got.structured["would"].(map[string]any)
		wanted := cmp.Or(status[tool.Name], "running")
		if would["status"] != wanted || !strings.HasPrefix(got.text, "Nothing was changed.") {
			t.Errorf("%s: the rehearsal is %s, want one that ends with the status %s", tool.Name, got.whole, wanted)
		}
		if !maps.Equal(before, s.Documents(t)) {
			t.Fatalf("%s: the rehearsal wrote documents", tool.Name)
		}
	}
	created := want(t, session, "create_agent", map[string]any{
		"name": "second", "resource_plan": "hobby", "idempotency_key": "k1",
	})
	if id, _ := created.structured["id"].(string); s.Agent(t, id).Name != "second" {
		t.Errorf("the call after its rehearsal created %v, want the agent", created.structured)
	}
}

// TestDryRun_FailsAsTheRealCall also checks that no value but true and false is understood.
func TestDryRun_FailsAsTheRealCall(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	wantError(t, session, "create_agent", map[string]any{"name": "", "resource_plan": "hobby", "dry_run": true},
		"validation_error")
	wantError(t, session, "delete_agent", map[string]any{"agent_id": a.ID, "name": "x", "dry_run": true},
		"invalid_arguments")
	for _, value := range []any{"true", 1, nil, map[string]any{}} {
		wantError(t, session, "stop_agent", map[string]any{"agent_id": a.ID, "dry_run": value}, "invalid_arguments")
	}
	wantError(t, session, "stop_agent", map[string]any{"agent_id": a.ID, "DRY_RUN": true}, "invalid_arguments")
	wantError(t, session, "get_agent", map[string]any{"agent_id": a.ID, "dry_run": true}, "invalid_arguments")
	wantError(t, session, "run_command", map[string]any{"agent_id": a.ID, "command": []string{"ls"}, "dry_run": true},
		"invalid_arguments")
	if ran := s.Containers.Opened(); len(ran) > 0 {
		t.Errorf("the refused rehearsal ran %v", ran)
	}
	if got := s.Agent(t, a.ID).Status; got != agent.Running {
		t.Errorf("the agent is %s, want running", got)
	}
	want(t, session, "stop_agent", map[string]any{"agent_id": a.ID, "dry_run": false})
	if got := s.Agent(t, a.ID).Status; got != agent.Stopped {
		t.Errorf("with dry_run false, the agent is %s, want stopped", got)
	}
}
