package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/net/http/httpguts"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

const (
	// secretsBodyLimit is larger than that of other routes, because values are.
	secretsBodyLimit = 512 << 10
	// maxSecrets is how many secrets one request sets or deletes.
	maxSecrets = 20
	// maxSecretBytes is the size of the largest value.
	maxSecretBytes = 64 << 10
	// maxHeaderBytes is that of a brokered secret, which many servers accept in a header.
	maxHeaderBytes = 8 << 10
)

// SecretChanges is the answer to a change of secrets. It lists the operations that carry out the change.
type SecretChanges struct {
	AgentID          string        `json:"agent_id" jsonschema:"The agent's id."`
	DashboardWarming bool          `json:"dashboard_warming" jsonschema:"True while the dashboard may be briefly unavailable because the pod is being replaced."`
	Operations       []secret.View `json:"operations" jsonschema:"One operation for each key that has to change, in the order of the keys."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (SecretChanges) AmendSchema(s *jsonschema.Schema) { s.Properties["agent_id"].Format = "uuid" }

// Example implements function.Exampler.
func (SecretChanges) Example() any {
	o, _ := secret.View{}.Example().(secret.View)
	return SecretChanges{AgentID: o.AgentID, DashboardWarming: true, Operations: []secret.View{o}}
}

func secretChanges(a agent.Agent, operations []secret.Operation) SecretChanges {
	answer := SecretChanges{
		AgentID: a.ID, DashboardWarming: a.Warming, Operations: make([]secret.View, len(operations)),
	}
	for i, o := range operations {
		answer.Operations[i] = o.Show()
	}
	return answer
}

// ListSecrets shows an agent's secrets, each with its newest version and the version in the running pod. It shows no
// values.
func ListSecrets(agents agent.Store) function.Route {
	return function.Route{
		Name: "ListSecrets", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/secrets",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "List an agent's secrets",
		Handle: function.Handle(func(ctx context.Context, in path) ([]secret.Summary, error) {
			a, err := agents.Get(ctx, in.id())
			return a.Secrets(), err
		}),
	}
}

// secretValues maps keys to values; null deletes.
type secretValues map[string]*string

// JSONSchema implements function.Schemer.
func (secretValues) JSONSchema() *jsonschema.Schema {
	least, most := 1, maxSecrets
	return &jsonschema.Schema{
		Type: "object", MinProperties: &least, MaxProperties: &most,
		AdditionalProperties: &jsonschema.Schema{Types: []string{"null", "string"}},
		Description: "Values of 1 to 65,536 bytes by key. " +
			"Null deletes a secret; keys that are not listed stay.",
	}
}

type putSecretsInput struct {
	change
	Body struct {
		Secrets secretValues             `json:"secrets"`
		Inject  map[string]secret.Inject `json:"inject,omitempty" jsonschema:"Secrets of the request that stay outside the agent, by key. Their values are added to the agent's requests to the hosts named here, and the agent's variable has the text injected. The agent's egress must have the mode allow_list."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (putSecretsInput) Example() any {
	var in putSecretsInput
	value := "(a value)"
	in.Body.Secrets = secretValues{"OPENAI_API_KEY": &value, "OLD_TOKEN": nil}
	return in
}

// PutSecrets sets and deletes secrets. When it answers, each value is in the secret store, or its operation has the
// error. Workers apply all of them to the agent's pod in one rollout.
func PutSecrets(writer secretwrite.Service, d agent.Display) function.Route {
	return function.Route{
		Name: "PutSecrets", Method: http.MethodPut, Path: "/api/v1/agents/{agent_id}/secrets",
		Access:    function.Admin,
		Needs:     []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.SecretAdd},
		Reads:     readsAgent,
		BodyLimit: secretsBodyLimit,
		Status:    http.StatusAccepted, Summary: "Set and delete an agent's secrets",
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in putSecretsInput) (SecretChanges, error) {
			changes := secretwrite.Changes{
				Values: in.Body.Secrets, Targets: map[string]egress.Target{}, IfMatch: in.Header.IfMatch,
			}
			for key, inject := range in.Body.Inject {
				changes.Targets[key] = inject.Target()
			}
			a, operations, err := writer.Put(ctx, in.id(), changes)
			return secretChanges(a, operations), err
		}, secretViolations, injectViolations),
	}
}

// secretViolations checks keys and values. A violation never quotes a value.
func secretViolations(body map[string]any) []function.Violation {
	secrets, _ := body["secrets"].(map[string]any)
	var found []function.Violation
	for _, key := range slices.Sorted(maps.Keys(secrets)) {
		bad := func(why string) {
			found = append(found, fault.ValueError([]any{"body", "secrets", key}, why))
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
		case len(value) > maxSecretBytes:
			bad(fmt.Sprintf("a value must not exceed %d bytes", maxSecretBytes))
		case strings.ContainsRune(value, 0):
			bad("a value must not contain NUL characters")
		}
	}
	return found
}

// injectViolations checks what brokered secrets need in addition.
func injectViolations(body map[string]any) []function.Violation {
	secrets, _ := body["secrets"].(map[string]any)
	injects, _ := body["inject"].(map[string]any)
	var found []function.Violation
	for _, key := range slices.Sorted(maps.Keys(injects)) {
		bad := func(why string, loc ...any) {
			found = append(found, fault.ValueError(append([]any{"body"}, loc...), why))
		}
		value, isSet := secrets[key].(string)
		switch {
		case !isSet:
			bad("secrets must have a value with this key", "inject", key)
		case len(value) > maxHeaderBytes:
			bad(fmt.Sprintf("the value of a header must not exceed %d bytes", maxHeaderBytes), "secrets", key)
		case !httpguts.ValidHeaderFieldValue(value):
			bad("the value of a header must not contain control characters, such as the end of a line", "secrets", key)
		}
		if inject, ok := decodeInject(injects[key]); ok {
			if field, why := inject.Target().Violation(); why != "" {
				bad(why, "inject", key, field)
			}
		}
	}
	return found
}

// decodeInject reads an entry of inject; ok is false for one that the schema refuses.
func decodeInject(value any) (i secret.Inject, ok bool) {
	text, err := json.Marshal(value)
	return i, err == nil && json.Unmarshal(text, &i) == nil
}

// secretKey is the name of a secret in a path.
type secretKey string

// JSONSchema implements function.Schemer.
func (secretKey) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$",
		Description: "The name of the secret key.",
	}
}

type deleteSecretInput struct {
	Path struct {
		AgentID function.UUID `json:"agent_id" jsonschema:"The agent's id."`
		Key     secretKey     `json:"key" jsonschema:"The name of the secret's environment variable."`
	} `json:"path"`
	condition
}

// DeleteSecret removes a secret: first from the agent's pod, then all of its versions from the secret store.
func DeleteSecret(writer secretwrite.Service, d agent.Display) function.Route {
	return function.Route{
		Name: "DeleteSecret", Method: http.MethodDelete, Path: "/api/v1/agents/{agent_id}/secrets/{key}",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.SecretAdd},
		Reads:  readsAgent,
		Status: http.StatusAccepted, Summary: "Delete an agent's secret",
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in deleteSecretInput) (SecretChanges, error) {
			name := string(in.Path.Key)
			deletion := secretwrite.Changes{Values: map[string]*string{name: nil}, IfMatch: in.Header.IfMatch}
			a, operations, err := writer.Put(ctx, string(in.Path.AgentID), deletion)
			if err == nil && len(operations) == 0 {
				operations, err = openDeletion(a, name)
			}
			return secretChanges(a, operations), err
		}),
	}
}

// openDeletion finds an open operation that deletes the secret, so that a repeated request succeeds. Errors: NotFound
// for an unknown secret.
func openDeletion(a agent.Agent, name string) ([]secret.Operation, error) {
	for _, o := range a.Operations {
		if key, _ := secret.Name(o.Key); key == name && o.Action == secret.Delete && o.Open() {
			return []secret.Operation{o}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "not_found", "The agent has no secret with this key.")
}
