package function

import (
	"net/http"

	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

// settlement corrects how a call was counted, when the outcome of its handler is known. It is nil if there is nothing
// to correct.
type settlement func(h http.Header, outcome error)

// countRead counts a read. Reads of one agent have a separate bucket, so that polling does not use up the budget of
// other reads. Only an agent of the caller's organization has one: a read of any other id counts as a read, and before
// the agent is looked up, so that a flood of ids costs no look-ups beyond the limit.
//
// The agent is known if it was fetched with the caller's API key, or if the caller has read it before. Otherwise the
// call counts as a read until the handler has found the agent.
func (g Guard) countRead(c *call.Call, r *Route, req *http.Request) (ratelimit.Decision, settlement) {
	who := c.Caller.Key()
	if r.Reads == nil {
		return g.Limiter.Take(ratelimit.Reads, who), nil
	}
	ref := r.Reads(req.PathValue)
	agent := who + " " + ref.ID
	owner, fetched := c.Fetched.Owner(ref)
	switch {
	case fetched && owner == c.Caller.OrganizationID:
		return g.Limiter.Take(ratelimit.Polling, agent), nil
	case fetched:
		return g.Limiter.Take(ratelimit.Reads, who), nil
	case g.Limiter.Known(ratelimit.Polling, agent):
		return g.Limiter.Take(ratelimit.Polling, agent), func(_ http.Header, outcome error) {
			if fault.Is(outcome, fault.NotFound) {
				g.Limiter.Forget(ratelimit.Polling, agent)
				g.Limiter.Charge(ratelimit.Reads, who)
			}
		}
	default:
		return g.Limiter.Take(ratelimit.Reads, who), func(h http.Header, outcome error) {
			if found(outcome) {
				g.Limiter.Refund(ratelimit.Reads, who)
				setRateLimit(h, g.Limiter.Charge(ratelimit.Polling, agent))
			}
		}
	}
}

// found reports whether a handler with this outcome has found its agent: it succeeded, or failed because of the agent's
// state or of a limit on the agent's organization.
func found(outcome error) bool {
	return outcome == nil || fault.Is(outcome, fault.Conflict) || fault.Is(outcome, fault.RateLimited)
}

// extraBucket returns the class and key of the bucket for Route.Limit, if the route has one. A route of one agent
// counts each agent separately, other routes count the organization. The key contains the parsed id, because one UUID
// can be written in several ways, and the organization, so that a caller cannot use up the bucket of another one.
func (r *Route) extraBucket(c identity.Caller, req *http.Request) (class ratelimit.Class, key string, ok bool) {
	if r.Limit == "" {
		return "", "", false
	}
	if target := r.pathTarget(req.PathValue); target.Type == "agent" {
		return r.Limit, c.OrganizationID + " " + target.ID, true
	}
	return r.Limit, c.OrganizationID, true
}

// countCall counts a call and sets the RateLimit headers. The error is RateLimited.
func (g Guard) countCall(c *call.Call, r *Route, w http.ResponseWriter, req *http.Request) (settlement, error) {
	if g.Limiter == nil || r.Access == Public {
		return nil, nil
	}
	var d ratelimit.Decision
	var settle settlement
	if r.Mutates() {
		d = g.Limiter.Take(ratelimit.Mutations, c.Caller.Key())
	} else {
		d, settle = g.countRead(c, r, req)
	}
	if extra, key, ok := r.extraBucket(c.Caller, req); ok && d.Allowed {
		if e := g.Limiter.Take(extra, key); !e.Allowed {
			d = e
		}
	}
	if d.Allowed {
		if o := g.countOrganization(r, c.Caller); !o.Allowed {
			d = o
		}
	}
	setRateLimit(w.Header(), d)
	return settle, d.Err()
}

// countOrganization counts a call against the limit of all callers of its organization. A call that its caller's own
// limit refused must not count, because one runaway script would then lock out everyone else in the organization.
func (g Guard) countOrganization(r *Route, c identity.Caller) ratelimit.Decision {
	if c.OrganizationID == "" {
		return ratelimit.Decision{Allowed: true}
	}
	if r.Mutates() {
		return g.Limiter.Take(ratelimit.OrganizationMutations, c.OrganizationID)
	}
	return g.Limiter.Take(ratelimit.OrganizationReads, c.OrganizationID)
}

func setRateLimit(h http.Header, d ratelimit.Decision) {
	h.Set("RateLimit-Policy", d.Policy())
	h.Set("RateLimit", d.Header())
}

// showRefusal sets the RateLimit headers of a call that a limit in the store refused, such as the one of creations.
// They replace those of the bucket that allowed the call.
func showRefusal(h http.Header, err error) {
	if d, ok := ratelimit.Refusal(err); ok {
		setRateLimit(h, d)
	}
}
