package identity

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/ratelimit"
)

// InvalidToken returns the error for every invalid bearer token. It does not reveal what is wrong with the token.
func InvalidToken() *fault.Error {
	return fault.New(fault.Unauthenticated, "invalid_token",
		"The bearer token is not valid. It may be mistyped, expired or revoked.")
}

// Authenticator identifies the caller behind a bearer token. A token that begins with apikey.Scheme is an API key; any
// other token is a session, or an agent's own key on a route for agents.
type Authenticator struct {
	Sessions  Sessions
	Keys      apikey.Finder
	Directory organization.Directory
	// Agents finds agents by their own API keys; nil finds none.
	Agents AgentFinder
	// Peppers are the secret keys of the hashes under which API keys are stored.
	Peppers apikey.Peppers
	// Now is the clock.
	Now func() time.Time
	// Limiter bounds the look-ups of unknown keys from one address; nil for no bound.
	Limiter *ratelimit.Limiter
	// RecentKeys remembers the keys that were valid lately, whose look-ups are not bounded; nil remembers none.
	RecentKeys *ratelimit.Recent
	// RecentAgents does the same for agents' own API keys.
	RecentAgents *ratelimit.Recent
}

// NewRecentKeys returns the memory of valid keys of a process, about 1 MB. now is the clock; nil means time.Now.
func NewRecentKeys(now func() time.Time) *ratelimit.Recent {
	return ratelimit.NewRecent(10*time.Minute, 20_000, now)
}

// NewRecentAgents returns the memory of agents' valid keys, which has the same size. It is a long one: an agent may
// call once a day, when it falls asleep, and others behind its address may send invalid keys all day.
func NewRecentAgents(now func() time.Time) *ratelimit.Recent {
	return ratelimit.NewRecent(48*time.Hour, 20_000, now)
}

// Attempt is what a request shows of its caller.
type Attempt struct {
	Token string
	// Address stands for the client's address in limits.
	Address string
	// Reads names the document that the route reads, if any.
	Reads document.Ref
	// AgentID is the agent that may call the route with its own API key; empty if none may.
	AgentID string
}

// AgentFinder finds agents by their own API keys.
type AgentFinder interface {
	// FindAgent returns the organization and the name of an agent with the hash of an API key; see credential.HashKey.
	// Errors: NotFound, Unavailable.
	FindAgent(ctx context.Context, agentID, keyHash string) (organizationID, name string, err error)
}

// Authenticate implements function.Authenticator. What can be checked without the store is checked first: the form and
// the checksum of a key, and the signature and the claims of a session. A refusal there costs little and counts for no
// address, so that garbage does not shut out the other callers behind its address.
func (a *Authenticator) Authenticate(ctx context.Context, t Attempt) (Caller, *document.Fetched, error) {
	if strings.HasPrefix(t.Token, apikey.Scheme) {
		return a.authenticateKey(ctx, t)
	}
	if t.AgentID != "" && a.Agents != nil && strings.HasPrefix(t.Token, credential.KeyScheme) {
		c, err := a.authenticateAgent(ctx, t)
		return c, nil, err
	}
	claims, err := a.Sessions.Verify(ctx, t.Token)
	if err != nil {
		return Caller{}, nil, err
	}
	c := Caller{
		Type: Session, ID: userID(claims), Subject: claims.Subject, Email: claims.Email, Name: claims.Name,
		OrganizationID: claims.OrganizationID, Role: claims.Role, IssuedAt: claims.IssuedAt,
	}
	user := organization.User{ID: c.ID, Subject: c.Subject, Email: c.Email, Name: c.Name, CreatedAt: a.Now()}
	ended, err := a.Directory.Ensure(ctx, c.OrganizationID, user)
	switch {
	case err != nil:
		return Caller{}, nil, err
	case EndedBy(c.IssuedAt, ended):
		slog.DebugContext(ctx, "session of a former role refused", "user_id", c.ID)
		return Caller{}, nil, InvalidToken()
	}
	return c, nil, nil
}

// userID derives the user's id from issuer and subject, so that concurrent requests create the same record.
func userID(c Claims) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(c.Issuer+"#"+c.Subject)).String()
}

// authenticateKey identifies the caller behind an API key and records the key's use. An address with too many look-ups
// of invalid keys gets no look-up of a further key, unless that was valid lately. The store decides about every key in
// each call, so that a revoked key is refused immediately.
func (a *Authenticator) authenticateKey(ctx context.Context, t Attempt) (Caller, *document.Fetched, error) {
	if !apikey.WellFormed(t.Token) {
		return Caller{}, nil, InvalidToken()
	}
	if err := a.checkLookUp(t); err != nil {
		return Caller{}, nil, err
	}
	hash, others := a.Peppers.Hashes(t.Token)
	k, fetched, err := a.Keys.Find(ctx, hash, t.Reads, others...)
	switch {
	case fault.Is(err, fault.NotFound):
		return Caller{}, nil, a.refuseKey(t)
	case err != nil:
		return Caller{}, nil, err
	case k.Expired(a.Now()):
		slog.DebugContext(ctx, "expired API key refused", "key_prefix", k.Prefix)
		return Caller{}, nil, a.refuseKey(t)
	}
	a.RecentKeys.Add(t.Token)
	if moved, outdated := a.Peppers.Moved(k, t.Token); outdated {
		a.Keys.Move(ctx, k.Hash, moved)
	} else {
		a.Keys.Touch(ctx, k)
	}
	c := Caller{
		Type: APIKey, ID: k.ID, Name: k.Name, OrganizationID: k.OrganizationID, Role: k.Role, KeyPrefix: k.Prefix,
	}
	return c, fetched, nil
}

// authenticateAgent identifies an agent that calls with its own API key. All agents of a cell call from few addresses,
// so failed look-ups count for a key of an agent and an address: whoever guesses for another agent, whose hostname has
// its ID, does not shut out that one. They count for the address, too, with a larger limit, because a stranger may name
// any number of keys and agents.
func (a *Authenticator) authenticateAgent(ctx context.Context, t Attempt) (Caller, error) {
	if !credential.KeyWellFormed(t.Token) {
		return Caller{}, InvalidToken()
	}
	hash := credential.HashKey(t.AgentID, t.Token)
	key := t.Address + " " + hash
	if a.Limiter != nil && !a.RecentAgents.Has(hash) {
		if err := cmp.Or(a.Limiter.Peek(ratelimit.Authentication, key).Err(),
			a.Limiter.Peek(ratelimit.AgentAuthentication, t.Address).Err()); err != nil {
			return Caller{}, err
		}
	}
	organizationID, name, err := a.Agents.FindAgent(ctx, t.AgentID, hash)
	switch {
	case fault.Is(err, fault.NotFound):
		a.RecentAgents.Remove(hash)
		a.charge(ratelimit.Authentication, key)
		a.charge(ratelimit.AgentAuthentication, t.Address)
		return Caller{}, InvalidToken()
	case err != nil:
		return Caller{}, err
	}
	a.RecentAgents.Add(hash)
	c := Caller{Type: Agent, ID: t.AgentID, Name: name, OrganizationID: organizationID, Role: RoleMember}
	return c, nil
}

// checkLookUp returns RateLimited for a key that was not valid lately, if the address has too many look-ups of invalid
// keys.
func (a *Authenticator) checkLookUp(t Attempt) error {
	if a.Limiter == nil || a.RecentKeys.Has(t.Token) {
		return nil
	}
	return a.Limiter.Peek(ratelimit.Authentication, t.Address).Err()
}

// refuseKey counts a look-up of an invalid key. It counts those that were under way when the limit was reached, too, so
// that sending many at the same time gains nothing.
func (a *Authenticator) refuseKey(t Attempt) error {
	a.RecentKeys.Remove(t.Token)
	a.charge(ratelimit.Authentication, t.Address)
	return InvalidToken()
}

func (a *Authenticator) charge(class ratelimit.Class, bucket string) {
	if a.Limiter != nil {
		a.Limiter.Charge(class, bucket)
	}
}
