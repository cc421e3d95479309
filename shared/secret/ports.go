package secret

import (
	"context"

	"agents.example/controlplane/shared/page"
)

// Operations is the port through which routes read the history of operations. The agent's record also holds its open
// operations. Each write of that record also writes the operations that it changed, so the two always agree. Every
// method is scoped to the organization of the caller in ctx.
type Operations interface {
	// Get reads one operation of an agent. Errors: NotFound, Unavailable.
	Get(ctx context.Context, agentID, id string) (Operation, error)
	// List reads a page of an agent's operations, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, agentID string, p page.Request) (page.Page[Operation], error)
}
