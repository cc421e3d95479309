package identity_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/ratelimit"
)

const (
	nat       = "203.0.113.55"
	elsewhere = "203.0.113.56"
)

// limited is an authenticator with the limits of production, two valid keys, a valid session "jwt" and a clock.
type limited struct {
	*identity.Authenticator
	stores     *fakeStores
	now        *time.Time
	key, other string
}

func newLimited() limited {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	l := limited{key: apikey.Generate(), other: apikey.Generate(), now: &now}
	l.stores = &fakeStores{
		sessions: map[string]identity.Claims{"jwt": {Issuer: "i", Subject: "s"}},
		keys: map[string]apikey.Key{
			apikey.Hash(nil, l.key):   {ID: "k1", OrganizationID: "o"},
			apikey.Hash(nil, l.other): {ID: "k2", OrganizationID: "o"},
		},
	}
	l.Authenticator = &identity.Authenticator{
		Sessions: l.stores, Keys: l.stores, Directory: l.stores, Now: clock,
		Limiter: ratelimit.New(ratelimit.Standard(1), clock), RecentKeys: identity.NewRecentKeys(clock),
		RecentAgents: identity.NewRecentAgents(clock),
	}
	return l
}

// want authenticates a token, and checks the error code and whether the store was asked for a key.
func (l limited) want(t *testing.T, token, address, wantCode string, wantLookups int) {
	t.Helper()
	before := l.stores.finds
	_, _, err := l.Authenticate(t.Context(), identity.Attempt{Token: token, Address: address})
	if code := fault.Code(err); code != wantCode {
		t.Errorf("from %s: error %v, want code %q", address, err, wantCode)
	}
	if got := l.stores.finds - before; got != wantLookups {
		t.Errorf("from %s: %d look-ups, want %d", address, got, wantLookups)
	}
}

// flood sends unknown keys until the address may send no more.
func (l limited) flood(t *testing.T, address string) {
	t.Helper()
	for range 20 {
		l.want(t, apikey.Generate(), address, "invalid_token", 1)
	}
	l.want(t, apikey.Generate(), address, "rate_limited", 0)
}

func TestAuthenticator_RefusesGarbageWithoutALookUp(t *testing.T) {
	t.Parallel()
	l := newLimited()
	mistyped := l.key[:len(l.key)-1] + "!"
	for _, token := range []string{"so_bad", mistyped, "eyJ.e30.x", "garbage"} {
		for range 100 {
			l.want(t, token, nat, "invalid_token", 0)
		}
	}
	if got := l.Limiter.Buckets(); got != 0 {
		t.Errorf("Buckets = %d after garbage, want 0", got)
	}
	l.want(t, l.key, nat, "", 1)
}

func TestAuthenticator_BoundsLookUpsOfUnknownKeysByAddress(t *testing.T) {
	t.Parallel()
	l := newLimited()
	l.flood(t, nat)
	l.want(t, l.key, elsewhere, "", 1)
	*l.now = l.now.Add(15 * time.Second)
	l.want(t, apikey.Generate(), nat, "invalid_token", 1)
	l.want(t, apikey.Generate(), nat, "rate_limited", 0)
}

// TestAuthenticator_AFloodLeavesOthersBehindTheAddress holds who passes from an address that may look up no further
// key.
func TestAuthenticator_AFloodLeavesOthersBehindTheAddress(t *testing.T) {
	t.Parallel()
	l := newLimited()
	l.want(t, l.key, nat, "", 1)
	l.flood(t, nat)
	for range 100 {
		l.want(t, l.key, nat, "", 1)
		l.want(t, "jwt", nat, "", 0)
	}
	l.want(t, l.other, nat, "rate_limited", 0) // it was never seen
	l.want(t, l.other, elsewhere, "", 1)
	l.want(t, l.other, nat, "", 1)
	*l.now = l.now.Add(9 * time.Minute)
	l.want(t, l.key, nat, "", 1)
	*l.now = l.now.Add(9 * time.Minute) // the last use counts
	l.flood(t, nat)
	l.want(t, l.key, nat, "", 1)
	*l.now = l.now.Add(10 * time.Minute)
	l.flood(t, nat)
	l.want(t, l.key, nat, "rate_limited", 0)
}

// TestAuthenticator_RefusesARevokedKeyImmediately revokes and expires keys that were valid a moment before.
func TestAuthenticator_RefusesARevokedKeyImmediately(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l limited){
		"revoked": func(l limited) { delete(l.stores.keys, apikey.Hash(nil, l.key)) },
		"expired": func(l limited) {
			l.stores.keys[apikey.Hash(nil, l.key)] = apikey.Key{ID: "k1", ExpiresAt: *l.now}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLimited()
			l.want(t, l.key, nat, "", 1)
			end(l)
			l.flood(t, nat)
			l.want(t, l.key, nat, "invalid_token", 1)
			l.want(t, l.key, nat, "rate_limited", 0)
		})
	}
}

func TestAuthenticator_CountsNoOutages(t *testing.T) {
	t.Parallel()
	l := newLimited()
	l.stores.down = true
	for range 100 {
		l.want(t, l.other, nat, "store_unavailable", 1)
	}
	l.stores.down = false
	l.want(t, l.other, nat, "", 1)
}

// ownKeys has the hash of one agent's API key.
type ownKeys struct {
	agentID, hash string
	finds         *int
}

func (k ownKeys) FindAgent(_ context.Context, agentID, hash string) (organizationID, name string, err error) {
	*k.finds++
	if agentID != k.agentID || hash != k.hash {
		return "", "", fault.New(fault.NotFound, "agent_not_found", "There is no such agent.")
	}
	return "o", "a", nil
}

// TestAuthenticator_LimitsLookUpsOfAgentsKeys: all agents of a cell call from one address, and one of them must not
// shut out the others.
func TestAuthenticator_LimitsLookUpsOfAgentsKeys(t *testing.T) {
	t.Parallel()
	const mine, key = "3fa85f64-5717-4562-b3fc-2c963f66afa6", "ak_mine_cdefghijklmnopqrstuvwxyz012"
	const guess = "ak_guesscdefghijklmnopqrstuvwxyz012"
	const other = "3fa85f64-5717-4562-b3fc-2c963f66afa7"
	l, finds := newLimited(), 0
	l.Agents = ownKeys{agentID: mine, hash: credential.HashKey(mine, key), finds: &finds}
	ask := func(agentID, token string) (identity.Caller, string) {
		c, _, err := l.Authenticate(t.Context(), identity.Attempt{Token: token, Address: nat, AgentID: agentID})
		return c, fault.Code(err)
	}
	for range 20 {
		if _, code := ask(other, guess); code != "invalid_token" {
			t.Fatalf("a guess is refused with %q", code)
		}
	}
	if _, code := ask(other, guess); code != "rate_limited" || finds != 20 {
		t.Errorf("after 20 guesses: %q and %d look-ups", code, finds)
	}
	want := identity.Caller{
		Type: identity.Agent, ID: mine, Name: "a", OrganizationID: "o", Role: identity.RoleMember,
	}
	if got, code := ask(mine, key); code != "" || got != want {
		t.Errorf("the other agent's key: %+v, %q", got, code)
	}
	if _, code := ask("", key); code != "invalid_token" || finds != 21 {
		t.Errorf("on a route that is not for agents: %q and %d look-ups, want the former 21", code, finds)
	}
	for _, garbage := range []string{"ak_", guess[:len(guess)-1], guess + "0", guess[:len(guess)-1] + "!"} {
		if _, code := ask(mine, garbage); code != "invalid_token" || finds != 21 {
			t.Errorf("%s: %q and %d look-ups, want the former 21", garbage, code, finds)
		}
	}
}

// TestAuthenticator_BoundsLookUpsOfAgentsKeysByAddress guesses the keys of a thousand agents, each of which has a full
// bucket.
func TestAuthenticator_BoundsLookUpsOfAgentsKeysByAddress(t *testing.T) {
	t.Parallel()
	const mine = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	key := credential.Generate("").APIKey
	l, finds := newLimited(), 0
	l.Agents = ownKeys{agentID: mine, hash: credential.HashKey(mine, key), finds: &finds}
	want := func(agentID, token, address, wantCode string) {
		t.Helper()
		_, _, err := l.Authenticate(t.Context(), identity.Attempt{Token: token, Address: address, AgentID: agentID})
		if code := fault.Code(err); code != wantCode {
			t.Fatalf("after %d look-ups from %s: error %v, want code %q", finds, address, err, wantCode)
		}
	}
	guess := func(wantCode string) {
		t.Helper()
		want(uuid.NewString(), credential.Generate("").APIKey, nat, wantCode)
	}
	want(mine, key, nat, "")
	for range 600 {
		guess("invalid_token")
	}
	for range 400 {
		guess("rate_limited")
	}
	if finds != 601 {
		t.Errorf("1,000 guesses took %d look-ups, want 600", finds-1)
	}
	want(mine, key, nat, "")     // it was valid lately
	l.want(t, l.key, nat, "", 1) // API keys are counted separately
	want(mine, key, elsewhere, "")
	*l.now = l.now.Add(time.Second / 2) // a look-up is refilled
	guess("invalid_token")
	guess("rate_limited")
}

// TestAuthenticator_GuessesLeaveAgentsBehindTheAddress: an agent that sends keys for another one, or for any, does not
// shut out the others that call from the address of its cell.
func TestAuthenticator_GuessesLeaveAgentsBehindTheAddress(t *testing.T) {
	t.Parallel()
	const mine = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	for name, c := range map[string]struct {
		guesses int
		of      func() (agentID string)
		// calledBefore says that the agent has called, a day and some hours before.
		calledBefore bool
	}{
		"for this agent": {guesses: 100, of: func() string { return mine }},
		"for any agent":  {guesses: 1000, of: uuid.NewString, calledBefore: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := credential.Generate("").APIKey
			l, finds := newLimited(), 0
			l.Agents = ownKeys{agentID: mine, hash: credential.HashKey(mine, key), finds: &finds}
			ask := func(agentID, token string) string {
				attempt := identity.Attempt{Token: token, Address: nat, AgentID: agentID}
				_, _, err := l.Authenticate(t.Context(), attempt)
				return fault.Code(err)
			}
			if c.calledBefore {
				if code := ask(mine, key); code != "" {
					t.Fatalf("the agent's first call: %q", code)
				}
				*l.now = l.now.Add(30 * time.Hour)
			}
			for range c.guesses {
				ask(c.of(), credential.Generate("").APIKey)
			}
			if code := ask(mine, key); code != "" {
				t.Errorf("after %d guesses: %q, want the agent's call accepted", c.guesses, code)
			}
			l.Agents = ownKeys{agentID: mine, finds: &finds} // its key was replaced
			former := finds
			for range 100 {
				ask(mine, key)
			}
			if finds-former > 20 {
				t.Errorf("100 calls with a former key took %d look-ups, want 20 at most", finds-former)
			}
		})
	}
}
