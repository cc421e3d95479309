package function

import (
	"context"
	"net/http"
	"strings"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

// Authenticator tells who a bearer token belongs to.
type Authenticator interface {
	// Authenticate verifies a token and, where the caller's key is read anyway, fetches the document named by reads in
	// the same round trip; the returned context carries it. Errors: Unauthenticated, Unavailable.
	Authenticate(ctx context.Context, token string, reads document.Ref) (context.Context, identity.Caller, error)
}

// Guard decides who is let in, and how often.
type Guard struct {
	Authenticator Authenticator
	// Limiter counts calls; nil counts none.
	Limiter *ratelimit.Limiter
	// Audit has an entry of every call that may change something of an organization; nil has none but those that
	// changes write.
	Audit audit.Log
	// Organizations is asked for the plan by routes that are part of a plan's feature; nil has every organization on
	// the smallest.
	Organizations Organizations
}

// admit decides who is let in, before the body is read and before the existence of anything is revealed.
func (g Guard) admit(r Route, w http.ResponseWriter, req *http.Request) (context.Context, error) {
	ctx := req.Context()
	if r.Access == Public {
		return ctx, nil
	}
	ctx, caller, err := g.authenticate(r, req)
	if err != nil {
		return ctx, err
	}
	ctx = identity.With(ctx, caller)
	if err := r.Access.check(caller); err != nil {
		return ctx, g.refused(r, caller, req, err)
	}
	if err := g.limited(r, caller, w, req); err != nil {
		return ctx, err
	}
	return ctx, g.included(ctx, r, caller)
}

// refused counts a call that its caller may not make, because it costs an entry in the audit log. The error is the
// refusal, or RateLimited.
func (g Guard) refused(r Route, c identity.Caller, req *http.Request, refusal error) error {
	if g.Limiter == nil || !r.Mutates() || c.OrganizationID == "" {
		return refusal
	}
	if err := g.Limiter.Take(r.bucket(c, req)).Err(); err != nil {
		return err
	}
	return refusal
}

// authenticate tells who the caller is. An address that failed too often is not asked any more.
func (g Guard) authenticate(r Route, req *http.Request) (context.Context, identity.Caller, error) {
	ctx, ip := req.Context(), audit.From(req.Context()).IP
	if err := g.strangers(ip); err != nil {
		return ctx, identity.Caller{}, err
	}
	token, err := bearer(req.Header)
	if err != nil {
		return ctx, identity.Caller{}, err
	}
	var reads document.Ref
	if r.Reads != nil {
		reads = r.Reads(req.PathValue)
	}
	fetched, caller, err := g.Authenticator.Authenticate(ctx, token, reads)
	g.failed(err, ip)
	return fetched, caller, err
}

// check decides whether a caller may use a route. The error is Forbidden.
func (a Access) check(c identity.Caller) error {
	switch {
	case a == User:
		return nil
	case c.OrganizationID == "":
		return fault.New(fault.Forbidden, "organization_required",
			"The session has no active organization. Choose one and use the token that the identity provider issues then.")
	case a == Admin && !c.Admin():
		return fault.New(fault.Forbidden, "role_required", "This needs the role org:admin. Members are read-only.")
	default:
		return nil
	}
}

func bearer(h http.Header) (string, error) {
	value := h.Get("Authorization")
	if value == "" {
		return "", fault.New(fault.Unauthenticated, "missing_token",
			"Send a bearer token: Authorization: Bearer <token>.")
	}
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", identity.InvalidToken()
	}
	return token, nil
}
