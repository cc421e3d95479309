package audit

import (
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/identity"
)

// View is an entry as a client sees it.
type View struct {
	ID        string       `json:"id"`
	CreatedAt time.Time    `json:"created_at"`
	Actor     ActorView    `json:"actor" jsonschema:"Who made the call."`
	Action    string       `json:"action" jsonschema:"The operation id, such as StopAgent."`
	Target    TargetView   `json:"target" jsonschema:"The object of the call."`
	Outcome   string       `json:"outcome" jsonschema:"Either succeeded or an error code. New codes may be added. rehearsal_refused is a call with dry_run that was refused with 403. An outcome begun that remains belongs to a call that was interrupted: it made the listed changes, and the rest is unknown; or to one of more than 11 minutes, whose end is another entry with the same request_id."`
	Replayed  bool         `json:"replayed" jsonschema:"True if the call repeated an earlier one with the same Idempotency-Key and got its answer. It changed nothing."`
	RequestID string       `json:"request_id" jsonschema:"The X-Request-Id of the call."`
	IP        string       `json:"ip" jsonschema:"The client's IP address, or unknown."`
	UserAgent string       `json:"user_agent" jsonschema:"The User-Agent of the call."`
	Changes   []ChangeView `json:"changes" jsonschema:"The fields that changed; empty if none did. Secret values are never shown."`
}

// ActorView is who made a call, as a client sees it.
type ActorView struct {
	Type      ActorType     `json:"type"`
	ID        string        `json:"id" jsonschema:"The id of the user or API key."`
	Email     *string       `json:"email" jsonschema:"Null for an API key, and for a session token without a verified email address."`
	Role      identity.Role `json:"role" jsonschema:"The role at the time of the call."`
	KeyPrefix *string       `json:"key_prefix" jsonschema:"The leading part of the API key; null for a session."`
}

// ActorType says what kind of actor made a call.
type ActorType identity.AuthType

// Values lists the kinds of actors: those that call with a token, and those that act without one.
func (ActorType) Values() []string {
	own := []string{string(identity.Agent), string(identity.Operator), string(identity.System)}
	return append(identity.AuthType("").Values(), own...)
}

// TargetView is what a call acted on, as a client sees it.
type TargetView struct {
	Type string  `json:"type" jsonschema:"The kind of object, such as agent or api_key."`
	ID   *string `json:"id" jsonschema:"Null if the call named no object. The object of a refused call may not exist."`
	Name *string `json:"name" jsonschema:"The name at the time of the call; null if the call was refused before the name was known."`
}

// ChangeView is one changed field as a client sees it.
type ChangeView struct {
	Field string  `json:"field" jsonschema:"The name of the field."`
	Old   *string `json:"old" jsonschema:"Null if there was no value, or if the value is not shown."`
	New   *string `json:"new" jsonschema:"Null if there is no value; set, changed or removed if the value is not shown."`
}

// AmendSchema adds to the schema what the fields' types do not express.
func (View) AmendSchema(s *jsonschema.Schema) { s.Properties["id"].Format = "uuid" }

// Example implements the contract of package function for outputs with an example.
func (View) Example() any {
	return Entry{
		ID: "2f1b9c1e-7a34-4c0e-8c55-0f6a1d2b3c4d", CreatedAt: time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC),
		Actor: identity.Caller{
			Type: identity.Session, ID: "c1f6a9f2-52f8-5a8e-9d5b-6f0a7b3c2d10", Email: "ada@example.com",
			Role: identity.RoleAdmin,
		},
		Action: "StopAgent", Target: Target{"agent", "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "Support Assistant"},
		Outcome: Succeeded,
		Request: Request{
			RequestID: "5f3c9a0e-6f0b-4d8b-9d51-0c6c7f1f2a3b", IP: "203.0.113.7",
			UserAgent: "Mozilla/5.0",
		},
		Changes: []Change{{"status", "running", "stopped"}},
	}.Show()
}

// Show renders the entry for a client.
func (e Entry) Show() View {
	v := View{
		ID: e.ID, CreatedAt: e.CreatedAt.UTC(), Action: e.Action, Outcome: e.Outcome,
		Replayed: e.Replayed,
		Actor: ActorView{
			Type: ActorType(e.Actor.Type), ID: e.Actor.ID, Email: nullable(e.Actor.Email), Role: e.Actor.Role,
			KeyPrefix: nullable(e.Actor.KeyPrefix),
		},
		Target:    TargetView{Type: e.Target.Type, ID: nullable(e.Target.ID), Name: nullable(e.Target.Name)},
		RequestID: e.Request.RequestID, IP: e.Request.IP, UserAgent: e.Request.UserAgent,
		Changes: make([]ChangeView, len(e.Changes)),
	}
	for i, c := range e.Changes {
		v.Changes[i] = ChangeView{c.Field, nullable(c.Old), nullable(c.New)}
	}
	return v
}

// nullable returns nil for "".
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
