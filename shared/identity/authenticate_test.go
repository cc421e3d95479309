package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
)

// outside is what an authenticator asks: sessions by their token, keys by their hash.
type outside struct {
	sessions map[string]identity.Claims
	keys     map[string]apikey.Key
	down     bool
	touched  int
	ensured  []string
	finds    int
}

var errDown = fault.New(fault.Unavailable, "store_unavailable", "Down.")

func (o *outside) Verify(_ context.Context, token string) (identity.Claims, error) {
	c, ok := o.sessions[token]
	if !ok {
		return c, identity.InvalidToken()
	}
	return c, nil
}

func (o *outside) Find(ctx context.Context, hash string, also document.Ref) (context.Context, apikey.Key, error) {
	o.finds++
	k, ok := o.keys[hash]
	switch {
	case o.down:
		return ctx, k, errDown
	case !ok:
		return ctx, k, apikey.NotFound()
	default:
		return document.WithFetched(ctx, also, "fetched"), k, nil
	}
}

func (o *outside) Touch(context.Context, apikey.Key) { o.touched++ }

func (o *outside) Ensure(_ context.Context, organizationID string, u organization.User) error {
	o.ensured = append(o.ensured, organizationID+" "+u.ID)
	if o.down {
		return errDown
	}
	return nil
}

func (o *outside) Organization(context.Context, string) (organization.Organization, error) {
	return organization.Organization{}, errors.New("not asked for")
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pepper := []byte("pepper")
	good, expired, unknown := apikey.Generate(), apikey.Generate(), apikey.Generate()
	world := func() *outside {
		return &outside{
			sessions: map[string]identity.Claims{"jwt": {Issuer: "i", Subject: "s", OrganizationID: "o1",
				Role: identity.RoleMember}},
			keys: map[string]apikey.Key{
				apikey.Hash(pepper, good): {ID: "k1", OrganizationID: "o2", Prefix: good[:11],
					ExpiresAt: now.Add(time.Second)},
				apikey.Hash(pepper, expired): {ID: "k2", OrganizationID: "o2", ExpiresAt: now},
			},
		}
	}
	cases := map[string]struct {
		token string
		down  bool
		want  identity.Caller
		code  string
		finds int
	}{
		"a session": {token: "jwt",
			want: identity.Caller{Type: identity.Session, Subject: "s", OrganizationID: "o1",
				Role: identity.RoleMember}},
		"a bad session": {token: "other", code: "invalid_token"},
		"a key": {token: good,
			want: identity.Caller{Type: identity.APIKey, ID: "k1", OrganizationID: "o2", Role: identity.RoleAdmin,
				KeyPrefix: good[:11]}, finds: 1},
		"an expired key":      {token: expired, code: "invalid_token", finds: 1},
		"an unknown key":      {token: unknown, code: "invalid_token", finds: 1},
		"a typo":              {token: good + "x", code: "invalid_token"},
		"a key, no store":     {token: good, down: true, code: "store_unavailable", finds: 1},
		"a session, no store": {token: "jwt", down: true, code: "store_unavailable"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := world()
			o.down = c.down
			a := &identity.Authenticator{Sessions: o, Keys: o, Directory: o, Pepper: pepper,
				Now: func() time.Time { return now }}
			ref := document.Ref{Collection: "agents", ID: "a"}
			ctx, caller, err := a.Authenticate(t.Context(), c.token, ref)
			if fault.Code(err) != c.code || o.finds != c.finds {
				t.Fatalf("error %v, %d look-ups", err, o.finds)
			}
			if err != nil {
				return
			}
			if caller.Type == identity.Session {
				if caller.ID == "" || len(o.ensured) != 1 || o.ensured[0] != "o1 "+caller.ID {
					t.Errorf("ensured %v for %+v", o.ensured, caller)
				}
				caller.ID = ""
			} else if _, fetched := document.Fetched(ctx, ref); !fetched || o.touched != 1 {
				t.Errorf("fetched %t, touched %d", fetched, o.touched)
			}
			if caller != c.want {
				t.Errorf("caller %+v, want %+v", caller, c.want)
			}
		})
	}
}
