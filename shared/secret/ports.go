package secret

import (
	"context"

	"agents.example/controlplane/shared/page"
)

// Operations is the history of operations, for routes. Those that are open stand on the agent's own record, and every
// write of that record writes the operations that it moved: the two can't disagree. Every method is scoped to the
// organization of the caller in ctx.
type Operations interface {
	// Get reads one operation of an agent. Errors: NotFound, Unavailable.
	Get(ctx context.Context, agentID, id string) (Operation, error)
	// List reads a page of an agent's operations, newest first. Errors: BadRequest for a bad cursor, Unavailable.
	List(ctx context.Context, agentID string, p page.Request) (page.Page[Operation], error)
}
