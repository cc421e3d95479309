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
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/logevent"
)

// auditTimeout bounds each try to write an audit entry, and the look at it after the last one. A response waits for
// them.
const auditTimeout = 2 * time.Second

// errPanicked is the outcome of a call that panicked. runRecovering reports the panic itself.
var errPanicked = errors.New("panic")

// withAuditEntry runs handle and makes sure that an audited call of an organization has exactly one audit entry. A
// change writes the entry in its own commit. For all other calls (refused, failed, nothing to change) withAuditEntry
// writes it before the response, so a client that has its response also finds the entry. A rehearsed call has one only
// if it is forbidden, so that the log shows who tries what a key may do.
func (g Guard) withAuditEntry(
	c *call.Call, r *Route, req *http.Request, handle func() (any, error),
) (out any, err error) {
	if g.Audit == nil || !r.audited() || c.Caller.OrganizationID == "" {
		return handle()
	}
	entry, rehearsed := audit.NewCallEntry(), r.rehearsed(req)
	if !rehearsed { // a commit of the call would write it
		c.Entry = entry
	}
	err = errPanicked // remains set if handle panics
	defer func() {
		if rehearsed && !fault.Is(err, fault.Forbidden) {
			return
		}
		outcome := err
		if rehearsed {
			outcome = fault.New(fault.Forbidden, audit.RehearsalRefused, "")
		}
		g.writeEntry(req.Context(), entry, audit.Entry{
			ID: entry.ID(), OrganizationID: c.Caller.OrganizationID, Actor: c.Caller, Action: r.Name,
			Target: r.target(req.PathValue), Request: c.Request,
		}, outcome)
	}()
	out, err = handle()
	return out, err
}

// writeEntry writes the audit entry of a call with its outcome. If a change already wrote the entry, it replaces the
// outcome in it, unless that is true already; after a long call it writes another entry. A rate-limited call has no
// entry, so that a flood of calls does not flood the log. Neither has an agent's own call that changes nothing: its
// front repeats a report every few seconds, for hours if its cluster is out of reach. The handler has already decided
// the response: neither a failed write nor a disconnected client changes it.
func (g Guard) writeEntry(ctx context.Context, pending *audit.CallEntry, e audit.Entry, outcome error) {
	e.Outcome, e.Replayed = audit.Succeeded, outcome == nil && pending.Replayed()
	if outcome != nil {
		e.Outcome = fault.From(outcome).Code
	}
	e.Changes = pending.Facts()
	write := g.Audit.Append
	switch {
	case pending.Written() && pending.Outcome() == e.Outcome:
		return
	case pending.Written() && !pending.Open():
		e.ID = uuid.NewString()
	case pending.Written():
		write = func(ctx context.Context, e audit.Entry) error {
			return g.Audit.Finish(ctx, e.ID, e.Outcome, e.Changes...)
		}
	case fault.Is(outcome, fault.RateLimited), outcome == nil && e.Actor.Type == identity.Agent:
		return
	}
	if found := pending.Target(); found.Type != "" {
		e.Target = found
	}
	writeTwice(ctx, g.Audit, e, write)
}

// AppendEntry writes an entry in addition to that of the call, such as that of the end of what the call began. It logs
// a failure.
func AppendEntry(ctx context.Context, log audit.Log, e audit.Entry) {
	writeTwice(ctx, log, e, log.Append)
}

func writeTwice(ctx context.Context, log audit.Log, e audit.Entry, write func(context.Context, audit.Entry) error) {
	err := bounded(ctx, func(ctx context.Context) error { return write(ctx, e) })
	if err == nil {
		return
	}
	// The entry has the same id in each try, so at most one is written. The answer to a try may be lost.
	again := bounded(ctx, func(ctx context.Context) error { return write(ctx, e) })
	if again == nil {
		return
	}
	var stored string
	look := bounded(ctx, func(ctx context.Context) (err error) {
		stored, err = log.Outcome(ctx, e.ID)
		return err
	})
	if stored == e.Outcome {
		return
	}
	slog.ErrorContext(ctx, "audit entry could not be written", logevent.Key, logevent.AuditEntryMissing,
		"action", e.Action, "outcome", e.Outcome, "entry_id", e.ID, "request_id", e.Request.RequestID,
		"organization_id", e.OrganizationID, "caller_id", e.Actor.ID, "target_id", e.Target.ID,
		"stored_outcome", stored, "error", errors.Join(err, again, look))
}

// bounded runs one step of writing an audit entry, also for a client that went away.
func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return do(ctx)
}

// target returns what the call acts on, as far as its path says.
func (r *Route) target(value func(parameter string) string) audit.Target {
	if r.Target != nil {
		return r.Target(value)
	}
	return r.pathTarget(value)
}

// pathTarget returns the object that the path names: the type is the first noun in the singular, the id is the
// parameter after it if that is a UUID. Example: /api/v1/api-keys/{id} has the type "api_key".
func (r *Route) pathTarget(value func(parameter string) string) audit.Target {
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
