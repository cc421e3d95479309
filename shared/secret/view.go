package secret

import (
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/egress"
)

// View is the operation that clients receive: SecretOperationOut in the interface.
type View struct {
	ID           string    `json:"id"`
	AgentID      string    `json:"agent_id" jsonschema:"The agent's id."`
	Key          string    `json:"key" jsonschema:"The name of the secret key; DASHBOARD_CREDENTIALS for a rotation of the agent's credentials."`
	Brokered     bool      `json:"brokered" jsonschema:"Whether the secret stays outside the agent, and is added to its requests."`
	SecretRef    *string   `json:"secret_ref" jsonschema:"The id of the secret in the secret store, without the environment; never a value."`
	Action       Action    `json:"action"`
	Stage        Stage     `json:"stage"`
	Status       Status    `json:"status" jsonschema:"Pending and failed operations can be reconciled."`
	ErrorCode    *string   `json:"error_code" jsonschema:"Why the operation failed or is waiting."`
	AttemptCount int       `json:"attempt_count" jsonschema:"How many times the current stage was started."`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// AmendSchema adds formats that the Go types can't express.
func (View) AmendSchema(s *jsonschema.Schema) {
	s.Properties["id"].Format, s.Properties["agent_id"].Format = "uuid", "uuid"
}

// Show renders the operation.
func (o Operation) Show() View {
	ref := Ref(o.AgentID, o.Key)
	name, isBrokered := Name(o.Key)
	v := View{
		ID: o.ID, AgentID: o.AgentID, Key: name, Brokered: isBrokered, SecretRef: &ref,
		Action: o.Action, Stage: o.Stage, Status: o.Status,
		AttemptCount: o.Attempts, CreatedAt: o.CreatedAt.UTC(), UpdatedAt: o.UpdatedAt.UTC(),
	}
	if o.ErrorCode != "" {
		v.ErrorCode = &o.ErrorCode
	}
	return v
}

// Example implements function.Exampler.
func (View) Example() any {
	created := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	o := New(Operation{
		ID: "6f1c2f0e-33b5-4c5a-9d0a-7a1f4e2b9c11", AgentID: "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90",
		Key: "OPENAI_API_KEY", Action: Set,
	}, created)
	o.Apply(EventStored, "", created.Add(time.Second))
	return o.Show()
}

// Summary is one secret variable of an agent.
type Summary struct {
	Key    string `json:"key" jsonschema:"The name of the environment variable."`
	Source string `json:"source" jsonschema:"Where the value is stored: gsm is Secret Manager."`
	// LatestVersion and LiveVersion are versions of the secret store.
	LatestVersion *int64    `json:"latest_version" jsonschema:"The newest version; null until the first one is stored."`
	LiveVersion   *int64    `json:"live_version" jsonschema:"The version with which the running pod verifiably started; null if no pod runs."`
	InSync        bool      `json:"in_sync" jsonschema:"Whether the running pod has the newest value."`
	Inject        *Inject   `json:"inject" jsonschema:"Where the value is added to the agent's requests; null for a secret in the agent's environment."`
	UpdatedAt     time.Time `json:"updated_at"`
}

// Inject says where the value of a brokered secret is added to an agent's requests. The agent does not have the value.
type Inject struct {
	Hosts  Hosts  `json:"hosts" jsonschema:"The names of the hosts, 1 to 10, without wildcards. The agent's egress must allow them."`
	Header string `json:"header,omitempty" jsonschema:"The header of the request that has the value; Authorization by default."`
	Format string `json:"format,omitempty" jsonschema:"The value of the header, with {value} in it once; Bearer {value} by default."`
}

// Hosts are the names of hosts.
type Hosts []string

// JSONSchema implements function.Schemer. It has no largest number, because a host that is there twice counts once.
func (Hosts) JSONSchema() *jsonschema.Schema {
	least := 1
	return &jsonschema.Schema{Type: "array", MinItems: &least, Items: &jsonschema.Schema{Type: "string"}}
}

// Target is what the gate does.
func (i Inject) Target() egress.Target {
	return egress.Target{Hosts: i.Hosts, Header: i.Header, Format: i.Format}.Canonical()
}

// ShowTarget renders what the gate does, from its encoded form.
func ShowTarget(encoded string) *Inject {
	if encoded == "" {
		return nil
	}
	t := egress.DecodeTarget(encoded)
	return &Inject{Hosts: t.Hosts, Header: t.Header, Format: t.Format}
}

// Source names the store of all secrets.
const Source = "gsm"

// Example implements function.Exampler.
func (Summary) Example() any {
	version := int64(3)
	return Summary{
		Key: "OPENAI_API_KEY", Source: Source, LatestVersion: &version, LiveVersion: &version, InSync: true,
		UpdatedAt: time.Date(2026, time.March, 2, 9, 31, 0, 0, time.UTC),
	}
}
