package agent

import (
	"context"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
)

// Store is what routes do with agents. Every method is scoped to the organization of the caller in ctx: an agent of
// another organization is NotFound, exactly as one that never was.
type Store interface {
	// Get reads one agent. Errors: NotFound, Unavailable.
	Get(ctx context.Context, id string) (Agent, error)
	// Await reads one agent as soon as a condition holds for it, which is checked again with every change; when ctx
	// ends first, as it is then. Errors: NotFound, Unavailable.
	Await(ctx context.Context, id string, until func(Agent) bool) (Agent, error)
	// List reads a page of agents, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, filter Filter, p page.Request) (page.Page[Agent], error)
	// Create writes a new agent, the organization's usage and the audit entry in one transaction, and nudges a worker.
	// Errors: PaymentRequired when the organization's plan has no room, Unavailable.
	Create(ctx context.Context, a Agent) (Agent, error)
	// Change runs a pure closure on the agent and writes the result, the usage and the audit entry in one transaction,
	// then nudges a worker. The closure may run more than once and calls nothing outside. A closure that changes
	// nothing writes nothing. Errors: NotFound, the closure's own, PaymentRequired, Unavailable.
	Change(ctx context.Context, id string, change func(*Agent) error) (Agent, error)
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Status Status
	Plan   string
	Region string
	// Name matches exactly.
	Name string
}

// WorkerStore is what workers do with agents, across organizations.
type WorkerStore interface {
	// Load reads the present record. Errors: NotFound once the agent is gone, Unavailable.
	Load(ctx context.Context, id string) (Agent, error)
	// Update runs a pure closure on the present record and writes it if its generation is still that of a; otherwise it
	// returns ErrSuperseded and the present record. Usage that the change frees is freed in the same transaction.
	Update(ctx context.Context, a Agent, change func(*Agent)) (Agent, error)
	// Remove deletes the record of an agent that is observed gone and frees what it still holds. Removing twice is a
	// success.
	Remove(ctx context.Context, a Agent) error
	// ListDue lists agents whose work is overdue, the oldest first, at most limit.
	ListDue(ctx context.Context, now time.Time, limit int) ([]Agent, error)
	// ListByStatus lists agents in a status by their ids in ascending order, from the first id after one, at most
	// limit.
	ListByStatus(ctx context.Context, status Status, after string, limit int) ([]Agent, error)
}

// Nudger asks for a worker to look at an agent. A lost nudge costs time, never work: the sweep repeats it.
type Nudger interface {
	// Nudge publishes the agent's id. Errors: Unavailable.
	Nudge(ctx context.Context, agentID string) error
}

// ErrSuperseded says that the desired state changed while a worker was at it: it starts over with the new record.
const ErrSuperseded = superseded("the agent's desired state changed while a worker was bringing about the former one")

type superseded string

// Error implements error.
func (e superseded) Error() string { return string(e) }

// NotFound is the error for an agent that does not exist, or is another organization's. Its text never repeats the id.
func NotFound() *fault.Error {
	return fault.New(fault.NotFound, "agent_not_found", "Agent not found.")
}

// Document names the record of the agent with an id as it stands in a client's path. An id that is none names no
// document.
func Document(id string) document.Ref {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return document.Ref{}
	}
	return document.Ref{Collection: "agents", ID: parsed.String()}
}
