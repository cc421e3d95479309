package function

import (
	"context"
	"net/http"
	"strings"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

// Authenticator identifies the caller behind a bearer token.
type Authenticator interface {
	// Authenticate verifies a token. If that reads an API key from the store, the same round trip fetches the document
	// that the route reads. Errors: Unauthenticated; RateLimited for the look-up of a key from an address with too many
	// invalid ones; Unavailable.
	Authenticate(ctx context.Context, t identity.Attempt) (identity.Caller, *document.Fetched, error)
}

// Guard decides which calls a route accepts, and writes the audit entries of mutating calls.
type Guard struct {
	Authenticator Authenticator
	// Limiter counts calls; nil disables rate limits.
	Limiter *ratelimit.Limiter
	// Audit receives an entry for each mutating call whose change did not write one in its own commit; nil disables
	// these entries.
	Audit audit.Log
	// Answers finds and keeps the answers of calls with an Idempotency-Key. Nil leaves the key to the handlers' stores.
	Answers idempotency.Answers
	// Organizations reads the plan for routes with a Feature; nil treats every organization as on the smallest plan.
	Organizations Organizations
	// Lines bounds the log lines about calls without a known caller, and over a limit; nil bounds none.
	Lines *LineBudget
}

// admit authenticates the caller and checks access, rate limits and the plan. It does not read the body, and its errors
// do not reveal whether the object in the path exists. It records in c who calls, and what was fetched. The caller of
// admit passes the outcome of the handler to the settlement, unless it is nil.
func (g Guard) admit(c *call.Call, r *Route, w http.ResponseWriter, req *http.Request) (settlement, error) {
	var err error
	switch r.Access {
	case Public:
		return nil, nil
	case Bearer:
		c.Token, err = bearerToken(req.Header)
		if strings.HasPrefix(c.Token, apikey.Scheme) && !apikey.WellFormed(c.Token) {
			err = identity.InvalidToken() // a mistyped key is refused without a call
		}
		return nil, err
	case Admin, Member, User:
	}
	if c.Caller, c.Fetched, err = g.authenticate(c.Request, r, req); err != nil {
		return nil, err
	}
	if err := r.check(c.Caller, req); err != nil {
		return nil, g.countRefusal(r, c.Caller, err)
	}
	settle, err := g.countCall(c, r, w, req)
	if err != nil {
		return nil, err
	}
	return settle, g.checkFeature(req.Context(), r, c.Caller)
}

// countRefusal counts a call that access control refused, because its caller was looked up and it may cost an audit
// entry. It returns the refusal, or RateLimited.
func (g Guard) countRefusal(r *Route, c identity.Caller, refusal error) error {
	if g.Limiter == nil {
		return refusal
	}
	class := ratelimit.Reads
	if r.audited() {
		class = ratelimit.Mutations
	}
	if err := g.Limiter.Take(class, c.Key()).Err(); err != nil {
		return err
	}
	if err := g.countOrganization(r, c).Err(); err != nil {
		return err
	}
	return refusal
}

// authenticate identifies the caller.
func (g Guard) authenticate(facts audit.Request, r *Route, req *http.Request) (identity.Caller, *document.Fetched,
	error,
) {
	token, err := bearerToken(req.Header)
	if err != nil {
		return identity.Caller{}, nil, err
	}
	t := identity.Attempt{Token: token, Address: clientip.Bucket(facts.IP)}
	if r.OwnKey {
		t.AgentID = r.pathTarget(req.PathValue).ID
	}
	if r.Reads != nil {
		t.Reads = r.Reads(req.PathValue)
	}
	return g.Authenticator.Authenticate(req.Context(), t)
}

// check returns Forbidden unless the caller may call the route. An agent was only identified if it may.
func (r *Route) check(c identity.Caller, req *http.Request) error {
	if c.Type == identity.Agent ||
		c.Type == identity.APIKey && r.KeyItself != "" && c.ID == req.PathValue(r.KeyItself) {
		return nil
	}
	return r.Access.check(c)
}

// check returns Forbidden unless the caller has this access.
func (a Access) check(c identity.Caller) error {
	switch {
	case a == User:
		return nil
	case c.OrganizationID == "":
		return fault.New(fault.Forbidden, "organization_required",
			"The session has no active organization. Select one at the identity provider and use the new token.")
	case a == Admin && !c.Admin():
		return fault.New(fault.Forbidden, "role_required",
			"This operation requires the role admin. Members and API keys with the role member are read-only.")
	default:
		return nil
	}
}

// bearerToken returns the token of the Authorization header. Errors: Unauthenticated.
func bearerToken(h http.Header) (string, error) {
	value := h.Get("Authorization")
	if value == "" {
		return "", fault.New(fault.Unauthenticated, "missing_token",
			"The request has no bearer token. Send the header Authorization: Bearer <token>.")
	}
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || strings.ContainsAny(token, " \t,") {
		return "", identity.InvalidToken()
	}
	return token, nil
}
