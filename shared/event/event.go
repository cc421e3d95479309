// Package event defines the events of an organization: their types, their ids, which are their order, and the view that
// clients receive. It does not store events, nor decide which change has which event: the packages of the changed
// records do.
package event

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

// Type says what happened.
type Type string

// The types. They are an open set.
const (
	AgentCreated      Type = "agent.created"
	AgentPending      Type = "agent.pending"
	AgentProvisioning Type = "agent.provisioning"
	AgentRunning      Type = "agent.running"
	AgentPaused       Type = "agent.paused"
	AgentAsleep       Type = "agent.asleep"
	AgentWoken        Type = "agent.woken"
	AgentStopped      Type = "agent.stopped"
	AgentError        Type = "agent.error"
	AgentRecovered    Type = "agent.recovered"
	AgentDeleting     Type = "agent.deleting"
	AgentDeleted      Type = "agent.deleted"
	AgentUpdated      Type = "agent.updated"
	AgentStageChanged Type = "agent.stage_changed"

	AgentImageUpdated  Type = "agent.image_updated"
	AgentImageReverted Type = "agent.image_reverted"

	// AgentMoved: the agent runs in another region or cluster, under another hostname.
	AgentMoved      Type = "agent.moved"
	AgentMoveFailed Type = "agent.move_failed"

	// AgentRestored: the agent runs with the data of a snapshot.
	AgentRestored Type = "agent.restored"

	SnapshotReady  Type = "snapshot.ready"
	SnapshotFailed Type = "snapshot.failed"
	// SnapshotDeleted: the snapshot was observed gone.
	SnapshotDeleted Type = "snapshot.deleted"

	// ScheduleCalled: a call of a schedule has ended.
	ScheduleCalled Type = "schedule.called"

	// EgressRefused: the gate refused an agent a host. There is at most one an hour of an agent and a host.
	EgressRefused Type = "egress.refused"

	SecretStored     Type = "secret_operation.stored"
	SecretSucceeded  Type = "secret_operation.succeeded"
	SecretFailed     Type = "secret_operation.failed"
	SecretSuperseded Type = "secret_operation.superseded"
	SecretCanceled   Type = "secret_operation.canceled"

	CredentialsRotated Type = "credentials.rotated"

	APIKeyCreated Type = "api_key.created"
	APIKeyRevoked Type = "api_key.revoked"

	OrganizationActive      Type = "organization.active"
	OrganizationPastDue     Type = "organization.past_due"
	OrganizationPlanChanged Type = "organization.plan_changed"
	OrganizationSuspended   Type = "organization.suspended"

	// WebhookDisabled: a webhook failed for too long. WebhookTest is sent to one webhook, and in no log.
	WebhookDisabled Type = "webhook.disabled"
	WebhookTest     Type = "webhook.test"
)

// typeRow is a type, and whether members of the organization may read its events. Those about secrets, credentials,
// API keys and what agents reach are for admins, as the records are.
type typeRow struct {
	name    Type
	members bool
}

// types lists every type.
func types() []typeRow {
	return []typeRow{
		{AgentCreated, true},
		{AgentPending, true},
		{AgentProvisioning, true},
		{AgentRunning, true},
		{AgentPaused, true},
		{AgentAsleep, true},
		{AgentWoken, true},
		{AgentStopped, true},
		{AgentError, true},
		{AgentRecovered, true},
		{AgentDeleting, true},
		{AgentDeleted, true},
		{AgentUpdated, true},
		{AgentStageChanged, true},
		{AgentImageUpdated, true},
		{AgentImageReverted, true},
		{AgentMoved, true},
		{AgentMoveFailed, true},
		{AgentRestored, true},
		{SnapshotReady, true},
		{SnapshotFailed, true},
		{SnapshotDeleted, true},
		{ScheduleCalled, true},
		{EgressRefused, false},
		{SecretStored, false},
		{SecretSucceeded, false},
		{SecretFailed, false},
		{SecretSuperseded, false},
		{SecretCanceled, false},
		{CredentialsRotated, false},
		{APIKeyCreated, false},
		{APIKeyRevoked, false},
		{OrganizationActive, true},
		{OrganizationPastDue, true},
		{OrganizationPlanChanged, true},
		{OrganizationSuspended, true},
		{WebhookDisabled, false},
		{WebhookTest, false},
	}
}

// Values lists the types.
func (Type) Values() []string {
	var values []string
	for _, t := range types() {
		values = append(values, string(t.name))
	}
	return values
}

// ForMembers reports whether members of the organization may read events of the type.
func (t Type) ForMembers() bool {
	for _, known := range types() {
		if known.name == t {
			return known.members
		}
	}
	return false
}

// Retention is how long events are kept.
const Retention = 30 * 24 * time.Hour

// Event is one thing that happened in an organization.
type Event struct {
	// ID is the event's place in the order of the organization's events: a greater id is a later event. It is also the
	// cursor after which a reader continues.
	ID             ID
	Type           Type
	CreatedAt      time.Time
	OrganizationID string
	// AgentID is the agent that the event is about, or empty.
	AgentID string
	// Data is a JSON object. It never holds the value of a secret.
	Data json.RawMessage
}

// Draft is an event that a change is about to commit. The commit gives it its id and its time.
type Draft struct {
	Type Type
	Data json.RawMessage
}

// New makes a draft. data must encode as a JSON object.
func New(t Type, data any) Draft {
	encoded, err := json.Marshal(data)
	if err != nil {
		panic("event: data that cannot be encoded: " + err.Error()) //nolint:forbidigo // a type of this code base
	}
	return Draft{Type: t, Data: encoded}
}

// View is an event as a client sees it.
type View struct {
	ID             ID              `json:"id" jsonschema:"Rises with every event of the organization. It is the cursor of the event, and the webhook-id of its deliveries."`
	Type           Type            `json:"type" jsonschema:"What happened. New types may be added."`
	CreatedAt      time.Time       `json:"created_at" jsonschema:"When the change was committed."`
	OrganizationID string          `json:"organization_id" jsonschema:"The organization in which it happened."`
	AgentID        *string         `json:"agent_id" jsonschema:"The agent that the event is about; null if it is about none."`
	Data           json.RawMessage `json:"data" jsonschema:"What changed. The keys depend on the type; new keys may be added."`
}

// AmendSchema adds to the schema what the fields' types do not express.
func (View) AmendSchema(s *jsonschema.Schema) {
	s.Properties["agent_id"].Format = "uuid"
	data := s.Properties["data"]
	s.Properties["data"] = &jsonschema.Schema{Type: "object", Description: data.Description}
}

// Example implements the contract of package function for outputs with an example.
func (View) Example() any {
	at := time.Date(2026, time.March, 2, 9, 30, 41, 250_000_000, time.UTC)
	return Event{
		ID: NewID(at, "0k3v9c2m7q1t", 0), Type: AgentRunning, CreatedAt: at, OrganizationID: "org_2mNfQ4",
		AgentID: "3f0c9a52-8a54-4a8e-b7f6-2f4f6f0b7c11",
		Data:    json.RawMessage(`{"status":"running","previous_status":"provisioning"}`),
	}.Show()
}

// Show renders the event for a client.
func (e Event) Show() View {
	v := View{
		ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt.UTC(), OrganizationID: e.OrganizationID, Data: e.Data,
	}
	if e.AgentID != "" {
		v.AgentID = &e.AgentID
	}
	return v
}

// Filter narrows the events of an organization. The zero value matches all.
type Filter struct {
	// AgentID matches the events of one agent.
	AgentID string
	// Type matches one type.
	Type Type
	// MembersOnly leaves out the types that only admins may read.
	MembersOnly bool
}

// Matches reports whether the filter lets an event through.
func (f Filter) Matches(e Event) bool {
	return (f.AgentID == "" || e.AgentID == f.AgentID) && (f.Type == "" || e.Type == f.Type) &&
		(!f.MembersOnly || e.Type.ForMembers())
}

// Batch is a run of events, oldest first.
type Batch struct {
	Events []Event
	// Next is the cursor after the run. It moves on even if the filter lets no event through.
	Next ID
	// More is true if there are further events already.
	More bool
}

// Log reads the events of organizations.
type Log interface {
	// List reads at most limit events after a cursor. Without a cursor it reads the newest. Reading from Next on, it
	// returns every event once, in the order of ids, whatever is committed in between. Errors: BadRequest for a cursor
	// older than Retention, Unavailable.
	List(ctx context.Context, organizationID string, f Filter, after ID, limit int) (Batch, error)
	// Follow yields the events after a cursor until ctx ends: first those that exist, in at least one batch, then those
	// that are committed. Without a cursor it yields those that are committed from now on. It yields a batch without
	// events after each time without one that is as long as idle, and to move the cursor on. The readers of an
	// organization in one process share one listener. Errors: those of List.
	Follow(ctx context.Context, organizationID string, f Filter, after ID, idle time.Duration) iter.Seq2[Batch, error]
	// Get reads one event. Errors: NotFound, Unavailable.
	Get(ctx context.Context, organizationID string, id ID) (Event, error)
}

// CursorExpired is the error for a cursor that is older than Retention: events after it may be deleted.
func CursorExpired() *fault.Error {
	return fault.New(fault.BadRequest, "cursor_expired",
		"Events are kept for 30 days, and the cursor is older. Read the agents' present state, then start without a "+
			"cursor.")
}

// NotFound is the error for an event that does not exist, or no longer, or belongs to another organization.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "event_not_found", "Event not found. Events are kept for 30 days.")
}
