package secrets

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secretwrite"
)

const (
	// bodyLimit is larger than that of other routes, because values are.
	bodyLimit = 512 << 10
	// maxKeys is how many secrets one request sets or deletes.
	maxKeys = 20
	// maxValueBytes is the size of the largest value.
	maxValueBytes = 64 << 10
)

// changes maps keys to values; null deletes.
type changes map[string]*string

// JSONSchema implements function.Schemer.
func (changes) JSONSchema() *jsonschema.Schema {
	least, most := 1, maxKeys
	return &jsonschema.Schema{
		Type: "object", MinProperties: &least, MaxProperties: &most,
		AdditionalProperties: &jsonschema.Schema{Types: []string{"null", "string"}},
		Description: "Values of 1 to 65,536 bytes by key. " +
			"Null deletes a secret; keys that are not listed stay.",
	}
}

type putInput struct {
	path
	Body struct {
		Secrets changes `json:"secrets"`
	} `json:"body"`
}

// Example implements function.Exampler.
func (putInput) Example() any {
	var in putInput
	value := "(a value)"
	in.Body.Secrets = changes{"OPENAI_API_KEY": &value, "OLD_TOKEN": nil}
	return in
}

// Put sets and deletes secrets. When it answers, each value is in the secret store, or its operation has the error.
// Workers apply all of them to the agent's pod in one rollout.
func Put(writer secretwrite.Service, d agent.Addresses) function.Route {
	return function.Route{
		Name: "PutSecrets", Method: http.MethodPut, Path: "/api/v1/agents/{agent_id}/secrets",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish, function.SecretAdd},
		Reads:     readsAgent,
		BodyLimit: bodyLimit,
		Status:    http.StatusAccepted, Summary: "Set and delete an agent's secrets",
		Errors:    []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in putInput) (Accepted, error) {
			a, operations, err := writer.Put(ctx, string(in.Path.AgentID), in.Body.Secrets)
			return accepted(a, operations), err
		}, violations),
	}
}

// violations checks keys and values. A violation never quotes a value.
func violations(body map[string]any) []function.Violation {
	secrets, _ := body["secrets"].(map[string]any)
	var found []function.Violation
	for _, key := range slices.Sorted(maps.Keys(secrets)) {
		bad := func(why string) {
			found = append(found, function.Violation{
				Loc: []any{"body", "secrets", key}, Type: "value_error", Msg: "Value error, " + why,
				Ctx: map[string]any{"error": why},
			})
		}
		if why := agent.EnvKeyViolation(key); why != "" {
			bad(why)
		}
		value, isString := secrets[key].(string)
		switch {
		case !isString: // null deletes; the schema refuses other types
		case value == "":
			found = append(found, function.Violation{
				Loc: []any{"body", "secrets", key}, Type: "string_too_short",
				Msg: "String should have at least 1 character",
				Ctx: map[string]any{"min_length": 1},
			})
		case len(value) > maxValueBytes:
			bad(fmt.Sprintf("a value must not exceed %d bytes", maxValueBytes))
		case strings.ContainsRune(value, 0):
			bad("a value must not contain NUL characters")
		}
	}
	return found
}
