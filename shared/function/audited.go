package function

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/logevent"
)

// recordTimeout bounds how long a call may wait for its entry.
const recordTimeout = 2 * time.Second

// errPanicked is the outcome of a call that panicked; what it panicked with is logged where it is recovered from.
var errPanicked = errors.New("panic")

// audited handles a call and sees to it that one that may change something of an organization has one entry in the
// audit log. A change that was committed wrote it in the same commit; here it is written for a call that was refused,
// that failed, or that found nothing to change, before the client is answered: who has the answer finds the entry.
func (g Guard) audited(
	ctx context.Context, r Route, req *http.Request, handle func(context.Context) (any, error),
) (out any, err error) {
	caller := identity.From(ctx)
	if g.Audit == nil || !r.Mutates() || caller.OrganizationID == "" {
		return handle(ctx)
	}
	ctx, trail := audit.WithCallEntry(ctx)
	err = errPanicked // unless handle returns
	defer func() {
		g.record(ctx, trail, audit.Entry{
			ID: trail.ID(), OrganizationID: caller.OrganizationID, Actor: caller, Action: r.Name,
			Target:  r.target(req.PathValue),
			Request: audit.From(ctx),
		}, err)
	}()
	out, err = handle(ctx)
	return out, err
}

// record writes the entry of a call with its outcome, unless it was written already. A call that came too soon has
// none: the limit keeps the log, too, from a flood. The call is over, so neither a failure nor a client that went away
// changes its answer.
func (g Guard) record(ctx context.Context, trail *audit.CallEntry, e audit.Entry, outcome error) {
	if trail.Written() || fault.Is(outcome, fault.RateLimited) {
		return
	}
	e.Outcome = audit.Succeeded
	if outcome != nil {
		e.Outcome = fault.From(outcome).Code
	}
	if found := trail.Target(); found.Type != "" {
		e.Target = found
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := g.Audit.Append(ctx, e); err != nil {
		slog.ErrorContext(ctx, "audit entry could not be written", logevent.Key, logevent.AuditEntryMissing, "action",
			e.Action, "outcome", e.Outcome, "entry_id", e.ID,
			"request_id", e.Request.RequestID, "organization_id", e.OrganizationID, "caller_id", e.Actor.ID,
			"target_id", e.Target.ID,
			"error", err)
	}
}

// target is what a call's path names: the singular of its first noun, and the id after it where the client wrote one
// that may be one.
func (r Route) target(value func(parameter string) string) audit.Target {
	noun, rest, _ := strings.Cut(strings.TrimPrefix(r.Path, Prefix+"/"), "/")
	t := audit.Target{Type: strings.ReplaceAll(strings.TrimSuffix(noun, "s"), "-", "_")}
	parameter, _, _ := strings.Cut(rest, "/")
	if name, ok := strings.CutPrefix(parameter, "{"); ok {
		if id, err := uuid.Parse(value(strings.TrimSuffix(name, "}"))); err == nil {
			t.ID = id.String()
		}
	}
	return t
}
