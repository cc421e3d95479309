package function

import (
	"context"
	"time"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// retrySlot is when a client should ask again if its answer found no free slot.
const retrySlot = 10 * time.Second

// HoldSlot takes a slot for an answer that goes on until the client or its time ends. The slot is free again when
// release is called or ctx ends. The server ends the context of a request with its answer, also if no body is written.
// Errors: RateLimited.
func HoldSlot(ctx context.Context, slots *ratelimit.Slots) (release func(), err error) {
	caller := call.From(ctx).Caller
	release, ok := slots.Acquire(caller.OrganizationID, caller.Key())
	if !ok {
		refusal := fault.New(fault.RateLimited, "too_many_followers",
			"Too many answers follow logs or events, wait for agents or export the audit log. End one of them, or "+
				"retry in %g s.",
			retrySlot.Seconds())
		refusal.RetryAfter = retrySlot
		return nil, refusal
	}
	context.AfterFunc(ctx, release)
	return release, nil
}
