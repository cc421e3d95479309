package agent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
)

// Store is the port through which routes use agents. Every method is scoped to the organization of the caller in ctx:
// another organization's agent is NotFound, exactly like one that never existed.
//
// In a rehearsed call, Create and Change return what they would return, record it there, and write and
// nudge nothing. A later Change of the same ctx begins from the recorded agent.
type Store interface {
	// Get reads one agent. Errors: NotFound, Unavailable.
	Get(ctx context.Context, id string) (Agent, error)
	// Await returns the agent once the condition until holds, which it checks again after every change that has an
	// event. If ctx ends first, it returns the agent as it was last checked. It returns a pointer, because the
	// goroutines that wait would have room for agents on their stacks, which would be most of their memory. Errors:
	// NotFound, Unavailable.
	Await(ctx context.Context, id string, until func(Agent) bool) (*Agent, error)
	// List reads a page of agents, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, filter Filter, p page.Request) (page.Page[Agent], error)
	// Create writes a new agent, the organization's usage and the audit entry in one transaction, and nudges a worker.
	// The same transaction counts the creation against the organization's rate limit. A creation that fails does not
	// count, and neither does the repeat of one, which gets the first answer even over the limit. Errors:
	// PaymentRequired if the organization's plan has no room, RateLimited, Unavailable.
	Create(ctx context.Context, a Agent) (Agent, error)
	// Change runs a pure closure on the agent and writes the result, the usage and the audit entry in one transaction,
	// then nudges a worker. The closure may run more than once and must have no side effects. If it changes nothing,
	// Change writes nothing. Errors: NotFound, the closure's own, PaymentRequired, Unavailable.
	Change(ctx context.Context, id string, change func(*Agent) error) (Agent, error)
}

// Filter narrows a list. Empty fields match every agent.
type Filter struct {
	Status Status
	Plan   string
	Region string
	// Name matches exactly.
	Name string
	// Image and Version are those of the agent's image.
	Image, Version string
}

// WorkerStore is the port through which workers use the agents of all organizations.
type WorkerStore interface {
	// Load reads the present record. Errors: NotFound once the agent is gone, Unavailable.
	Load(ctx context.Context, id string) (Agent, error)
	// Update runs a pure closure on the present record and writes the result if the generation is still a's. Otherwise
	// it returns ErrSuperseded and the present record. The same transaction updates the organization's usage.
	Update(ctx context.Context, a Agent, change func(*Agent)) (Agent, error)
	// Remove deletes the record of an agent that is observed gone, and stores the record of its deletion in the same
	// transaction. d is what the worker observed; a need not have it. A deleting agent holds no usage; Remove frees the
	// usage of any other. A second removal succeeds.
	Remove(ctx context.Context, a Agent, d Deletion) error
	// ListDue lists at most limit agents whose work is overdue, the longest overdue first. It reports a record that it
	// cannot read, and lists the next one in its place.
	ListDue(ctx context.Context, now time.Time, limit int) ([]Agent, error)
	// ListCallsDue lists in the same way the agents whose schedules are due.
	ListCallsDue(ctx context.Context, now time.Time, limit int) ([]Agent, error)
	// ListByStatus lists agents in a status whose ids come after the given one, in the order of ids. It reads at most
	// limit records. Next is the id to continue after, and empty at the end: a record that cannot be read is reported
	// and left out, so a page may hold fewer agents than limit, or none, and not be the last.
	ListByStatus(ctx context.Context, status Status, after string, limit int) (page.Page[Agent], error)
}

// ExportStore is the port through which exports of snapshots begin, and other answers of many bytes are counted.
type ExportStore interface {
	// AdmitExport gives the reader of a snapshot to a call, whatever the agent's generation is, and counts the export
	// against the organization's rate limit in the same transaction. Errors: those of Agent.AdmitExport, NotFound once
	// the agent is gone, Unavailable.
	AdmitExport(ctx context.Context, a Agent, snapshotID, holder string) (Agent, error)
	// CountSent counts bytes that were sent to an organization against the same rate limit. A lost answer may count
	// them twice. Errors: RateLimited, NotFound, Unavailable.
	CountSent(ctx context.Context, organizationID string, bytes int64) error
}

// RecordIndex knows which agents have a record.
type RecordIndex interface {
	// Exists returns those of the ids that have a record, even one that cannot be read. Errors: Unavailable.
	Exists(ctx context.Context, ids []string) (map[string]bool, error)
}

// Nudger wakes a worker for an agent. A lost nudge only delays the work: the sweep repeats it.
type Nudger interface {
	// Nudge publishes the agent's id. Errors: Unavailable.
	Nudge(ctx context.Context, agentID string) error
}

// WakeNudger asks a worker to wake an agent that sleeps, for a request. A lost nudge is repeated while a request waits.
type WakeNudger interface {
	// Wake publishes the agent's id. Errors: Unavailable.
	Wake(ctx context.Context, agentID string) error
}

// ErrSuperseded means that the desired state changed while a worker was applying the previous one. The worker starts
// over with the new record.
const ErrSuperseded = superseded("the agent's desired state changed while a worker was applying the previous one")

type superseded string

// Error implements error.
func (e superseded) Error() string { return string(e) }

// NotFound is the error for an agent that does not exist or belongs to another organization. Its text never repeats the
// id.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "agent_not_found", "Agent not found.")
}

// Document returns the reference to the record of the agent whose id a client's path names. The reference is empty if
// the id is not a UUID.
func Document(id string) document.Ref {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return document.Ref{}
	}
	return document.Ref{Collection: "agents", ID: parsed.String()}
}
