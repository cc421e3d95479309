package function

import (
	"net/http"

	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

// bucket returns the class and key of the bucket that counts every call of the route. Reads of one agent have their own
// bucket, so that polling does not use up the budget of other reads.
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

// extraBucket returns the class and key of the bucket for Route.Limit, if the route has one. The key contains the
// parsed id, because one UUID can be written in several ways, and the organization, so that a caller cannot use up the
// bucket of another organization.
func (r Route) extraBucket(c identity.Caller, req *http.Request) (class ratelimit.Class, key string, ok bool) {
	if r.Limit == "" {
		return "", "", false
	}
	return r.Limit, c.OrganizationID + " " + r.pathTarget(req.PathValue).ID, true
}

// countCall counts a call and sets the RateLimit headers. The error is RateLimited.
func (g Guard) countCall(r Route, c identity.Caller, w http.ResponseWriter, req *http.Request) error {
	if g.Limiter == nil || r.Access == Public {
		return nil
	}
	class, key := r.bucket(c, req)
	d := g.Limiter.Take(class, key)
	if extra, key, ok := r.extraBucket(c, req); ok && d.Allowed {
		if e := g.Limiter.Take(extra, key); !e.Allowed {
			d = e
		}
	}
	setRateLimit(w.Header(), d)
	return d.Err()
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

// checkAddress returns RateLimited for an address with too many failed authentications.
func (g Guard) checkAddress(ip string) error {
	if g.Limiter == nil {
		return nil
	}
	return g.Limiter.Peek(ratelimit.Authentication, clientip.Bucket(ip)).Err()
}

// countFailure counts a failed authentication against the address.
func (g Guard) countFailure(err error, ip string) {
	if g.Limiter != nil && fault.Is(err, fault.Unauthenticated) {
		g.Limiter.Take(ratelimit.Authentication, clientip.Bucket(ip))
	}
}
