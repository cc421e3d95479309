package function

import (
	"net/http"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

// bucket names the bucket of every call of the route by a caller: polling one agent does not eat the budget of other
// reads.
func (r Route) bucket(c identity.Caller, req *http.Request) (ratelimit.Class, string) {
	who := string(c.Type) + " " + c.ID
	switch {
	case r.Mutates():
		return ratelimit.Mutations, who
	case r.Reads != nil:
		return ratelimit.Polling, who + " " + r.Reads(req.PathValue).ID
	default:
		return ratelimit.Reads, who
	}
}

// extraBucket names the bucket of the route's own limit, if it has one. An id is taken for what it means and not as it
// is written, of which there are many ways, and belongs to the caller's organization, so that nobody uses up another's
// bucket.
func (r Route) extraBucket(c identity.Caller, req *http.Request) (class ratelimit.Class, key string, ok bool) {
	switch r.Limit {
	case ratelimit.Creations:
		return r.Limit, c.OrganizationID, true
	case "":
		return "", "", false
	default:
		return r.Limit, c.OrganizationID + " " + r.target(req.PathValue).ID, true
	}
}

// limited counts a call and tells the client in headers how much is left. The error is RateLimited.
func (g Guard) limited(r Route, c identity.Caller, w http.ResponseWriter, req *http.Request) error {
	if g.Limiter == nil || r.Access == Public {
		return nil
	}
	class, key := r.bucket(c, req)
	d := g.Limiter.Take(class, key)
	if extra, key, ok := r.extraBucket(c, req); ok && d.Allowed {
		ask := g.Limiter.Take
		if extra == ratelimit.Creations {
			ask = g.Limiter.Look // only creations that succeed count
		}
		if e := ask(extra, key); !e.Allowed {
			d = e
		}
	}
	w.Header().Set("RateLimit-Policy", d.Policy())
	w.Header().Set("RateLimit", d.Header())
	return d.Err()
}

// succeeded counts what only counts when it succeeds.
func (g Guard) succeeded(r Route, c identity.Caller, req *http.Request) {
	if g.Limiter != nil && r.Limit == ratelimit.Creations {
		_, key, _ := r.extraBucket(c, req)
		g.Limiter.Take(ratelimit.Creations, key)
	}
}

// strangers refuses an address that has failed to authenticate too often.
func (g Guard) strangers(ip string) error {
	if g.Limiter == nil {
		return nil
	}
	return g.Limiter.Look(ratelimit.Authentication, ip).Err()
}

// failed counts a failed authentication of an address.
func (g Guard) failed(err error, ip string) {
	if g.Limiter != nil && fault.Is(err, fault.Unauthenticated) {
		g.Limiter.Take(ratelimit.Authentication, ip)
	}
}
