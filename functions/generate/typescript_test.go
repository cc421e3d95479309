package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypeScript_HasATypeForEachSchema(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ given, want string }{
		"properties keep their order": {
			given: `{"S": {"type": "object", "required": ["b"], "properties": {
				"b": {"type": ["string", "null"], "description": "The b."}, "a": {"type": "integer"}}}}`,
			want: "export interface S {\n  /** The b. */\n  b: string | null;\n  a?: number;\n}\n",
		},
		"an answer may get new values": {
			given: `{"Answer": {"enum": ["x", "y"]}}`,
			want:  "export type Answer = \"x\" | \"y\" | NewValue;\n",
		},
		"a request may not": {
			given: `{"S": {"enum": ["x", "y"]}}`,
			want:  "export type S = \"x\" | \"y\";\n",
		},
		"other keys": {
			given: `{"S": {"type": "object", "properties": {"o": {"type": "object",
				"additionalProperties": {"type": ["string", "null"]}}}, "additionalProperties": true}}`,
			want: "export interface S {\n  o?: Record<string, string | null>;\n  [key: string]: unknown;\n}\n",
		},
		"lists and references": {
			given: `{"S": {"type": "array", "items": {"anyOf": [{"$ref": "#/components/schemas/T"}, {"type": "null"}]}}}`,
			want:  "export type S = (T | null)[];\n",
		},
		"a text cannot end its comment": {
			given: `{"S": {"type": "string", "description": "Matches agents/*/logs."}}`,
			want:  "/** Matches agents/*\\/logs. */\nexport type S = string;\n",
		},
		"long text is wrapped": {
			given: `{"S": {"description": "` + strings.Repeat("word ", 30) + `", "type": "string"}}`,
			want: "/**\n *" + strings.Repeat(" word", 23) + "\n *" + strings.Repeat(" word", 7) +
				"\n */\nexport type S = string;\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := typeScript([]byte(`{"paths": {"/": {"get": {"responses": {"200":
				{"$ref": "#/components/schemas/Answer"}}}}}, "components": {"schemas": ` + row.given + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			types, _, _ := strings.Cut(string(got), "\n/** What each operation takes")
			if diff := cmp.Diff(typesHeader+"\n"+row.want, types); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTypeScript_HasParametersBodyAndSuccessOfEachOperation(t *testing.T) {
	t.Parallel()
	got, err := typeScript([]byte(`{"components": {
		"parameters": {"Key": {"name": "X-Key", "in": "header", "schema": {"type": "string"}}},
		"responses": {"Refused": {}}
	}, "paths": {"/things/{id}": {
		"put": {"operationId": "PutThing", "summary": "Put a thing", "description": "Requires a token.",
			"parameters": [
				{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
				{"name": "limit", "in": "query", "description": "How many.", "schema": {"type": "integer"}},
				{"$ref": "#/components/parameters/Key"}],
			"requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/x/Thing"}}}},
			"responses": {
				"201": {"content": {"text/plain": {"schema": {"type": "string"}},
					"application/json": {"schema": {"enum": ["new"]}}}},
				"204": {"description": "No Content"}, "404": {"$ref": "#/components/responses/Refused"}}},
		"get": {"operationId": "GetThing", "summary": "Get a thing",
			"requestBody": {"content": {"application/json": {"schema": {}}}}, "responses": {"200": {}}}
	}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := typesHeader + `
/** What each operation takes, and what it returns when it succeeds. */
export interface operations {
  /** Get a thing. */
  GetThing: {
    parameters: {};
    requestBody?: { content: { "application/json": unknown } };
    responses: {
      200: {};
    };
  };
  /** Put a thing. Requires a token. */
  PutThing: {
    parameters: {
      header?: {
        "X-Key"?: string;
      };
      path: {
        id: string;
      };
      query?: {
        /** How many. */
        limit?: number;
      };
    };
    requestBody: { content: { "application/json": Thing } };
    responses: {
      201: { content: { "application/json": "new" | NewValue; "text/plain": string } };
      204: {};
    };
  };
}

/** The operations of each path. */
export interface paths {
  "/things/{id}": {
    get: operations["GetThing"];
    put: operations["PutThing"];
  };
}
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestTypeScript_RefusesABrokenDocument(t *testing.T) {
	t.Parallel()
	if _, err := typeScript([]byte(`{"components": {"schemas": {"S": {"type": 1}}}}`)); err == nil {
		t.Error("got no error for a type that is a number")
	}
}
