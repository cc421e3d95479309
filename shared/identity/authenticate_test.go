package identity_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
)

// fakeStores implements the three ports of an Authenticator: Sessions, Keys and Directory.
type fakeStores struct {
	sessions map[string]identity.Claims // by token
	keys     map[string]apikey.Key      // by hash
	down     bool
	// sessionsEnded is when the sessions of every user were ended.
	sessionsEnded time.Time

	finds, touches int
	moves          []string // the hash before and after
	ensured        []string // organization and user id
}

var errDown = fault.New(fault.Unavailable, "store_unavailable", "Down.")

func (f *fakeStores) Verify(_ context.Context, token string) (identity.Claims, error) {
	claims, ok := f.sessions[token]
	if !ok {
		return claims, identity.InvalidToken()
	}
	return claims, nil
}

func (f *fakeStores) Find(_ context.Context, hash string, also document.Ref, others ...string) (apikey.Key,
	*document.Fetched, error,
) {
	f.finds++
	k, ok := f.keys[hash]
	for _, other := range others {
		if !ok {
			k, ok = f.keys[other]
		}
	}
	switch {
	case f.down:
		return k, nil, errDown
	case !ok:
		return k, nil, apikey.NotFound()
	default:
		return k, document.NewFetched(also, k.OrganizationID, "fetched"), nil
	}
}

func (f *fakeStores) Touch(context.Context, apikey.Key) { f.touches++ }

func (f *fakeStores) Move(_ context.Context, from string, to apikey.Key) {
	f.moves = append(f.moves, from, to.Hash)
}

func (f *fakeStores) Ensure(_ context.Context, organizationID string, u organization.User) (time.Time, error) {
	f.ensured = append(f.ensured, organizationID+" "+u.ID)
	if f.down {
		return time.Time{}, errDown
	}
	return f.sessionsEnded, nil
}

func (*fakeStores) SessionsEnded(context.Context, string, string) (time.Time, error) {
	return time.Time{}, errors.New("an authenticator must not read memberships twice")
}

func (*fakeStores) Organization(context.Context, string) (organization.Organization, error) {
	return organization.Organization{}, errors.New("an authenticator must not read organizations")
}

func TestAuthenticator_IdentifiesCallers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pepper := []byte("pepper")
	valid, member, expired, unknown := apikey.Generate(), apikey.Generate(), apikey.Generate(), apikey.Generate()
	agent := document.Ref{Collection: "agents", ID: "a"}
	for name, c := range map[string]struct {
		token      string
		down       bool
		wantCaller identity.Caller // of a session without its ID
		wantCode   string
		wantFinds  int
	}{
		"session": {token: "jwt", wantCaller: identity.Caller{
			Type: identity.Session, Subject: "s", OrganizationID: "o1", Role: identity.RoleMember,
		}},
		"invalid session": {token: "other", wantCode: "invalid_token"},
		"key": {token: valid, wantFinds: 1, wantCaller: identity.Caller{
			Type: identity.APIKey, ID: "k1", OrganizationID: "o2", Role: identity.RoleAdmin, KeyPrefix: valid[:11],
		}},
		"member key": {token: member, wantFinds: 1, wantCaller: identity.Caller{
			Type: identity.APIKey, ID: "k3", OrganizationID: "o2", Role: identity.RoleMember, KeyPrefix: member[:11],
		}},
		"expired key":                 {token: expired, wantCode: "invalid_token", wantFinds: 1},
		"unknown key":                 {token: unknown, wantCode: "invalid_token", wantFinds: 1},
		"malformed key":               {token: valid + "x", wantCode: "invalid_token"},
		"key while store is down":     {token: valid, down: true, wantCode: "store_unavailable", wantFinds: 1},
		"session while store is down": {token: "jwt", down: true, wantCode: "store_unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stores := &fakeStores{
				down: c.down,
				sessions: map[string]identity.Claims{
					"jwt": {Issuer: "i", Subject: "s", OrganizationID: "o1", Role: identity.RoleMember},
				},
				keys: map[string]apikey.Key{
					apikey.Hash(pepper, valid): {
						ID: "k1", OrganizationID: "o2", Prefix: valid[:11], Role: identity.RoleAdmin,
						ExpiresAt: now.Add(time.Second),
					},
					apikey.Hash(pepper, member): {
						ID: "k3", OrganizationID: "o2", Prefix: member[:11], Role: identity.RoleMember,
					},
					apikey.Hash(pepper, expired): {ID: "k2", OrganizationID: "o2", ExpiresAt: now},
				},
			}
			a := &identity.Authenticator{
				Sessions: stores, Keys: stores, Directory: stores, Peppers: apikey.Peppers{Present: pepper},
				Now: func() time.Time { return now },
			}
			got, fetched, err := a.Authenticate(t.Context(), identity.Attempt{Token: c.token, Reads: agent})
			if code := fault.Code(err); code != c.wantCode {
				t.Fatalf("error = %v, want code %q", err, c.wantCode)
			}
			if stores.finds != c.wantFinds {
				t.Fatalf("looked up %d keys, want %d", stores.finds, c.wantFinds)
			}
			if err != nil {
				return
			}
			if got.Type == identity.Session {
				if got.ID == "" {
					t.Error("caller has no ID")
				}
				if want := []string{"o1 " + got.ID}; !slices.Equal(stores.ensured, want) {
					t.Errorf("ensured %q, want %q", stores.ensured, want)
				}
				got.ID = ""
			} else {
				if fetched.Snapshot(agent) != "fetched" {
					t.Errorf("fetched %+v, want the document that was asked for", fetched)
				}
				if stores.touches != 1 {
					t.Errorf("recorded %d uses of the key, want 1", stores.touches)
				}
			}
			if got != c.wantCaller {
				t.Errorf("caller = %+v, want %+v", got, c.wantCaller)
			}
		})
	}
}

// TestAuthenticator_MovesKeysOfThePreviousPepperOnly uses a key of each pepper at each step of a change.
func TestAuthenticator_MovesKeysOfThePreviousPepperOnly(t *testing.T) {
	t.Parallel()
	one, two := apikey.Pepper("1"), apikey.Pepper("2")
	first, second := apikey.Peppers{Present: one, Next: two}, apikey.Peppers{Present: two, Previous: one}
	for name, c := range map[string]struct {
		peppers  apikey.Peppers
		under    apikey.Pepper
		accepted bool
		moved    bool
	}{
		"before":                     {peppers: apikey.Peppers{Present: one}, under: one, accepted: true},
		"before, of the next":        {peppers: apikey.Peppers{Present: one}, under: two},
		"first step":                 {peppers: first, under: one, accepted: true},
		"first step, of the next":    {peppers: first, under: two, accepted: true},
		"second step":                {peppers: second, under: two, accepted: true},
		"second step, of the former": {peppers: second, under: one, accepted: true, moved: true},
		"after":                      {peppers: apikey.Peppers{Present: two}, under: two, accepted: true},
		"after, of the former":       {peppers: apikey.Peppers{Present: two}, under: one},
		"the same pepper twice": {
			peppers: apikey.Peppers{Present: one, Previous: one}, under: one, accepted: true,
		},
	} {
		token := apikey.Generate()
		k := apikey.Key{ID: "k", OrganizationID: "o"}.HashedWith(c.under, token)
		stores := &fakeStores{keys: map[string]apikey.Key{k.Hash: k}}
		a := &identity.Authenticator{Keys: stores, Peppers: c.peppers, Now: time.Now}
		_, _, err := a.Authenticate(t.Context(), identity.Attempt{Token: token})
		if accepted := err == nil; accepted != c.accepted || stores.finds != 1 {
			t.Errorf("%s: accepted: %t (%v) with %d look-ups, want accepted: %t with 1", name, accepted, err,
				stores.finds, c.accepted)
		}
		var want []string
		if c.moved {
			want = []string{k.Hash, apikey.Hash(c.peppers.Present, token)}
		}
		if used := stores.touches == 1; !slices.Equal(stores.moves, want) || used != (c.accepted && !c.moved) {
			t.Errorf("%s: moves %q, and a use was recorded without a move: %t; want %q", name, stores.moves, used, want)
		}
	}
}
