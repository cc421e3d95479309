package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions/generate/codesample"
)

// pythonOf returns a generated file for operations and schemas.
func pythonOf(t *testing.T, name, paths, schemas string, excluded ...string) string {
	t.Helper()
	files, err := python([]byte(`{"paths": `+paths+`, "components": {"schemas": `+schemas+`, "parameters": {
		"Idempotency-Key": {"name": "Idempotency-Key", "in": "header"},
		"dry_run": {"name": "dry_run", "in": "query"}}}}`), excluded)
	if err != nil {
		t.Fatal(err)
	}
	return string(files[name])
}

const answersWithThing = `{"/things": {"get": {"operationId": "GetThing", "summary": "Get a thing", "responses": {"200":
	{"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}}}}`

func TestPython_HasATypeForEachSchema(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ given, want string }{
		"fields keep their order, and optional ones may be None": {
			given: `{"Thing": {"type": "object", "description": "A thing.", "required": ["b"], "properties": {
				"b": {"type": ["string", "null"], "description": "The b."}, "a": {"type": "integer"}}}}`,
			want: "class Thing(Model):\n    \"\"\"A thing.\"\"\"\n\n" +
				"    b: str | None\n    \"\"\"The b.\"\"\"\n    a: int | None\n\n" +
				"    _fields = {\n        \"b\": None,\n        \"a\": None,\n    }\n",
		},
		"parts are decoded, after their classes": {
			given: `{"Thing": {"type": "object", "required": ["a", "l", "m", "t"], "properties": {
				"a": {"anyOf": [{"$ref": "#/components/schemas/Zebra"}, {"type": "null"}]},
				"l": {"type": "array", "items": {"$ref": "#/components/schemas/Zebra"}},
				"m": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Zebra"}},
				"t": {"type": "string", "format": "date-time"}}},
				"Zebra": {"type": "object", "required": ["x"], "properties": {"x": {"type": "boolean"}}}}`,
			want: "class Zebra(Model):\n    x: bool\n\n    _fields = {\n        \"x\": None,\n    }\n\n\n" +
				"class Thing(Model):\n    a: Zebra | None\n" +
				"    l: list[Zebra]\n    m: dict[str, Zebra]\n    t: datetime\n\n" +
				"    _fields = {\n        \"a\": Zebra,\n        \"l\": listed(Zebra),\n" +
				"        \"m\": mapped(Zebra),\n" +
				"        \"t\": timestamp,\n    }\n",
		},
		"what looks like a secret is hidden": {
			given: `{"Thing": {"type": "object", "required": ["new_password", "has_password"], "properties": {
				"new_password": {"type": "string"}, "has_password": {"type": "boolean"}}}}`,
			want: "class Thing(Model):\n    new_password: str\n    has_password: bool\n\n" +
				"    _fields = {\n        \"new_password\": None,\n        \"has_password\": None,\n    }\n" +
				"    _hidden = frozenset({\"new_password\"})\n",
		},
		"a text cannot end its docstring": {
			given: `{"Thing": {"type": "object", "properties": {"a": {"type": "integer",
				"description": "A \"\"\" and a \\."}}}}`,
			want: "class Thing(Model):\n    a: int | None\n    \"\"\"A \\\"\\\"\\\" and a \\\\.\"\"\"\n\n" +
				"    _fields = {\n        \"a\": None,\n    }\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pythonOf(t, "models.py", answersWithThing, row.given)
			_, classes, _ := strings.Cut(got, "\n\n\nclass ")
			if diff := cmp.Diff(row.want, "class "+classes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPython_HasAMethodForEachOperation(t *testing.T) {
	t.Parallel()
	const paths = `{"/api/v1/agents/{agent_id}": {"patch": {"operationId": "UpdateThing", "summary": "Update a thing",
		"parameters": [{"name": "agent_id", "in": "path", "required": true, "schema": {"type": "string"}},
			{"name": "from", "in": "query", "description": "Since when.", "schema": {"type": "string"}},
			{"name": "If-Match", "in": "header"}, {"$ref": "#/x/Idempotency-Key"}, {"$ref": "#/x/dry_run"}],
		"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/x/Change"}}}},
		"responses": {"200": {"content": {"application/json": {"schema": {"anyOf": [
			{"$ref": "#/components/schemas/Thing"}, {"$ref": "#/components/schemas/Rehearsal"}]}}}}}}}}`
	const schemas = `{"Thing": {"type": "object", "properties": {"a": {"type": "integer"}}}, "Rehearsal": {},
		"Change": {"type": "object", "required": ["kind"], "properties": {"note": {"type": ["string", "null"]},
			"size": {"type": "integer"}, "kind": {"type": "string"}}}}`
	const want = `    async def update_thing(
        self,
        agent_id: str,
        *,
        kind: str,
        note: str | None | Unset = UNSET,
        size: int | None = None,
        from_: str | None = None,
        if_match: str | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Thing | Rehearsal:
        """Update a thing.

        Args:
            from_: Since when.
        """
        call = Call(
            "PATCH",
            "/api/v1/agents/{agent_id}",
            (agent_id,),
            query={"from": from_},
            body=fields({"note": note, "kind": kind}, {"size": size}),
            headers={"If-Match": if_match, "Idempotency-Key": idempotency_key},
            dry_run=dry_run,
            timeout=timeout,
        )
        return await self._call(call, either(dry_run, Thing))
`
	got := pythonOf(t, "_async_calls.py", paths, schemas)
	if i := strings.LastIndex(got, "    async def"); i < 0 || got[i:] != want {
		t.Error(cmp.Diff(want, got[max(i, 0):]))
	}
	if n := strings.Count(got, "    @overload\n"); n != 2 {
		t.Errorf("%d overloads, want one for the call and one for its rehearsal", n)
	}
	if got := pythonOf(t, "_sync_calls.py", paths, schemas, "UpdateThing"); strings.Contains(got, "update_thing") {
		t.Error("an excluded operation has a method")
	}
}

func TestPython_RefusesWhatItCannotDeclare(t *testing.T) {
	t.Parallel()
	for name, schemas := range map[string]string{
		"a type that is a number":        `{"Thing": {"type": 1}}`,
		"a schema that contains itself":  `{"Thing": {"properties": {"a": {"$ref": "#/x/Thing"}}}}`,
		"a property that Model has, too": `{"Thing": {"properties": {"raw": {"type": "string"}}}}`,
	} {
		if _, err := python([]byte(`{"paths": `+answersWithThing+`, "components": {"schemas": `+schemas+`}}`), nil); err == nil {
			t.Errorf("got no error for %s", name)
		}
	}
}

func TestSnake(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ListAPIKeys": "list_api_keys", "GetMe": "get_me", "WakeAgentAt": "wake_agent_at", "Agent": "agent",
		"GetMCPProtectedResource": "get_mcp_protected_resource",
	} {
		if got := codesample.Snake(name); got != want {
			t.Errorf("Snake(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestPython_ReadsArchivesInParts has a method for the export of a snapshot, which the Go client has by hand.
func TestPython_ReadsArchivesInParts(t *testing.T) {
	t.Parallel()
	const paths = `{"/export": {"get": {"operationId": "ExportSnapshot", "summary": "Export",
		"responses": {"200": {"content": {"application/x-tar": {}}}}}}}`
	const want = `    def export_snapshot(self) -> AsyncGenerator[bytes, None]:`
	if got := pythonOf(t, "_async_calls.py", paths, `{}`, "ExportSnapshot"); !strings.Contains(got, want) {
		t.Errorf("no %s in\n%s", want, got)
	}
}

// TestPython_WaitsForFiles has a method for files that waits for as long as the API sends one.
func TestPython_WaitsForFiles(t *testing.T) {
	t.Parallel()
	const paths = `{"/files": {"get": {"operationId": "GetFiles", "summary": "Get a file",
		"responses": {"200": {"content": {"application/octet-stream": {}, "application/x-tar": {}}}}}}}`
	if got := pythonOf(t, "_sync_calls.py", paths, `{}`); !strings.Contains(got, "held=600,") {
		t.Errorf("the method does not wait longer than others:\n%s", got)
	}
}
